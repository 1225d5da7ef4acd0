"""A node's side."""

from tacit.exchange.flower_client import app

__all__ = ["app"]
