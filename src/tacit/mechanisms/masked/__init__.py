"""Noise that many holders make together, so that only their sum needs to be seen and nobody has to be trusted alone."""
