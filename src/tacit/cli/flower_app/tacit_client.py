"""A node's side."""

from tacit.federation.flower.client import node_app

__all__ = ["node_app"]
