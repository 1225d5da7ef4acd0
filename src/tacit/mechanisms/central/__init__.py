"""Mechanisms of a trusted curator: labels and counts of a whole table, and what others do with votes."""
