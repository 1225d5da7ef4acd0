"""The progress of a run, in a small file beside its folder for other processes; it is removed when the run ends.

Only stage names of a fixed list and the number of rounds are written: both are public. A method's messages on the
operator's screen may say more, and are not written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tacit.core.files import write_file

__all__ = ["PROGRESS", "STAGES", "RunProgress", "read_progress", "watched_run"]

PROGRESS = ".progress"
_FORMAT = "tacit progress 1"
# The stage of a run whose rounds have begun, unless its method names one.
_ROUNDS = "asking the holders"
STAGES = (
    "reading",
    "encoding the images by a pretrained network",
    "choosing what to ask",
    "choosing a representation and a mechanism",
    "choosing components and a mechanism",
    "choosing queries among the public samples",
    "trying settings on public samples with made-up labels",
    "solving for the noise",
    "adding up gradients",
    "sampling records and counting their votes",
    "choosing queries and noise",
    "training by Opacus",
    "training the teachers and counting their votes",
    "training a first layer on clusters of the public samples",
    "adding up the records of each class",
    "adding up what each record says of the odds",
    "training a first layer on clusters of the public samples",
    "counting votes",
    "fitting odds to the sums",
    "trained on own records",
    _ROUNDS,
    "training the student",
    "writing",
)


class RunProgress:
    """A run's progress file. If it cannot be written, the run continues.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "run.progress"
    >>> progress = RunProgress(file, "rknn", rounds=None)
    >>> progress.stage("counting votes"); progress.stage("91 % of the records agree")
    >>> read_progress(file)["stage"]
    'counting votes'
    >>> RunProgress(file, "privatekt", rounds=40).round(3)
    >>> read_progress(file)["stage"], read_progress(file)["round"]
    ('asking the holders', 3)
    """

    def __init__(self, file: Path, method: str, rounds: int | None) -> None:
        self._file = file
        self._said: dict[str, Any] = {
            "format": _FORMAT, "method": method, "stage": STAGES[0], "round": 0 if rounds else None, "rounds": rounds,
            "process": os.getpid(),
        }  # fmt: skip
        self._write()

    def stage(self, name: str) -> None:
        """Store the current stage; a name that is not in ``STAGES`` is ignored."""
        if name in STAGES:
            self._said["stage"] = name
            self._write()

    def round(self, done: int) -> None:
        """Store the number of completed rounds; ignored for a run without rounds."""
        if self._said["rounds"] and done != self._said["round"]:
            self._said["round"] = done
            if self._said["stage"] == STAGES[0]:
                self._said["stage"] = _ROUNDS
            self._write()

    def _write(self) -> None:
        with suppress(OSError):
            write_file(self._file, json.dumps(self._said).encode(), private=True)


@contextmanager
def watched_run(out: Path, method: str, rounds: int | None) -> Iterator[RunProgress]:
    """The progress of the run that is written to a folder; the file is removed when the run ends or fails."""
    file = out.with_name(out.name + PROGRESS)
    try:
        yield RunProgress(file, method, rounds)
    finally:
        with suppress(OSError):
            file.unlink(missing_ok=True)


def read_progress(file: Path) -> dict[str, Any] | None:
    """The content of a progress file; None if there is no valid one.

    >>> read_progress(Path("no-such.progress")) is None
    True
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        known = found["format"] == _FORMAT and found["stage"] in STAGES and isinstance(found["process"], int)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return dict(found) if known else None
