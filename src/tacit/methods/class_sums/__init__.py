"""Class sums: the sum of encoded records per class is released once, with noise, and a classifier computed from it."""
