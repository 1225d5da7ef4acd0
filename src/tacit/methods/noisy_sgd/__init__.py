"""Noisy SGD: each step releases the sum of all records' clipped gradients with noise; the model is the student."""
