"""The k nearest queries of every record: exact, in blocks, in memory that does not grow with the records."""

from tacit.neighbors.search import RecordBlocks
from tacit.neighbors.votes import nearest_queries, vote_counts

__all__ = ["RecordBlocks", "nearest_queries", "vote_counts"]
