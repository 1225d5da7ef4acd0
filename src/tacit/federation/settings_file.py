"""Files of settings that an operator writes: TOML with known fields, and errors that name each wrong one."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from tacit.core.errors import InvalidInput, nearest

__all__ = ["File", "Key", "Names", "read_settings"]

Settings = TypeVar("Settings", bound=BaseModel)
KEY = 32


def _key(value: object) -> object:
    try:
        found = bytes.fromhex(value) if isinstance(value, str) else b""
    except ValueError:
        found = b""
    if len(found) != KEY:
        raise ValueError(f"must be {2 * KEY} hexadecimal digits")
    return found


# A file, which is relative to the one that names it; a public key; names in their order.
File = Annotated[Path, Field(strict=False)]
Key = Annotated[bytes, BeforeValidator(_key)]
Names = Annotated[tuple[str, ...], Field(strict=False)]


def read_settings(path: Path, kind: type[Settings], called: str = "") -> Settings:
    """What the file says, checked against the fields of ``kind``; ``called`` is what the file is to its reader.

    Paths in it are relative to the file, and come back as they are found from anywhere.

    >>> class Server(BaseModel, extra="forbid"):
    ...     port: int
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "server.toml"
    >>> _ = file.write_text("port = 9092")
    >>> read_settings(file, Server).port
    9092
    >>> _ = file.write_text("prot = 9092")
    >>> read_settings(file, Server)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: ...server.toml: port: is missing; prot: is not a setting; did you mean 'port'?
    """
    try:
        found = kind.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read {called}{path}: {getattr(error, 'strerror', None) or error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{path}: not valid TOML: {error}") from None
    except ValidationError as error:
        wrong = [
            f"{'.'.join(map(str, each['loc']))}: {_in_words(each['type'], each['msg'], each['loc'], kind)}"
            for each in error.errors()
        ]
        raise InvalidInput(f"{path}: {'; '.join(wrong)}") from None
    return _placed(found, path.absolute().parent)


def _in_words(error: str, message: str, place: Sequence[int | str], kind: type[BaseModel]) -> str:
    if error == "missing":
        return "is missing"
    if error != "extra_forbidden":
        return message.removeprefix("Value error, ")
    for name in place[:-1]:
        field = kind.model_fields.get(str(name))
        within = None if field is None else field.annotation
        kinds = [each for each in (within, *getattr(within, "__args__", ())) if isinstance(each, type)]
        kind = next((each for each in kinds if issubclass(each, BaseModel)), kind)
    meant = nearest(str(place[-1]), list(kind.model_fields))
    return "is not a setting" + (f"; did you mean {meant!r}?" if meant else "")


def _placed(found: Settings, home: Path) -> Settings:
    """The settings with every path as seen from the folder of their file."""
    values = {name: getattr(found, name) for name in type(found).model_fields}
    placed = {
        name: _placed(value, home) if isinstance(value, BaseModel) else home / value
        for name, value in values.items()
        if isinstance(value, BaseModel | Path)
    }
    return found.model_copy(update=placed)
