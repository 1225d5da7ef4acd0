"""Mechanisms that trust a shuffler: one message each, hidden in a crowd, or many with noise shares."""
