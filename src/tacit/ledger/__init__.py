"""Who has paid what: durable, append-only, hash-chained accounts with a ceiling that no job can raise."""
