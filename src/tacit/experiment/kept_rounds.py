"""A PrivateKT run that can be stopped at any moment and goes on: every round is kept before the next is asked.

What is kept is public or was released. The round that was cut off is asked again under the same request, so holders
that had paid for it answer what they answered, and nobody pays twice; this is why a ledger file is needed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.core.codec import decode, encode
from tacit.core.errors import InvalidInput
from tacit.core.release import Release, restored
from tacit.methods.privatekt.coordinator import TransferState
from tacit.methods.privatekt.knowledge import Answered

__all__ = ["KeptRounds"]


@dataclass(frozen=True)
class KeptRounds:
    """A folder with a file for the state and one for every round, or no folder at all.

    >>> KeptRounds.open(None, "this run", "r-1").state() is None
    True
    """

    folder: Path | None
    run: str
    request: str

    @classmethod
    def open(cls, folder: str | Path | None, run: str, request: str) -> KeptRounds:
        """The rounds of a run; ``run`` says which one, and a folder of another is refused."""
        if folder is None:
            return cls(None, run, request)
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "run.bin"
        if not file.exists():
            _write(file, {"run": run, "request": request})
        kept = _read(file)
        if kept["run"] != run:
            raise InvalidInput(f"{folder}: the rounds of another run; remove them or choose another folder")
        return cls(folder, run, kept["request"])

    def keep(self, state: TransferState, curve: Sequence[tuple[int, float]] = ()) -> None:
        """Write what is new: the last answers, then the state that counts them and what was measured so far."""
        if self.folder is None:
            return
        count = len(state.answered)
        if count and not (self.folder / _name(count - 1)).exists():
            last = state.answered[-1]
            answers = {"rows": last.value.rows, "shares": last.value.shares, "variances": last.value.variances}
            _write(self.folder / _name(count - 1), answers | {"receipts": [each.to_json() for each in last.receipts]})
        model = np.frombuffer(state.model, dtype=np.uint8)
        _write(
            self.folder / "state.bin",
            {"model": model, "turn": state.turn, "count": count, "taken": state.taken, "refused": state.refused}
            | {"curve": list(curve)},
        )

    def state(self) -> TransferState | None:
        """Where the run was when it stopped, or nothing if no round was over."""
        if self.folder is None or not (self.folder / "state.bin").exists():
            return None
        kept = _read(self.folder / "state.bin")
        answered = tuple(self._answers(number) for number in range(kept["count"]))
        # What was written beyond the state belongs to a round that will be asked again.
        (self.folder / _name(kept["count"])).unlink(missing_ok=True)
        return TransferState(kept["model"].tobytes(), answered, kept["turn"], kept["taken"], kept["refused"])

    def curve(self) -> list[tuple[int, float]]:
        """What had been measured when the run stopped."""
        if self.folder is None or not (self.folder / "state.bin").exists():
            return []
        return [(turn, accuracy) for turn, accuracy in _read(self.folder / "state.bin")["curve"]]

    def _answers(self, number: int) -> Release[Answered]:
        assert self.folder is not None
        kept = _read(self.folder / _name(number))
        return restored(Answered(kept["rows"], kept["shares"], kept["variances"]), kept["receipts"])


def _name(number: int) -> str:
    return f"answers-{number:06d}.bin"


def _write(file: Path, value: dict[str, Any]) -> None:
    """Write a file whole or not at all."""
    partial = file.with_name(file.name + ".partial")
    with partial.open("wb") as out:
        out.write(encode(value))
        out.flush()
        os.fsync(out.fileno())
    partial.replace(file)


def _read(file: Path) -> dict[str, Any]:
    try:
        value: dict[str, Any] = decode(file.read_bytes())
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be read ({os.strerror(error.errno or 0)})") from None
    return value
