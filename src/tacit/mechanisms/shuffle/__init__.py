"""Mechanisms that trust a shuffler: single-message (amplification by shuffling) and multi-message (noise messages)."""
