"""Experiments as commands: fixed parts of real data, several runs, tables and pictures beside the papers' figures."""
