"""A live, read-only view of a folder on this machine: runs, running jobs, ledgers, and a planning form."""
