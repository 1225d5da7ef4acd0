"""What is sent in PrivateKT: a few public samples and perhaps weights one way, noisy labels the other."""

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
    """How do your records label these public samples?

    ``weights`` are those of the global model, as safetensors, where local models start from them. ``invited`` says
    which holders are asked in this round, by their place; the answer of each is what ``mechanism`` makes of its
    labels, or a refusal where its account cannot pay.
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
        """A digest of what is asked, so that a retried request cannot stand for another question."""
        content = hashlib.sha256(repr((self.samples.shape, str(self.samples.dtype))).encode())
        content.update(self.samples.tobytes())
        content.update(self.weights or b"")
        return content.hexdigest()

    @property
    def seed(self) -> int:
        """What local training shuffles by: the same for a request that is made again, and in a run that is repeated."""
        return int(self.question[:12], 16)

    def answer_form(self, most_records: int = asked.MOST_RECORDS) -> AnswerForm:
        """One label per sample."""
        return asked.mechanism_form(self.mechanism, len(self.samples), self.mechanism.classes, most_records)

    def sensitivity(self, unit: Unit, adjacency: Adjacency) -> Sensitivity:
        """All labels of a holder may change: they are randomized as a whole."""
        return ANYTHING

    def fields(self) -> dict[str, Any]:
        """All of it as values that can be encoded."""
        return {
            "samples": self.samples,
            "weights": None if self.weights is None else bytes_to_array(self.weights),
            "sheet": asked.mechanism_fields(self.mechanism),
            "invited": list(self.invited),
            **asked.request_fields(self),
        }

    @classmethod
    def read(cls, fields: StrictReader) -> LabelAsk:
        """The question that such values stand for, checked."""
        sheet = asked.read_mechanism(fields.nested("sheet"), (RandomizedLabels,))
        return cls(
            samples=asked.read_samples(fields),
            weights=None if fields.missing("weights") else fields.content("weights", asked.QUESTION_BYTES),
            mechanism=sheet,
            invited=fields.integers("invited", asked.MOST_HOLDERS, 0, asked.MOST_HOLDERS),
            **asked.read_request(fields),
        )
