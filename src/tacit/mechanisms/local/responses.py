"""Many labels of one party, each through randomized response: the price is that of all of them together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.core.randomness import Randomness
from tacit.core.sensitivity import ANYTHING, Sensitivity
from tacit.core.spend import Repeated
from tacit.mechanisms.description import CELLS, Described, Inner, Parameters
from tacit.mechanisms.forms import AnswerForm
from tacit.mechanisms.local.generalized_randomized_response import GeneralizedRandomizedResponse
from tacit.mechanisms.local.subset_selection import SubsetSelection

__all__ = ["Responses"]


@dataclass(frozen=True)
class Responses(Described):
    """Randomizes ``count`` labels of one party independently, each by ``local``.

    **Law.** Message i is drawn by ``local`` from label i, independently of the others.

    **Spend.** ``Repeated(local.spend, count)``: a local mechanism states the price of one label, and all these
    labels come from the same records.

    **Proof.** One changed record may change every label, because nothing bounds its influence on a trained model.
    Each message is then ε₀-indistinguishable, and independent draws compose.

    **Source.** Composition of the local mechanism; nothing new.

    >>> Responses(GeneralizedRandomizedResponse(cells=10, ones=1, epsilon="1/10"), count=50).spend.count
    50
    """

    name = "responses"
    statistic = "labels"
    releases = "messages"
    parameters: ClassVar[Parameters] = {
        "local": Inner((GeneralizedRandomizedResponse, SubsetSelection)),
        "count": CELLS,
    }
    max_sensitivity: ClassVar[Sensitivity] = ANYTHING

    local: GeneralizedRandomizedResponse | SubsetSelection
    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InvalidInput(f"count must be at least 1, got {self.count}")
        if self.local.ones != 1:
            raise InvalidInput(f"a label is one cell; the local mechanism is for {self.local.ones}")

    @property
    def spend(self) -> Repeated:
        """What all the labels cost the party together."""
        return Repeated(self.local.spend, self.count)

    def sample(self, value: NDArray[Any], randomness: Randomness) -> NDArray[Any]:
        """One message per label."""
        if value.shape != (self.count,):
            raise InvalidInput(f"{self.count} labels are paid for, got an array of shape {value.shape}")
        return self.local.encode(value[:, None], randomness)

    def estimates(self, messages: NDArray[Any]) -> NDArray[np.float64]:
        """An unbiased estimate (count, classes) of each label's ones and zeros.

        >>> from tacit.core.randomness import SeededRandomness
        >>> sure = Responses(GeneralizedRandomizedResponse(3, 1, 20), count=2)
        >>> sure.estimates(sure.sample(np.array([2, 0]), SeededRandomness(1))).round(6).tolist()
        [[-0.0, -0.0, 1.0], [1.0, -0.0, -0.0]]
        """
        rates = self.local.rates
        return (self._hits(messages) - rates.zero) / rates.gap

    def evidence(self, messages: NDArray[Any]) -> NDArray[np.float64]:
        """How much each message speaks for each class: log-likelihoods, up to a constant a row.

        Both mechanisms send a message that names the true class e^ε times as likely as one that does not.

        >>> Responses(GeneralizedRandomizedResponse(3, 1, 2), count=1).evidence(np.array([1])).tolist()
        [[0.0, 2.0, 0.0]]
        """
        return float(self.local.epsilon) * self._hits(messages)

    def _hits(self, messages: NDArray[Any]) -> NDArray[np.float64]:
        """Ones where a message names the class."""
        if len(messages) != self.count:
            raise InvalidInput(f"{self.count} messages were asked for, got {len(messages)}")
        return self.local.hits(messages)

    def answer_form(self, rows: int, columns: int, limit: int) -> AnswerForm:
        """One response for each row, and no more."""
        return self.local.exact_form(rows)
