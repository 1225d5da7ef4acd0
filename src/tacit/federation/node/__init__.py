"""A node: it answers questions about its own records, through its own gate and ledger."""
