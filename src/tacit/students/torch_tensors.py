"""Tensors in a file with a few words beside them: read without running code, written all or nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch

from tacit.core.errors import InvalidInput

__all__ = ["kind_of", "read_tensors", "write_tensors"]

ENTRY = "tacit"


def write_tensors(file: Path, kind: str, tensors: dict[str, torch.Tensor], words: dict[str, Any]) -> None:
    """Write the tensors and the words; a file of that name is replaced only by a whole one.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "two.safetensors"
    >>> write_tensors(file, "pair", {"ones": torch.ones(2)}, {"name": "two"})
    >>> read_tensors(file, "pair", "pair")
    ({'ones': tensor([1., 1.])}, {'name': 'two'})
    """
    from safetensors.torch import save_file

    plain = {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}
    partial = file.with_name(file.name + ".partial")
    try:
        # One entry: several are written in an order that differs from time to time, and equal runs must be equal files.
        save_file(plain, partial, metadata={ENTRY: json.dumps({"format": kind, "words": words})})
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


def read_tensors(file: Path, kind: str, what: str) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """What ``write_tensors`` wrote as that kind; nothing in the file is executed."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as opened:
            head = _head(opened.metadata())
            if head.get("format") != kind:
                raise InvalidInput(f"{file}: not a {what} of this kind ({head.get('format')!r})")
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        return tensors, head["words"]
    except (SafetensorError, OSError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise InvalidInput(f"{file}: not a {what} that can be read ({type(error).__name__}: {error})") from error


def kind_of(file: Path) -> str:
    """Which kind of tensors a file says it holds."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as opened:
            return str(_head(opened.metadata()).get("format"))
    except (SafetensorError, OSError, TypeError, json.JSONDecodeError) as error:
        raise InvalidInput(f"{file}: not a student that can be read ({type(error).__name__}: {error})") from error


def _head(metadata: dict[str, str] | None) -> dict[str, Any]:
    """The format and the words; files of the first stage have an entry for each."""
    written = metadata or {}
    if ENTRY in written:
        head = json.loads(written[ENTRY])
        if not isinstance(head, dict):
            raise TypeError("its entry is not an object")
        return head
    return {**written, "words": json.loads(written["words"])} if "words" in written else dict(written)
