"""Private k-NN: a fresh sample of the records votes on every public sample, and only noisy votes are seen."""
