"""Slow public encoders, each sample encoded once: rows kept on disk by the encoder's digest and the sample's bytes.

Both encoders compute a sample in the same way whatever samples are beside it, so a row may be kept by itself. It is for
benchmarks, whose records are published: what is kept here is as private as the records are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput

__all__ = ["KeptRows", "keep_encodings"]

AT_ONCE = 512  # rows that are encoded before they are written


class KeptRows:
    """Rows of features by the name of the sample, in one folder per encoder.

    >>> import tempfile
    >>> kept = KeptRows(Path(tempfile.mkdtemp()))
    >>> for _ in range(2):
    ...     kept.rows("twice", np.array([1.0, 2.0]), lambda some: np.column_stack([some, 2 * some])).tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    [[1.0, 2.0], [2.0, 4.0]]
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, dict[bytes, NDArray[np.float32]]] = {}

    def rows(
        self, encoder: str, samples: NDArray[Any], encode: Callable[[NDArray[Any]], NDArray[Any]]
    ) -> NDArray[np.float32]:
        """The samples' rows: read where they are there, else encoded and kept."""
        known = self._read(encoder)
        names = [_name(each) for each in samples]
        missing = [place for place, name in enumerate(names) if name not in known]
        for start in range(0, len(missing), AT_ONCE):
            part = missing[start : start + AT_ONCE]
            found = np.asarray(encode(samples[part]), dtype=np.float32)
            self._write(encoder, [names[place] for place in part], found)
            known.update(zip([names[place] for place in part], found, strict=True))
        return np.stack([known[name] for name in names])

    def _read(self, encoder: str) -> dict[bytes, NDArray[np.float32]]:
        if encoder not in self._known:
            self._known[encoder] = {}
            for file in sorted((self._folder / encoder).glob("*.npz")):
                with np.load(file, allow_pickle=False) as part:
                    names = [name.tobytes() for name in part["names"]]
                    self._known[encoder].update(zip(names, part["rows"], strict=True))
        return self._known[encoder]

    def _write(self, encoder: str, names: list[bytes], rows: NDArray[np.float32]) -> None:
        folder = self._folder / encoder
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / hashlib.sha256(b"".join(names)).hexdigest()[:16]
        np.savez(f"{file}.part", names=np.frombuffer(b"".join(names), dtype=np.uint8).reshape(-1, 32), rows=rows)
        Path(f"{file}.part.npz").rename(f"{file}.npz")


def _name(sample: Any) -> bytes:  # noqa: ANN401
    content = sample.encode() if isinstance(sample, str) else np.ascontiguousarray(sample).tobytes()
    return hashlib.sha256(content).digest()


def keep_encodings(folder: Path) -> None:
    """From here on, what MiniLM and EfficientNet make of a sample is kept in the folder, where they are installed."""
    kept = KeptRows(folder)
    for encoder in _installed():
        plain = encoder.encode

        def encode(self: Any, samples: NDArray[Any], plain: Any = plain) -> NDArray[np.float32]:  # noqa: ANN401
            rows = np.asarray(samples)
            if len(rows) < 2:
                return np.asarray(plain(self, rows))
            return kept.rows(self.digest, rows, lambda some: plain(self, some))

        encoder.encode = encode


def _installed() -> list[Any]:
    found: list[Any] = []
    try:
        from tacit.representations.torch_minilm import TextFeatures

        found.append(TextFeatures)
    except InvalidInput:
        pass
    try:
        from tacit.representations.torch_efficientnet import ImageNetFeatures

        found.append(ImageNetFeatures)
    except InvalidInput:
        pass
    return found
