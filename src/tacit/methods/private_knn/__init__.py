"""Private k-NN: for every query a fresh sample of the records votes, and only noisy votes are released."""
