"""Differentially private knowledge distillation."""
