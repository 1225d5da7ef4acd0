"""Federations: a coordinator sends questions to nodes, and each node answers through its own gate and ledger."""
