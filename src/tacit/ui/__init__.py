"""A live view of a folder on this machine: runs, jobs as they go on, ledgers, and a form to plan. It only reads."""
