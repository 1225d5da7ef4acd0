"""Local mechanisms, which trust nobody: every participant randomizes its own cells."""
