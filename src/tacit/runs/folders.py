"""Run folders, which are written atomically, and the record in them, which is read strictly.

A folder is written as a hidden folder beside its destination and then renamed. Its process holds a lock on the hidden
folder, which the system releases when the process ends, even if it is killed: a hidden folder whose lock can be taken
is a leftover. No process id is needed, which another process or container may have.

A record is accepted only if its receipts support its claims. Versions and the machine are stored with a result, so that
a figure can be judged and reproduced.
"""

from __future__ import annotations

import errno
import json
import math
import os
import platform
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.compose import total
from tacit.core import Guarantee, InvalidInput, Receipt, Rule, TacitError, decimal
from tacit.core.files import is_there, try_lock
from tacit.methods.fedmd.exposure import Exposure
from tacit.runs.payment import by_account
from tacit.version import __version__

__all__ = [
    "ARRAYS_FILE", "RUN_FORMAT", "Claim", "Record", "machine", "new_folder", "read_record", "readable",
    "remove_leftovers", "versions",
]  # fmt: skip

PREFIX = ".tacit-partial-"


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder that is written beside its destination and renamed when it is complete.

    Leftovers of killed processes beside it are removed first.
    """
    made: list[Path] = []
    scratch: Path | None = None
    lock: int | None = None
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InvalidInput(f"{folder}: exists already and is not an empty folder; choose another --out")
        made = [each for each in folder.absolute().parents if not each.exists()]
        folder.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder.parent)
        scratch, lock = _hidden(folder.parent)
        # A folder inside, because the folder of mkdtemp is readable by its owner only.
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
    finally:
        if lock is not None:
            os.close(lock)


def remove_leftovers(place: Path) -> None:
    """Remove the hidden folders of killed processes, and not those of running ones.

    >>> place = Path(tempfile.mkdtemp())
    >>> (place / ".tacit-partial-old").mkdir()
    >>> remove_leftovers(place)
    >>> list(place.iterdir())
    []
    """
    with suppress(OSError):
        for found in place.glob(f"{PREFIX}*"):
            if found.is_symlink() or not found.is_dir():
                continue
            lock = _locked(found)
            if lock is not None:
                shutil.rmtree(found, ignore_errors=True)
                os.close(lock)


def _hidden(place: Path) -> tuple[Path, int]:
    """A new hidden folder, locked."""
    while True:
        scratch = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        lock = _locked(scratch)
        if lock is None:
            # Another process took it for a leftover before it was locked, and removes it.
            continue
        if scratch.exists():
            return scratch, lock
        os.close(lock)


def _locked(folder: Path) -> int | None:
    """The folder's lock, or None if another process has it or the folder does not exist."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    if try_lock(descriptor):
        return descriptor
    os.close(descriptor)
    return None


def _why(error: OSError) -> str:
    """The system's error message, and the file's name."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    place = f" ({Path(os.fsdecode(error.filename)).name})" if isinstance(error.filename, str | bytes) else ""
    return f"{error.strerror or error}{place}"


RUN_FORMAT = 2
ARRAYS_FILE = "arrays.npz"
# Earlier formats: reverse k-NN runs of format 1 can be read; other methods had other layouts.
EARLIER = {1: "queries.npz"}
_SLACK = 1 + Fraction(1, 10**6)
Claim = Guarantee | Exposure


@dataclass(frozen=True)
class Record:
    """The content of ``run.json``, whose claims are supported by its receipts."""

    folder: Path
    written: dict[str, Any]
    claim: Claim
    claims: Mapping[str, Claim]
    receipts: tuple[Receipt, ...]
    features: tuple[str, ...] | None

    @property
    def student(self) -> Path:
        """The student's file."""
        return self.folder / Path(self.written["student"]).name

    @property
    def encoder(self) -> Path | None:
        """The file of the encoder of the samples; None if there is none."""
        named = self.written.get("encoder")
        return None if named is None else self.folder / Path(str(named)).name

    @property
    def timing(self) -> dict[str, int]:
        """Whole seconds of the steps that saw no record; empty for runs of earlier versions."""
        found = self.written.get("timing")
        if not isinstance(found, dict):
            return {}
        return {str(step): spent for step, spent in found.items() if type(spent) is int and spent >= 0}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Labels, classes, probabilities if known, and the method's other releases."""
        archived = self.folder / EARLIER.get(self.written["format"], ARRAYS_FILE)
        with readable(archived), archived.open("rb") as opened, np.load(opened, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files if name != "simulation"}
            if not {"labels", "classes"} <= arrays.keys():
                raise InvalidInput("has no labels or no classes")
        return arrays


