"""What a run folder says of itself, read strictly: claims are believed as far as the receipts support them."""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.compose import total
from tacit.core.account import Rule
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Guarantee, decimal
from tacit.core.release import Receipt
from tacit.methods.fedmd.exposure import Exposure
from tacit.runs.guarantee import by_account

__all__ = ["ARRAYS", "FORMAT", "Claim", "Record", "read_record", "readable"]

FORMAT = 2
ARRAYS = "arrays.npz"
# What earlier versions wrote: reverse k-NN runs in format 1 are read; the others are not runs of one layout.
EARLIER = {1: "queries.npz"}
SLACK = 1 + Fraction(1, 10**6)
Claim = Guarantee | Exposure


@dataclass(frozen=True)
class Record:
    """What ``run.json`` says, if its receipts support what it claims: all that is known without the student."""

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
        """The file of the encoder that made numbers of the samples, where there is one."""
        named = self.written.get("encoder")
        return None if named is None else self.folder / Path(str(named)).name

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Labels, classes, probabilities where they are known, and what else the method released."""
        archived = self.folder / EARLIER.get(self.written["format"], ARRAYS)
        with readable(archived), archived.open("rb") as opened, np.load(opened, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files if name != "simulation"}
            if not {"labels", "classes"} <= arrays.keys():
                raise InvalidInput("has no labels or no classes")
        return arrays


def read_record(folder: str | Path) -> Record:
    """The record of the run that was saved in a folder, if its receipts support what it claims.

    >>> read_record("no-such-run")
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
    with readable(file):
        written = json.loads(file.read_text(encoding="utf-8"))
        found = written["format"]
        if found != FORMAT and found not in EARLIER:
            raise InvalidInput(f"{file}: written in format {found}, this version reads format {FORMAT}")
        claim = _claim_from_json(written["guarantee"])
        receipts = tuple(Receipt.from_json(each) for each in written["receipts"])
        accounts = sorted({each.account for each in receipts})
        claims = (
            {name: _claim_from_json(each) for name, each in written["guarantees"].items()}
            if found == FORMAT
            else dict.fromkeys(accounts, claim)
        )
        _check_claims(file, written["guarantee"], claim, claims, receipts)
        if not (isinstance(written["recipe"], dict) and isinstance(written["metrics"], dict)):
            raise InvalidInput("recipe and metrics must be objects")
        Path(written["student"])
        return Record(folder, written, claim, claims, receipts, _read_features(written))


def _read_features(record: dict[str, Any]) -> tuple[str, ...] | None:
    """The names of the columns that a run was saved with."""
    found = record.get("features")
    if found is not None and not (isinstance(found, list) and all(isinstance(each, str) for each in found)):
        raise InvalidInput("features must be a list of column names")
    return None if found is None else tuple(found)


def _claim_from_json(value: dict[str, Any]) -> Claim:
    return Exposure.from_json(value) if value.get("kind") == Exposure.KIND else Guarantee.from_json(value)


@contextmanager
def readable(file: Path) -> Iterator[None]:
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


def _check_claims(
    file: Path, written: dict[str, Any], claim: Claim, claims: Mapping[str, Claim], receipts: tuple[Receipt, ...]
) -> None:
    """Refuse claims of more privacy than the receipts paid for."""
    if not receipts:
        raise InvalidInput(f"{file}: has no receipts, so nothing supports its guarantee")
    numbers = {"delta": claim.delta} | ({"epsilon": claim.epsilon} if isinstance(claim, Guarantee) else {})
    for name, number in numbers.items():
        if written[name] != decimal(number):
            raise InvalidInput(f"{file}: says {name} is {written[name]} and also {number}; it was edited")
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
    if claim.epsilon * SLACK < spent:
        raise InvalidInput(
            f"{file}: claims epsilon = {decimal(claim.epsilon)} at delta = {decimal(claim.delta)}{whose}, but its "
            f"receipts add up to epsilon = {'infinity' if spent == math.inf else decimal(spent)}; it was edited"
        )
