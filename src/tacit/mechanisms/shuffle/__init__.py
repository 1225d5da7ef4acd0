"""Mechanisms that trust a shuffler: one message per client, hidden among others, or many with shares of the noise."""
