"""TOML files of users, read in one way: UTF-8 with or without a mark, and errors that name the file and the line."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tacit.core.errors import InvalidInput, listed

__all__ = ["parse_toml", "read_toml"]


def read_toml(path: Path, called: str = "") -> dict[str, Any]:
    """The content of a TOML file; ``called`` describes the file in errors.

    >>> read_toml(Path("no.toml"))
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: cannot read no.toml: No such file or directory
    """
    where = listed([str(path)])
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"cannot read {called}{where}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{where}: not UTF-8 text; save it as UTF-8") from None
    return parse_toml(text, where)


def parse_toml(text: str, where: str, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """The content of a TOML text; ``where`` names its origin in errors.

    >>> parse_toml("epsilon == 1", "policy.toml")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: policy.toml: not valid TOML: Invalid value (at line 1, column 10)
    """
    try:
        return tomllib.loads(text, parse_float=parse_float)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{where}: not valid TOML: {str(error)[:80]}") from None
