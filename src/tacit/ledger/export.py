"""A ledger as lines of JSON, for auditors and for keeping elsewhere.

Each line has an entry's sequence, kind, body, previous digest and digest. The payloads stay behind, represented by
their digests: a kept release may hold more than what left (secretly sampled records, a message before masking).
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tacit.core.errors import InvalidInput
from tacit.ledger.entries import ORIGIN, Entry
from tacit.ledger.verify import entries

__all__ = ["export_to", "lines"]


def lines(path: str | Path) -> Iterator[str]:
    """One JSON object an entry, in order.

    >>> from tacit.ledger.account import Ceiling
    >>> from tacit.ledger.sqlite import SqliteLedger
    >>> ledger = Path(tempfile.mkdtemp()) / "site.ledger"
    >>> SqliteLedger.create(ledger, {"clinic": Ceiling(1)}).close()
    >>> [json.loads(line)["kind"] for line in lines(ledger)]
    ['genesis', 'account']
    """
    return (line(entry) for entry in entries(path))


def line(entry: Entry) -> str:
    """An entry as one line of JSON."""
    return json.dumps(
        {
            "sequence": entry.sequence,
            "kind": entry.kind,
            "body": entry.content,
            "previous": entry.previous,
            "digest": entry.digest,
        }
    )


def export_to(path: str | Path, out: Path) -> tuple[int, str]:
    """Write the lines to a new file that is there whole or not at all; returns their number and the last digest."""
    count, digest = 0, ORIGIN
    try:
        if out.exists():
            what = "it is a folder" if out.is_dir() else "it exists already"
            raise InvalidInput(f"cannot write {out}: {what}; choose a new name")
        handle, name = tempfile.mkstemp(dir=out.absolute().parent, prefix=f".{out.name}.")
        try:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                for count, entry in enumerate(entries(path), start=1):  # noqa: B007
                    file.write(f"{line(entry)}\n")
                    digest = entry.digest
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(out)
        except BaseException:
            Path(name).unlink()
            raise
    except OSError as error:
        raise InvalidInput(f"cannot write {out}: {error.strerror}") from error
    return count, digest
