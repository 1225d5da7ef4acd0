"""Sums that nobody sees the parts of: pairwise masks, a mask of one's own, and shares of keys for who drops out."""
