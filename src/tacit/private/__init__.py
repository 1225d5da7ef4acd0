"""THE PRIVATE SIDE: wrapped records, the gate that is the only door out, and partitioning into holders."""
