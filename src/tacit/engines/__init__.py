"""How one holder counts over many records: threads here, Ray or Spark on a cluster, and the same bits everywhere."""
