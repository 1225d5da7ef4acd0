"""The private side: wrapped records, the gate that alone releases something, and partitioning into holders."""
