"""Flower as the transport of a federation."""
