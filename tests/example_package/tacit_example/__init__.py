"""A package that is not Tacit's and adds parts of its own through entry points."""
