"""Encoders of samples, fitted on public inputs only."""
