"""A node's side."""

from tacit.federation.flower.client import app

__all__ = ["app"]
