"""Lines of a table over seeds: each run measured once, or remembered, and shown with the interval of its mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from experiments.measured import Memory, code_of
from experiments.table import Row, interval

__all__ = ["INTERVAL", "MEASURES", "MUCH", "Seeded", "line", "noise_in_words"]

MEASURES = {"labels": 100.0, "test": 100.0}
INTERVAL = "The interval is that of the mean over seeded runs, which are simulations (Student's t)."
# So large a budget that noise decides nothing.
MUCH = 1e6


class Seeded:
    """Runs of lines, one per seed; one alone where hardly any noise is drawn. ``kept``: only remembered ones.

    >>> import tempfile
    >>> from pathlib import Path
    >>> seeded = Seeded(Memory(Path(tempfile.mkdtemp())), 2, print)
    >>> runs = seeded.runs("toy", 1.0, lambda epsilon, seed: {"test": epsilon / 2 + seed}, ("experiments.table",))
    toy, ε = 1, seed 0: test 50.0
    toy, ε = 1, seed 1: test 150.0
    >>> [run["test"] for run in runs]
    [0.5, 1.5]
    """

    def __init__(self, memory: Memory, count: int, tell: Callable[[str], None], kept: bool = False) -> None:
        self._memory, self._count, self._tell, self._kept = memory, count, tell, kept

    def runs(
        self,
        name: str,
        epsilon: float,
        run: Callable[[float, int], Mapping[str, Any]],
        code: Sequence[str],
        about: Mapping[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """The line's runs; ``code`` names the modules they go through, ``about`` their other settings."""
        found = []
        for seed in range(self._count if 0 < epsilon < MUCH else 1):
            key = {"line": name, "ε": epsilon, "seed": seed, "code": code_of(*code), **(about or {})}
            if self._kept and self._memory.kept(key) is None:
                continue
            found.append(self._memory.recall(key, partial(run, epsilon, seed)))
            figures = ", ".join(f"{what} {100 * each:.1f}" for what, each in _figures(found[-1]))
            self._tell(f"{name}, ε = {epsilon:g}, seed {seed}: {figures}")
        return found


def _figures(run: Mapping[str, Any], before: str = "") -> list[tuple[str, float]]:
    """Every share that a run measured, also within parts of it."""
    found = []
    for name, value in run.items():
        if isinstance(value, Mapping):
            found += _figures(value, f"{before}{name}: ")
        elif name in MEASURES:
            found.append((before + name, float(value)))
    return found


def noise_in_words(epsilon: float) -> str:
    """How a budget is shown.

    >>> noise_in_words(0.1), noise_in_words(MUCH)
    ('0.1', 'no noise')
    """
    return "no noise" if epsilon == MUCH else f"{epsilon:g}"


def line(epsilon: str, name: str, runs: Sequence[Mapping[str, Any]], way: str = "") -> Row:
    """A line of a table; ``way`` names the part of each run that the line is about, which keeps the run's seed.

    >>> line("1", "toy", [{"a": {"test": 0.5}, "b": {"test": 0.6}, "settings": {"seed": 3}}], "b").runs
    [{'test': 0.6, 'seed': 3}]
    """
    told = [{**each[way], **_seed(each)} if way else dict(each) for each in runs]
    return Row({"ε": epsilon, "line": name, "95 % interval": interval([each["test"] for each in told])}, told)


def _seed(run: Mapping[str, Any]) -> dict[str, Any]:
    settings = run.get("settings", {})
    return {"seed": settings["seed"]} if "seed" in settings else {}