def read_record(folder: str | Path) -> Record:
    """The record of a saved run; an error if its receipts do not support its claims.

    >>> read_record("no-such-run")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: no-such-run: not a run folder, it has no run.json
    """
    if not isinstance(folder, str | Path):
        raise InvalidInput(f"a run is loaded from a folder, got {folder!r}")
    folder = Path(folder)
    file = folder / "run.json"
    if not is_there(file):
        raise InvalidInput(f"{folder}: not a run folder, it has no run.json")
    with readable(file):
        written = json.loads(file.read_text(encoding="utf-8"))
        found = written["format"]
        if found != RUN_FORMAT and found not in EARLIER:
            raise InvalidInput(f"{file}: written in format {found}, this version reads format {RUN_FORMAT}")
        claim = _claim_from_json(written["guarantee"])
        receipts = tuple(Receipt.from_json(each) for each in written["receipts"])
        accounts = sorted({each.account for each in receipts})
        claims = (
            {name: _claim_from_json(each) for name, each in written["guarantees"].items()}
            if found == RUN_FORMAT
            else dict.fromkeys(accounts, claim)
        )
        _check_claims(file, written["guarantee"], claim, claims, receipts)
        if not (isinstance(written["recipe"], dict) and isinstance(written["metrics"], dict)):
            raise InvalidInput("recipe and metrics must be objects")
        Path(written["student"])
        return Record(folder, written, claim, claims, receipts, _read_features(written))


def _read_features(record: dict[str, Any]) -> tuple[str, ...] | None:
    """The column names in a record."""
    found = record.get("features")
    if found is not None and not (isinstance(found, list) and all(isinstance(each, str) for each in found)):
        raise InvalidInput("features must be a list of column names")
    return None if found is None else tuple(found)


def _claim_from_json(value: dict[str, Any]) -> Claim:
    return Exposure.from_json(value) if value.get("kind") == Exposure.KIND else Guarantee.from_json(value)


@contextmanager
def readable(file: Path) -> Iterator[None]:
    """Turn errors while reading a file into one that names the file and the cause."""
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


def _check_claims(
    file: Path, written: dict[str, Any], claim: Claim, claims: Mapping[str, Claim], receipts: tuple[Receipt, ...]
) -> None:
    """Refuse a guarantee that is stronger than the receipts support."""
    if not receipts:
        raise InvalidInput(f"{file}: has no receipts to support its guarantee")
    numbers = {"delta": claim.delta} | ({"epsilon": claim.epsilon} if isinstance(claim, Guarantee) else {})
    for name, number in numbers.items():
        if written[name] != decimal(number):
            raise InvalidInput(f"{file}: states {name} both as {written[name]} and as {number}; it was edited")
    paid = by_account(receipts)
    if set(paid) != set(claims):
        raise InvalidInput(f"{file}: the accounts that paid are not those with a guarantee; it was edited")
    for account, own in paid.items():
        _check_claim(file, claims[account], own, f" for {account}" if len(paid) > 1 else "")
        _check_claim(file, claim, own)


def _check_claim(file: Path, claim: Claim, receipts: list[Receipt], whose: str = "") -> None:
    if not claim.simulation and any(receipt.simulated for receipt in receipts) and claim.delta < 1:
        raise InvalidInput(f"{file}: claims a guarantee, but its receipts are those of a simulation; it was edited")
    if isinstance(claim, Exposure):
        exposed = sum((getattr(receipt.spend, "delta", Fraction(1)) for receipt in receipts), Fraction(0))
        if claim.delta < min(Fraction(1), exposed):
            raise InvalidInput(f"{file}: claims less exposure than its receipts paid for; it was edited")
        return
    spent = total([receipt.spend for receipt in receipts], claim.delta, Rule.PLANNED).epsilon
    # Numeric accountants may differ in the last digits from one machine to the next.
    if claim.epsilon * _SLACK < spent:
        raise InvalidInput(
            f"{file}: claims epsilon = {decimal(claim.epsilon)} at delta = {decimal(claim.delta)}{whose}, but its "
            f"receipts add up to epsilon = {'infinity' if spent == math.inf else decimal(spent)}; it was edited"
        )


MADE_WITH = ("numpy", "scipy", "scikit-learn", "dp-accounting", "skops", "torch")


def versions() -> dict[str, str]:
    """The versions of Tacit and of the packages that its results depend on.

    >>> versions()["tacit"] == __version__
    True
    """
    found = {"tacit": __version__, "python": platform.python_version()}
    for name in MADE_WITH:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def machine() -> str:
    """The kind of machine in a few words, without its name.

    >>> "cores" in machine()
    True
    """
    return f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}"
