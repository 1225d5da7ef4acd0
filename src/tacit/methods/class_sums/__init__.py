"""Class sums: each record adds its encoding to its class's row, and the rows are released once, with integer noise."""
