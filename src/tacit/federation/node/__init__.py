"""The node: answers questions from its own records, through its own ledger."""
