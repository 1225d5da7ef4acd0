"""Reverse k-NN labeling: each private record votes with its label for its k nearest public queries."""
