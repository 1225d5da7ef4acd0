"""A finished run: the student, the labels, what they cost, and how to keep them."""

from __future__ import annotations

import csv
import errno
import json
import math
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.compose import Rule, total
from tacit.core.errors import InvalidInput, TacitError
from tacit.core.guarantee import Guarantee, decimal
from tacit.core.release import Receipt, Release
from tacit.core.spend import Spend
from tacit.experiment.machine import versions
from tacit.methods.rknn.coordinator import Labeling
from tacit.students.flattened import for_images
from tacit.students.saved import load_student, save_student

__all__ = ["Run", "load"]

FORMAT = 1
# Runs of other methods, and how they are read.
OTHERS = {
    "PrivateKT": "read it by tacit.experiment.privatekt_result.load_transfer",
    "FedMD": "read its labels.csv, its consensus.npz and each party's own student",
}
SLACK = 1 + Fraction(1, 10**6)


@dataclass(frozen=True)
class Run:
    """What ``distill`` returns.

    ``labels`` has one label for every public sample; ``probabilities`` a row for each, where counts were paid
    for; ``membership`` says which query each belongs to. ``recipe`` holds every public choice that was made,
    ``metrics`` what was measured: a run itself measures its time only, never a private figure.
    """

    student: Any
    labels: NDArray[Any]
    probabilities: NDArray[np.float64] | None
    classes: NDArray[Any]
    queries: NDArray[np.float32]
    query_labels: NDArray[Any]
    membership: NDArray[np.int64]
    guarantee: Guarantee
    receipts: tuple[Receipt, ...]
    recipe: dict[str, Any]
    metrics: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        release: Release[Labeling],
        student: Any,  # noqa: ANN401
        public: NDArray[Any],
        classes: NDArray[Any],
        guarantee: Guarantee,
        recipe: dict[str, Any],
    ) -> Run:
        """The run that released a labeling of the public samples and taught a student from it."""
        labeling = release.value
        return cls(
            student=for_images(student) if public.ndim > 2 else student,
            labels=classes[labeling.labels],
            probabilities=labeling.probabilities,
            classes=classes,
            queries=labeling.clusters.centres,
            query_labels=classes[labeling.query_labels],
            membership=labeling.clusters.membership,
            guarantee=guarantee,
            receipts=release.receipts,
            recipe=recipe,
        )

    def save(self, folder: str | Path) -> Path:
        """Write ``run.json``, ``labels.csv``, ``queries.npz`` and the student into a new folder, all or nothing."""
        with new_folder(Path(folder)) as partial:
            self.write(partial)
        return Path(folder)

    def write(self, folder: Path) -> None:
        """Write the run's files into an existing folder."""
        simulation = self.guarantee.simulation
        student = save_student(self.student, folder, simulation)
        with (folder / "labels.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            shown = [] if self.probabilities is None else [f"probability of {name}" for name in self.classes]
            writer.writerow(["public row", "simulated label" if simulation else "label", *shown])
            for row, label in enumerate(self.labels):
                chances = [] if self.probabilities is None else [f"{p:.6f}" for p in self.probabilities[row]]
                writer.writerow([row, label, *chances])
        arrays = {"queries": self.queries, "query_labels": self.query_labels, "classes": self.classes}
        arrays |= {"labels": self.labels, "membership": self.membership, "simulation": np.array(simulation)}
        if self.probabilities is not None:
            arrays["probabilities"] = self.probabilities
        np.savez_compressed(folder / "queries.npz", **arrays)  # type: ignore[arg-type]
        record = {
            "format": FORMAT,
            "guarantee": self.guarantee.to_json(),
            "receipts": [receipt.to_json() for receipt in self.receipts],
            "recipe": self.recipe,
            "metrics": self.metrics,
            "student": student,
            "versions": versions(),
        }
        (folder / "run.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def load(folder: str | Path) -> Run:
    """The run that was saved in a folder. Nothing in the folder is executed.

    >>> load("no-such-run")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: no-such-run: not a run folder, it has no run.json
    """
    if not isinstance(folder, str | Path):
        raise InvalidInput(f"a run is loaded from a folder, got {folder!r}")
    folder = Path(folder)
    file = folder / "run.json"
    if not file.is_file():
        raise InvalidInput(f"{folder}: not a run folder, it has no run.json")
    with _readable(file):
        record = json.loads(file.read_text(encoding="utf-8"))
        if record["format"] != FORMAT:
            another = OTHERS.get(str(record["format"]).partition(" ")[0], f"this version reads format {FORMAT}")
            raise InvalidInput(f"{file}: written in format {record['format']}, {another}")
        guarantee = Guarantee.from_json(record["guarantee"])
        receipts = tuple(Receipt.from_json(each) for each in record["receipts"])
        _check_claim(file, record["guarantee"], guarantee, receipts)
        recipe, metrics, student = record["recipe"], record["metrics"], Path(record["student"]).name
    with (
        _readable(folder / "queries.npz"),
        (folder / "queries.npz").open("rb") as opened,
        np.load(opened, allow_pickle=False) as archive,
    ):
        arrays = {name: archive[name] for name in ("labels", "classes", "queries", "query_labels", "membership")}
        arrays["probabilities"] = archive.get("probabilities")
    with _readable(folder / student):
        model = load_student(folder / student)
    return Run(student=model, guarantee=guarantee, receipts=receipts, recipe=recipe, metrics=metrics, **arrays)


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Name the file that cannot be read, and why."""
    try:
        yield
    except InvalidInput as error:
        if str(file.parent) in str(error):
            raise
        raise InvalidInput(f"{file}: {error}") from error
    except FileNotFoundError:
        raise InvalidInput(f"{file}: no such file; the run folder is not complete") from None
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, OSError, EOFError) as error:
        raise InvalidInput(f"{file}: cannot be read ({type(error).__name__}: {error})") from error
    except (zipfile.BadZipFile, zlib.error) as error:
        raise InvalidInput(f"{file}: damaged ({error})") from error


def _check_claim(file: Path, written: dict[str, Any], claim: Guarantee, receipts: tuple[Receipt, ...]) -> None:
    """Refuse a guarantee that claims more privacy than its receipts paid for."""
    if not receipts:
        raise InvalidInput(f"{file}: has no receipts, so nothing supports its guarantee")
    for name, number in (("epsilon", claim.epsilon), ("delta", claim.delta)):
        if written[name] != decimal(number):
            raise InvalidInput(f"{file}: says {name} is {written[name]} and also {number}; it was edited")
    if not claim.simulation and any(receipt.simulated for receipt in receipts):
        raise InvalidInput(f"{file}: claims a guarantee, but its receipts are those of a simulation; it was edited")
    # An account is of one holder; a record is at one of them, and what the others paid is not for it.
    spends: dict[str, list[Spend]] = {}
    for receipt in receipts:
        spends.setdefault(receipt.account, []).append(receipt.spend)
    paid = max(total(each, claim.delta, Rule.PLANNED).epsilon for each in spends.values())
    # Numeric accountants may differ in the last digits from one machine to the next.
    if claim.epsilon * SLACK < paid:
        raise InvalidInput(
            f"{file}: claims epsilon = {decimal(claim.epsilon)} at delta = {decimal(claim.delta)}, but its receipts "
            f"add up to epsilon = {'infinity' if paid == math.inf else decimal(paid)}; it was edited"
        )


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder that appears complete or not at all: written beside its place, then renamed into it."""
    made: list[Path] = []
    scratch: Path | None = None
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InvalidInput(f"{folder}: exists already and is not an empty folder; choose another --out")
        made = [each for each in folder.absolute().parents if not each.exists()]
        folder.parent.mkdir(parents=True, exist_ok=True)
        # A folder of our own inside, because what mkdtemp makes is for its owner alone.
        scratch = Path(tempfile.mkdtemp(prefix=".tacit-", dir=folder.parent))
        partial = scratch / (folder.name or "run")
        partial.mkdir()
        yield partial
        partial.replace(folder)
        scratch.rmdir()
    except BaseException as error:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
        for parent in made:
            with suppress(OSError):
                parent.rmdir()
        if not isinstance(error, OSError):
            raise
        raise TacitError(f"{folder}: the run could not be written, {_why(error)}; nothing was left behind") from error


def _why(error: OSError) -> str:
    """What the system said, and about which file."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    place = f" ({Path(os.fsdecode(error.filename)).name})" if isinstance(error.filename, str | bytes) else ""
    return f"{error.strerror or error}{place}"
