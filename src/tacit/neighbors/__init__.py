"""The k nearest queries of every record: exact, in blocks, in memory that does not grow with the records."""

from tacit.neighbors.stream import Records
from tacit.neighbors.votes import nearest_queries, vote_counts

__all__ = ["Records", "nearest_queries", "vote_counts"]
