"""Distributed noise for secure aggregation: holders add noise shares, and only the sum is seen."""
