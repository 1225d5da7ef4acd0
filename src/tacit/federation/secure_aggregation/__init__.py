"""Secure aggregation: pairwise masks, one mask per holder, and secret shares of keys for holders that drop out."""
