"""The question of PrivateKT: a few public samples and possibly weights are sent, and randomized labels come back."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from tacit.core import ANYTHING, Adjacency, Sensitivity, Unit
from tacit.core.codec import StrictReader, bytes_to_array
from tacit.mechanisms.forms import AnswerForm
from tacit.mechanisms.local.randomized_response import RandomizedLabels
from tacit.methods import question as asked

__all__ = ["LabelAsk"]


@dataclass(frozen=True)
class LabelAsk:
    """The question for labels of public samples by a local model.

    ``weights`` are those of the global model, as safetensors, if local models start from them. ``invited`` are the
    places of the holders that are asked in this round; the answer of each is its randomized labels, or a refusal if its
    account cannot pay.
    """

    name: ClassVar[str] = "privatekt-labels"
    method: ClassVar[str] = "privatekt"
    may_refuse: ClassVar[bool] = True
    class_names: ClassVar[None] = None
    table_shape: ClassVar[None] = None

    samples: NDArray[Any]  # (answers, *shape)
    weights: bytes | None
    mechanism: RandomizedLabels
    invited: tuple[int, ...]
    purpose: str
    request: str

    @property
    def question(self) -> str:
        """A digest of the question, so that a retried request cannot be used for a different one."""
        content = hashlib.sha256(repr((self.samples.shape, str(self.samples.dtype))).encode())
        content.update(self.samples.tobytes())
        content.update(self.weights or b"")
        return content.hexdigest()

    @property
    def seed(self) -> int:
        """The seed of local training: the same for a retried request and for a repeated run."""
        return int(self.question[:12], 16)

    def answer_form(self, most_records: int = asked.MOST_RECORDS) -> AnswerForm:
        """One label per sample."""
        return asked.mechanism_form(self.mechanism, len(self.samples), self.mechanism.classes, most_records)

    def sensitivity(self, unit: Unit, adjacency: Adjacency) -> Sensitivity:
        """Any change: all labels of a holder are randomized."""
        return ANYTHING

    def fields(self) -> dict[str, Any]:
        """The question as values that can be encoded."""
        return {
            "samples": self.samples,
            "weights": None if self.weights is None else bytes_to_array(self.weights),
            "sheet": asked.mechanism_fields(self.mechanism),
            "invited": list(self.invited),
            **asked.request_fields(self),
        }

    @classmethod
    def read(cls, fields: StrictReader) -> LabelAsk:
        """The question that ``fields`` wrote, checked."""
        mechanism = asked.read_mechanism(fields.nested("sheet"), (RandomizedLabels,))
        return cls(
            samples=asked.read_samples(fields),
            weights=None if fields.missing("weights") else fields.content("weights", asked.QUESTION_BYTES),
            mechanism=mechanism,
            invited=fields.integers("invited", asked.MOST_HOLDERS, 0, asked.MOST_HOLDERS),
            **asked.read_request(fields),
        )
