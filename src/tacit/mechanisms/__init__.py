"""Mechanisms by trust model: each has an exact sampler, its exact law for small domains, spend and max. sensitivity."""
