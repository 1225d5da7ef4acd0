"""Engines count over one holder's many records: threads in this process, Ray or Spark, with equal results."""
