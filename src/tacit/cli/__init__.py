"""The command line: parse, call, print."""

from tacit.cli.application import main

__all__ = ["main"]
