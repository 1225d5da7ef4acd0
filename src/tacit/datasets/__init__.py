"""Loaders of samples, one per file format."""
