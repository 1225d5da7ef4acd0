"""The shuffler of devices' messages: decrypt the outer boxes, shuffle, write one file, delete. Memory is bounded.

Shuffling on disk: each row goes to one of several files, drawn uniformly and independently, and then each file, small
enough for memory, is permuted uniformly. Every order of all rows is exactly equally likely, because which rows share a
file is as random as their order in it. Draws are those of the system's cryptographic generator.

The question is closed before anything is read, and stays closed once something was released: two collections that
differ by one late message would reveal that message. After a crash before the file was complete, the same call shuffles
all messages again; another order of the same messages reveals nothing more.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput, Randomness, SystemRandomness, TooFewParticipants, permutations, uniform_below
from tacit.core.codec import StrictReader, decode_strict, encode
from tacit.core.errors import plural
from tacit.core.files import new_file
from tacit.federation.intake.messages import open_outer_box
from tacit.federation.intake.question import OpenQuestion
from tacit.federation.intake.store import PAGE, IntakeStore
from tacit.federation.keys import public_key

__all__ = ["Collection", "collect_messages", "collected_rows", "shuffled_rows"]

_Rows = NDArray[np.uint8]
_Progress = Callable[[int], None]
# Rows that are permuted in memory, and files that are open at a time.
_LARGEST_FILE, _MOST_FILES = 2**14, 512
_LENGTH = 8
_LARGEST_FRAME = 2**27


@dataclass(frozen=True)
class Collection:
    """How many messages were collected, and how many boxes could not be decrypted."""

    messages: int
    unreadable: int


def shuffled_rows(
    batches: Iterable[_Rows],
    expected: int,
    size: int,
    folder: Path,
    randomness: Randomness | None = None,
    largest: int = _LARGEST_FILE,
) -> tuple[int, Iterator[_Rows]]:
    """The number of rows of ``size`` bytes, and all rows in a uniformly random order, in pages.

    ``expected`` is about how many rows there are: the folder gets as many files, each with about ``largest`` rows.

    >>> batches = [np.arange(6, dtype=np.uint8).reshape(3, 2), np.arange(6, 8, dtype=np.uint8).reshape(1, 2)]
    >>> count, rows = shuffled_rows(batches, 4, 2, Path(tempfile.mkdtemp()), largest=2)
    >>> count, sorted(np.concatenate(list(rows))[:, 0].tolist())
    (4, [0, 2, 4, 6])
    """
    source = randomness or SystemRandomness()
    files = min(_MOST_FILES, max(1, math.ceil(expected / largest)))
    paths = [folder / f"{number}.rows" for number in range(files)]
    opened: list[BinaryIO] = []
    count = 0
    try:
        opened = [path.open("xb") for path in paths]
        for batch in batches:
            place = uniform_below(files, len(batch), source)
            order = np.argsort(place, kind="stable")
            for number, rows in zip(
                np.unique(place), np.split(batch[order], np.flatnonzero(np.diff(place[order])) + 1), strict=True
            ):
                opened[int(number)].write(rows.tobytes())
            count += len(batch)
    finally:
        for each in opened:
            each.close()

    def shuffled() -> Iterator[_Rows]:
        for path in paths:
            rows = np.fromfile(path, dtype=np.uint8).reshape(-1, size)
            path.unlink()
            yield rows[permutations(1, len(rows), source)[0]]

    return count, shuffled()


def collect_messages(
    store: IntakeStore,
    question: OpenQuestion,
    out: Path,
    secret: bytes | None = None,
    progress: _Progress | None = None,
) -> Collection:
    """Close the question, write all its messages into one file in random order, and delete them from the store.

    ``secret`` is the shuffler's key, for a question in the shuffle model. Below the question's minimum nothing is
    written and the question stays open.
    """
    if out.exists():
        # Written by a call that ended before the store deleted its messages; any other file is refused.
        counts, rows = collected_rows(out, question)
        for _ in rows:
            pass
        store.close_question(question.digest)
        store.erase(question.digest)
        return counts
    if question.sealed and (secret is None or public_key(secret) != question.shuffler):
        raise InvalidInput("the messages are encrypted for another shuffler key than the given one")
    taken = store.close_question(question.digest)
    tally = {"unreadable": 0, "read": 0}

    def boxes() -> Iterator[_Rows]:
        for page in store.pages(question.digest):
            found = page
            if secret is not None and question.sealed:
                inner = [open_outer_box(question, secret, each) for each in page]
                found = [each for each in inner if each is not None]
            tally["unreadable"] += len(page) - len(found)
            tally["read"] += len(page)
            if progress is not None:
                progress(tally["read"])
            yield np.frombuffer(b"".join(found), dtype=np.uint8).reshape(-1, question.box_bytes)

    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.absolute().parent) as folder:
        count, rows = shuffled_rows(boxes(), taken, question.box_bytes, Path(folder))
        if tally["read"] != taken:
            raise InvalidInput("the store has fewer messages than it accepted: were they collected before?")
        if count < question.minimum:
            store.reopen_question(question.digest)
            raise TooFewParticipants(
                f"{plural(count, 'valid message')} so far, at least {question.minimum} needed; it stays open"
            )
        with new_file(out, private=True, replace=False) as file:
            _write(file, {"question": question.digest, "messages": count, "unreadable": tally["unreadable"]})
            for page in rows:
                for start in range(0, len(page), PAGE):
                    _write(file, {"rows": page[start : start + PAGE]})
    store.erase(question.digest)
    return Collection(count, tally["unreadable"])


def collected_rows(file: Path, question: OpenQuestion) -> tuple[Collection, Iterator[_Rows]]:
    """The file that ``collect_messages`` wrote for this question: its counts, and all rows in pages."""
    with _opened(file) as source:
        head = _read(source, file)
        start = source.tell()
    if head is None or head.digest("question") != question.digest:
        raise InvalidInput(f"{file}: not the collected messages of this question")
    counts = Collection(head.integer("messages", question.minimum, question.most), head.integer("unreadable", 0))
    head.done()

    def rows() -> Iterator[_Rows]:
        found = 0
        with _opened(file) as source:
            source.seek(start)
            while (frame := _read(source, file)) is not None:
                page = frame.array("rows", ("|u1",), (None, question.box_bytes))
                frame.done()
                found += len(page)
                yield page
        if found != counts.messages:
            raise InvalidInput(f"{file}: has {found} of its {counts.messages} messages; it is incomplete")

    return counts, rows()


def _opened(file: Path) -> BinaryIO:
    try:
        return file.open("rb")
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be read ({error.strerror})") from None


def _write(file: BinaryIO, fields: dict[str, object]) -> None:
    content = encode(fields)
    file.write(len(content).to_bytes(_LENGTH, "little") + content)


def _read(file: BinaryIO, path: Path) -> StrictReader | None:
    length = file.read(_LENGTH)
    if not length:
        return None
    size = int.from_bytes(length, "little")
    if len(length) < _LENGTH or size > _LARGEST_FRAME or len(content := file.read(size)) != size:
        raise InvalidInput(f"{path}: incomplete, or not a file of collected messages")
    return decode_strict(content, _LARGEST_FRAME, "collected messages")
