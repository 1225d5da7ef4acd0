"""What may come back to a question: an answer in its range, with a receipt for this very question and its price.

A node may be broken or hostile. What passes here can move the result by one node's share and no more.
"""

from __future__ import annotations

from typing import Any

from tacit.core.errors import InvalidInput
from tacit.core.release import Release
from tacit.exchange.portable import read_release
from tacit.methods.privatekt.wire import LabelAsk

__all__ = ["read_answer"]


def read_answer(payload: bytes, ask: Any, records: int) -> Release[Any]:  # noqa: ANN401
    """The release in these bytes, if it is an answer to this question; ``records`` is the most that one node may have.

    Anything else is ``InvalidInput``.
    """
    release = read_release(payload, ask, most_records=records)
    mechanism = ask.sheet if isinstance(ask, LabelAsk) else ask.mechanism
    if release.value is None or mechanism is None:
        return release
    if len(release.receipts) != 1:
        raise InvalidInput("the answer must carry one receipt")
    receipt = release.receipts[0]
    if (receipt.request, receipt.purpose, receipt.spend) != (ask.request, ask.purpose, mechanism.spend):
        raise InvalidInput("the answer's receipt is for something else")
    return release
