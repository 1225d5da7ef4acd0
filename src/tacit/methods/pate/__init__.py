"""PATE: teachers trained on disjoint records vote on public samples, and only noisy votes are released."""
