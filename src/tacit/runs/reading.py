"""What users hand to a run, whatever its form, as numbers: kind and encoder come from public data alone.

Private samples are encoded by what public ones show, each row by itself. What could not be read of them is told to the
operator before anything is paid, without any cell, and to nobody else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.core.errors import InvalidInput, listed, warn_user
from tacit.core.samples import Named
from tacit.datasets.frame import Frame
from tacit.datasets.samples import labeled_samples, samples_of
from tacit.encoders.kinds import KINDS, Recognized, recognize

__all__ = ["GivenData", "read_given"]


@dataclass(frozen=True)
class GivenData:
    """The inputs of a run as arrays and named tables of numbers, and how they came to be."""

    private: Any
    public: Any
    test: Any
    persons: Any
    holders: Any
    recognized: Recognized
    raw: tuple[tuple[Any, ...], Any]  # private parts and public samples, as they were before they were encoded


def read_given(
    private: Any,  # noqa: ANN401
    public: Any,  # noqa: ANN401
    *,
    test: Any = None,  # noqa: ANN401
    persons: Any = None,  # noqa: ANN401
    holders: Any = 1,  # noqa: ANN401
    kind: str | None = None,
    label: str | None = None,
    text: str | Sequence[str] | None = None,
    categories: Sequence[str] = (),
) -> GivenData:
    """The inputs as numbers; ``persons`` and ``holders`` may name columns of the private table.

    >>> table = np.array([(61.0, "f", 1), (50.0, "m", 0)] * 10, dtype=[("age", "f8"), ("sex", "U1"), ("ill", "i8")])
    >>> given = read_given(table, table[["age", "sex"]], label="ill")
    >>> given.recognized.kind, given.public.shape, given.private[1][:2].tolist()
    ('mixed', (20, 3), [1, 0])
    """
    if isinstance(categories, str):
        raise InvalidInput(f"categories must be a list of columns, got {categories[:80]!r}")
    opened = samples_of(public, "public samples")
    named = () if text is None else (text,) if isinstance(text, str) else tuple(text)
    found = recognize(opened, kind, named, tuple(categories))
    raw: list[Any] = []
    person = persons if isinstance(persons, str) else None
    holder = holders if isinstance(holders, str) else None
    if private is not None:
        private, persons, holders = _read_private(private, found, label, (person, holder), (persons, holders), raw)
    if test is not None:
        test = (_numbers(test[0], samples_of(test[0], "test samples"), found), test[1])
    return GivenData(private, _numbers(public, opened, found), test, persons, holders, found, (tuple(raw), opened))


def _read_private(
    private: Any,  # noqa: ANN401
    found: Recognized,
    label: str | None,
    columns: tuple[str | None, str | None],
    owners: tuple[Any, Any],
    raw: list[Any],
) -> tuple[Any, Any, Any]:
    """The pair (X, y), or the pairs of every holder, as numbers; and persons and holders. ``raw`` gets the samples."""
    parties = _parties(private)
    if parties is not None:
        pairs = {}
        for name, pair in parties.items():
            try:
                samples, labels, _, _ = labeled_samples(pair, None if _is_pair(pair) else label)
                pairs[name] = (_told(_original(pair, samples), samples, found), labels)
                raw.append(samples)
            except InvalidInput as error:
                raise InvalidInput(f"holder {name}: {error}") from None
        return (pairs if isinstance(private, Mapping) else list(pairs.values())), *owners
    samples, labels, *owned = labeled_samples(private, label, *columns)
    given = samples if any(columns) else _original(private, samples)
    pair = (_told(given, samples, found), labels)
    raw.append(samples)
    persons, holders = (before if own is None else own for before, own in zip(owners, owned, strict=True))
    return pair, persons, holders


def _parties(private: Any) -> dict[Any, Any] | None:  # noqa: ANN401
    if isinstance(private, Mapping):
        if len({str(name) for name in private}) < len(private):
            raise InvalidInput("two holders of private have the same name")
        return dict(private)
    if isinstance(private, list) and all(isinstance(each, tuple) and len(each) == 2 for each in private):
        return dict(enumerate(private))
    return None


def _is_pair(values: Any) -> bool:  # noqa: ANN401
    return isinstance(values, tuple | list) and len(values) == 2


def _original(private: Any, samples: Any) -> Any:  # noqa: ANN401
    """The samples as the user gave them, where no column was taken out of them."""
    return private[0] if _is_pair(private) else samples


def _told(given: Any, samples: Any, found: Recognized) -> Any:  # noqa: ANN401
    """Private samples as numbers, and on the operator's screen what could not be read of them."""
    encoded = _numbers(given, samples, found, "private samples")
    if found.encoder is not None and (said := found.encoder.unread(samples)):
        warn_user(
            f"private samples: {listed(said)}. What cannot be read counts as missing, an unknown level as one of the "
            "others. Only you are told: nothing that is written or sent says it"
        )
    return encoded


def _numbers(given: Any, samples: Any, found: Recognized, what: str = "") -> Any:  # noqa: ANN401
    """The samples as numbers: encoded, or where they are numbers already, as they are."""
    if found.encoder is not None:
        return found.encoder.encode(samples)
    if isinstance(samples, Frame):
        if given is samples or np.asarray(given).dtype.kind not in "fiub":
            return Named(samples.numbers().samples, samples.columns)
        return given
    if not isinstance(samples, Named | np.ndarray):
        raise InvalidInput(f"{what} are not of the kind of the public ones, {KINDS[found.kind]}")
    return samples
