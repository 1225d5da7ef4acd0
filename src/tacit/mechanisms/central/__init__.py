"""Mechanisms of a trusted curator: selection, noisy counts, PATE's, Private k-NN's, and sampling of records (NFDP)."""
