"""Slow public encoders, each sample encoded once: rows kept on disk by the encoder's digest and the sample's bytes.

Where many lines encode the same images, histograms of gradients are kept in memory, by the bytes of samples that came
together. Encoders compute a sample in the same way whatever samples are beside it, so rows may be kept. It is for
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
from tacit.representations.image_features import OrientedGradients

__all__ = ["KeptRows", "keep_encodings", "keep_in_memory"]

AT_ONCE = 512  # rows that are encoded before they are written
MOST_KEPT = 2**31  # bytes of features in memory


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


def keep_in_memory(encoder: Any = OrientedGradients, most: int = MOST_KEPT) -> None:  # noqa: ANN401
    """From here on, what this kind of encoder makes of samples that come together is computed once.

    An encoder is a value: two that are equal encode equally. What does not fit any more is computed again.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Doubling:
    ...     def encode(self, samples):
    ...         print("computed")
    ...         return 2 * samples
    >>> keep_in_memory(Doubling)
    >>> [Doubling().encode(np.array([1.0, 2.0])).tolist() for _ in range(2)]
    computed
    [[2.0, 4.0], [2.0, 4.0]]
    """
    plain, known, size = encoder.encode, {}, [0]

    def encode(self: Any, samples: NDArray[Any]) -> NDArray[Any]:  # noqa: ANN401
        rows = np.ascontiguousarray(samples)
        name = (self, rows.shape, rows.dtype.str, hashlib.blake2b(rows.tobytes()).digest())
        if name not in known:
            found = np.asarray(plain(self, samples))
            if size[0] + found.nbytes > most:
                return found
            known[name], size[0] = found.copy(), size[0] + found.nbytes
        return known[name].copy()  # whoever asks may write in it

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
