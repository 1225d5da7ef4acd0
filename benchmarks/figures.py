"""Draws the figures of theory into docs/results: a PNG and a JSON each, the same bytes on every run.

Run: python benchmarks/figures.py
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from experiments.charts import write_chart
from experiments.theory import amplification, central_label_error, count_error, local_error, shuffled_messages


def main() -> None:
    """Write every chart and say where and how long it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent.parent / "docs" / "results")
    folder = parser.parse_args().folder
    for chart in (local_error, count_error, central_label_error, amplification, shuffled_messages):
        start = time.perf_counter()
        picture, _ = write_chart(chart(), folder)
        print(f"{picture.name:28} {picture.stat().st_size / 1000:5.0f} kB  {time.perf_counter() - start:6.1f} s")


if __name__ == "__main__":
    main()
