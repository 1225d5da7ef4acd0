"""``tacit bench``: calls the experiments, which are in a checkout and not in the installed package."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import typer

from tacit.core.errors import InvalidInput

__all__ = ["bench"]

# Beside the folder ``src`` that this package is run from, where it is run from a checkout.
BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


def bench(context: typer.Context) -> None:
    """Repeat the experiments of the papers and of the documentation; in a checkout only.

    Example: tacit bench rknn --help
    """
    if not (BENCHMARKS / "experiments" / "commands.py").is_file():
        raise InvalidInput(
            "the experiments are not part of the installed package: take a checkout of Tacit's sources, run "
            "'make setup' there, and then '.venv/bin/tacit bench'"
        )
    if str(BENCHMARKS) not in sys.path:
        sys.path.append(str(BENCHMARKS))
    importlib.import_module("experiments.commands").app(context.args, prog_name="tacit bench")
