"""Runs: ``distill`` and the estimator, payment, the guarantee from receipts, and saved runs."""
