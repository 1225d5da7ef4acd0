"""LEAF's json format, in which FEMNIST and other federated sets are published: samples by user.

A folder holds any number of ``*.json`` files, each with ``users``, ``num_samples`` and ``user_data``, which maps a
user to ``x`` (rows of numbers, for FEMNIST 784 gray values between 0 and 1 with ink dark) and ``y`` (labels). Messages
give a user's place in the list, counted from 0: who the users are is private.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Floats, Integers

__all__ = ["FEMNIST_CLASSES", "OwnedSamples", "read_leaf"]

FEMNIST_CLASSES = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class OwnedSamples:
    """Samples with a label each, and whose each is."""

    samples: Floats  # (n, features)
    labels: Integers  # (n,)
    owners: NDArray[np.str_]  # (n,)

    def of_classes(self, classes: NDArray[Any]) -> OwnedSamples:
        """Only the samples of these classes."""
        rows = np.isin(self.labels, classes)
        return OwnedSamples(self.samples[rows], self.labels[rows], self.owners[rows])


def read_leaf(path: str | Path) -> OwnedSamples:
    """Every sample of a LEAF file, or of all the ``*.json`` files of a folder, in the order of file and user.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "all_data_0.json"
    >>> _ = file.write_text('{"users": ["f01"], "num_samples": [1], "user_data": {"f01": {"x": [[0, 1]], "y": [3]}}}')
    >>> found = read_leaf(file)
    >>> found.samples.shape, found.labels.tolist(), found.owners.tolist()
    ((1, 2), [3], ['f01'])
    """
    path = Path(path)
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise InvalidInput(f"{path}: the folder has no .json file")
    samples: list[Floats] = []
    labels: list[Integers] = []
    owners: list[str] = []
    for file in files:
        for place, (user, rows, marks) in enumerate(_users(file)):
            if samples and rows.shape[1] != samples[0].shape[1]:
                raise InvalidInput(
                    f"{file}: the user at place {place} has {rows.shape[1]} features, others {samples[0].shape[1]}"
                )
            samples.append(rows)
            labels.append(marks)
            owners += [user] * len(marks)
    if not owners:
        raise InvalidInput(f"{path}: no user has a sample")
    return OwnedSamples(np.concatenate(samples), np.concatenate(labels), np.array(owners))


def _users(file: Path) -> list[tuple[str, Floats, Integers]]:
    """Every user of one file that has samples."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        users, sizes, data = content["users"], content["num_samples"], content["user_data"]
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise InvalidInput(f"{file}: not a LEAF file ({type(error).__name__})") from None
    if len(users) != len(sizes):
        raise InvalidInput(f"{file}: {len(users)} users and {len(sizes)} sizes")
    found = []
    for place, (user, size) in enumerate(zip(users, sizes, strict=True)):
        who = f"{file}: the user at place {place}"
        try:
            rows = np.array(data[user]["x"], dtype=np.float32)
            marks = np.array(data[user]["y"], dtype=np.int64)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise InvalidInput(
                f"{who} must have 'x', rows of numbers, and 'y', labels that are whole numbers"
            ) from None
        if len(rows) != size or marks.shape != (size,):
            raise InvalidInput(f"{who} has {len(rows)} samples, {len(marks)} labels, {size} announced")
        if size and (rows.ndim != 2 or not np.isfinite(rows).all()):
            raise InvalidInput(f"{who} must have samples that are rows of finite numbers")
        if size:
            found.append((str(user), rows, marks))
    return found
