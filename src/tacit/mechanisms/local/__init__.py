"""Mechanisms that trust nobody: every client randomizes its own cells, many messages decode to counts."""
