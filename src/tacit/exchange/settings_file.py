"""Files of settings that an operator writes: TOML with known fields, and errors that name each wrong one."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from tacit.core.errors import InvalidInput
from tacit.ledger.policy import IN_WORDS

__all__ = ["read_settings"]

Settings = TypeVar("Settings", bound=BaseModel)


def read_settings(path: Path, kind: type[Settings], called: str = "") -> Settings:
    """What the file says, checked against the fields of ``kind``; ``called`` is what the file is to its reader.

    >>> class Port(BaseModel):
    ...     port: int
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "port.toml"
    >>> _ = file.write_text("port = 9092")
    >>> read_settings(file, Port).port
    9092
    """
    try:
        return kind.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read {called}{path}: {getattr(error, 'strerror', None) or error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{path}: not valid TOML: {error}") from None
    except ValidationError as error:
        wrong = [
            f"{'.'.join(map(str, each['loc']))}: {IN_WORDS.get(each['type'], each['msg'])}" for each in error.errors()
        ]
        raise InvalidInput(f"{path}: {'; '.join(wrong)}") from None
