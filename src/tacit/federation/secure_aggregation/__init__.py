"""Secure aggregation after Bonawitz et al. (2017) and Bell et al. (2020): masks, and secret sharing for dropouts."""
