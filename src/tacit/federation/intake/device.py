"""A device: one record, its own policy and ledger, and one message to each question that it answers.

It needs numpy and cryptography only. The intake is not trusted: a question is limited in size and compared with the
digest that the device was given and with the policy of the device's owner, before anything is paid. Then the gate pays
the device's own ledger, and only then is the record read (``private/gate.py``); from there on nothing is refused.

One question is one payment. The ledger stores the paid answer, and a token is drawn and stored before the payment. So a
device that crashes between paying and sending posts the same bytes when it is asked again, never a fresh draw. The same
queries in another question file are refused: they would be a second answer.

In the shuffle model the price is the amplified one (privacy amplification by shuffling). A device computes it by a
closed form, for at most as many honest others as its policy relies on, and it is never above the price without a
shuffler. The message is encrypted for the shuffler whose key the owner trusts, so a coordinator cannot name itself the
shuffler.

A device makes two calls, with the standard library alone: it fetches the question and posts the message. Outside
loopback it uses TLS only, follows no redirect and ignores proxy settings. It reads a bounded part of each response. A
device that cannot reach a worker, or is asked to come back, posts the same bytes again later.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.amplify import AmplificationBound, amplified_epsilon
from tacit.core import Approximate, Ceiling, InvalidInput, Randomness, TacitError
from tacit.core.codec import decode_strict, encode
from tacit.core.files import locked, write_file
from tacit.core.rational import Number, positive, probability, rounded_up
from tacit.federation.certificates import client_context, on_loopback, why_untrusted
from tacit.federation.intake.messages import DeviceMessage, IntakeRefusal, IntakeRefused, double_box, token_bytes
from tacit.federation.intake.question import TOKENS, OpenQuestion
from tacit.federation.keys import KEY_BYTES
from tacit.ledger import opened
from tacit.ledger.account import Bound, PolicyLimits, covered
from tacit.mechanisms.shuffle.single_message import SealedMessages, SingleMessage
from tacit.methods.rknn.holder import OneRecordHolders
from tacit.private.gate import Gate
from tacit.private.records import Private, Records

__all__ = [
    "Device",
    "DevicePolicy",
    "IntakeAddress",
    "IntakeUnreachable",
    "device_price",
    "fetch_question",
    "post_message",
]

_ACCOUNT = "device"
_LEDGER, _ANSWERS = "device.ledger", "answers"
_TOKEN = 16
# A small question must not make a device compute for long.
_MOST_CELLS, _MOST_ONES = 100_000, 100
# Digits of a price, rounded up.
_DIGITS = 9


@dataclass(frozen=True)
class DevicePolicy:
    """The limits that the owner of a device sets for all questions.

    ``epsilon`` and ``delta`` limit all questions together, ``question`` the ε of one question, and ``local`` the ε₀ of
    a message, which is the guarantee that remains should the shuffler fail. The price in the shuffle model relies on at
    most ``honest_others`` other devices, and messages are encrypted for ``shuffler`` only. ``purposes`` are the allowed
    purposes of a question. A question of more than ``largest`` bytes is not read.

    >>> DevicePolicy(epsilon=4, question=1, local=1, purposes=("reverse k-NN labels",)).shuffler is None
    True
    """

    epsilon: Fraction
    question: Fraction
    local: Fraction
    purposes: tuple[str, ...]
    delta: Fraction = Fraction(0)
    shuffler: bytes | None = None
    honest_others: int = 10_000
    largest: int = 4 * 2**20

    def __init__(
        self,
        epsilon: Number,
        question: Number,
        local: Number,
        purposes: Sequence[str],
        delta: Number = 0,
        shuffler: bytes | None = None,
        honest_others: int = 10_000,
        largest: int = 4 * 2**20,
    ) -> None:
        if shuffler is not None and len(shuffler) != KEY_BYTES:
            raise InvalidInput(f"the shuffler's key must have {KEY_BYTES} bytes, got {len(shuffler)}")
        if honest_others < 1 or largest < 1:
            raise InvalidInput("honest_others and largest must be at least 1")
        for name, value in (
            ("epsilon", positive(epsilon, "epsilon")),
            ("question", positive(question, "question")),
            ("local", positive(local, "local")),
            ("purposes", tuple(purposes)),
            ("delta", probability(delta, "delta")),
            ("shuffler", shuffler),
            ("honest_others", honest_others),
            ("largest", largest),
        ):
            object.__setattr__(self, name, value)


def device_price(inner: SingleMessage, honest_others: int) -> Approximate:
    """The price of a shuffled message for a device that relies on at most this many honest others, by a closed form.

    The bound holds for every local randomizer and needs no special functions, so a device can compute it. It is never
    below the numeric bounds that nodes use: a device pays more than a node would.

    >>> from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
    >>> plan = SingleMessage(GeneralizedRandomizedResponse(100, 1, 4), participants=10**6, delta="1e-6")
    >>> [round(float(device_price(plan, others).epsilon), 4) for others in (10**9, 10**5, 10)]
    [0.1473, 0.4078, 4.0]
    """
    local = inner.mechanism.epsilon
    others = min(inner.participants, honest_others + 1)
    try:
        mixed = rounded_up(amplified_epsilon(AmplificationBound.CLOSED_2022, others, local, inner.delta), _DIGITS)
    except InvalidInput:
        # Too few for the closed form: no amplification.
        mixed = local
    return Approximate(min(local, mixed), inner.delta)


@dataclass(frozen=True)
class Device:
    """One record, and the folder with its device's ledger and answers.

    ``sample`` are the record's features and ``label`` the name of its class. The folder is created at the first answer,
    readable by its owner only.

    >>> Device(Path("here"), np.zeros(3), "a", DevicePolicy(1, 1, 1, ("labels",))).policy.question
    Fraction(1, 1)
    """

    folder: Path
    sample: NDArray[Any] = field(repr=False)
    label: str = field(repr=False)
    policy: DevicePolicy
    randomness: Randomness | None = field(default=None, repr=False)
    clock: Callable[[], float] = time.time

    def answer(self, payload: bytes, digest: str, token: bytes | None = None) -> bytes:
        """The message that answers the question in these bytes, after payment; asked again, the same bytes.

        ``digest`` is the question's digest from a source that the owner trusts, and ``token`` the token issued for it.
        """
        question = self._read(payload, digest)
        self._require_allowed(question, token)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self.folder / f"{_ANSWERS}.lock"):
            message = DeviceMessage(self._token(question, token), self._paid(question))
        return message.to_bytes(question)

    def _read(self, payload: bytes, digest: str) -> OpenQuestion:
        if len(payload) > self.policy.largest:
            raise InvalidInput(f"the question has more than the {self.policy.largest} bytes that this device reads")
        if hashlib.sha256(payload).hexdigest() != digest:
            raise InvalidInput(
                "the fetched file does not have the question's digest; fetch it again, or from another place"
            )
        return OpenQuestion.read(payload, self.policy.largest)

    def _require_allowed(self, question: OpenQuestion, token: bytes | None) -> None:
        """Refuse by the question and the policy alone, before the record is read."""
        policy, ask = self.policy, question.ask
        if self.clock() >= question.closes:
            raise InvalidInput("the question is closed")
        if question.mechanism.cells > _MOST_CELLS or question.mechanism.ones > _MOST_ONES:
            raise InvalidInput("the question has more queries and classes than a device accepts")
        if question.mechanism.epsilon > policy.local:
            raise InvalidInput("the question asks for a message with a larger epsilon than this device's policy allows")
        if not any(covered(ask.purpose, each) for each in policy.purposes):
            raise InvalidInput("the question is for a purpose that this device's policy does not name")
        if question.sealed and question.shuffler != policy.shuffler:
            raise InvalidInput("the question names another shuffler than the one that this device trusts")
        if question.admission == TOKENS and token is None:
            raise InvalidInput("the question requires a token, and this device has none")
        if question.admission == TOKENS and token is not None and len(token) != token_bytes(question):
            raise InvalidInput(f"an issued token has {token_bytes(question)} bytes, and the given one {len(token)}")

    def _paid(self, question: OpenQuestion) -> bytes:
        """The payload, paid for by the device's ledger."""
        policy, ask, inner = self.policy, question.ask, question.inner
        mechanism: Any = ask.mechanism
        if inner is not None:

            def boxes(pieces: Sequence[bytes]) -> NDArray[np.uint8]:
                return np.frombuffer(double_box(question, pieces[0]), dtype=np.uint8)[None]

            mechanism = SealedMessages(inner, question.digest, boxes, device_price(inner, policy.honest_others))
        # Paid under the digest of the question: the same question under another name is not a second payment.
        asked = replace(ask, mechanism=mechanism, request=f"device {ask.question}")
        ceilings = {_ACCOUNT: Ceiling(policy.epsilon, policy.delta)}
        with opened(self.folder / _LEDGER, ceilings) as ledger:
            limits = PolicyLimits(question=Bound(policy.question))
            gate = Gate(ledger, _ACCOUNT, self.randomness, limits)
            release = OneRecordHolders([self._record(ask.class_names)], gate).answer(asked)
        if inner is not None:
            return bytes(release.value[0].tobytes())
        return bytes(question.mechanism.code.pack(release.value)[0].tobytes())

    def _record(self, names: tuple[str, ...]) -> Private[Records]:
        # A label outside the question's classes counts as no vote; the randomized message does not show it.
        label = names.index(self.label) if self.label in names else -1
        return Private(Records(np.asarray(self.sample)[None], np.array([label])))

    def _token(self, question: OpenQuestion, given: bytes | None) -> bytes:
        """The token of the answer to these queries, stored before the payment and never changed."""
        file = self.folder / f"{question.ask.question}.token"
        if not file.exists():
            token = os.urandom(_TOKEN) if given is None or question.admission != TOKENS else given
            kept = {"question": question.digest, "token": np.frombuffer(token, dtype=np.uint8)}
            write_file(file, encode(kept), private=True, replace=False)
        fields = decode_strict(file.read_bytes(), 2**12, "token")
        if fields.digest("question") != question.digest:
            raise InvalidInput("this device has answered the same queries in another question, and answers only once")
        return fields.content("token", 2**10)


_QUESTION = "/question"
_WORD = 200
_OK, _NOT_MODIFIED = 200, 304
# Retried: the worker or its store is unavailable or overloaded.
_PASSING = (408, 429, 500, 502, 503, 504)


class IntakeUnreachable(TacitError):
    """No worker accepted or refused the message; the same bytes may be posted again."""


@dataclass(frozen=True)
class IntakeAddress:
    """The URL of a worker, and the certificate of its authority; without one the system's authorities are trusted.

    >>> IntakeAddress("http://devices.example.org:80")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: http://devices.example.org:80: without TLS only loopback addresses are allowed
    """

    url: str
    authority: str | Path | None = None
    timeout: float = 30.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput(f"an address must be like https://host:port, got {self.url[:80]!r}")
        if parts.scheme == "http" and not on_loopback(parts.hostname):
            raise InvalidInput(f"{self.url[:80]}: without TLS only loopback addresses are allowed")

    def connection(self) -> http.client.HTTPConnection:
        """A connection object, not connected yet."""
        parts = urlsplit(self.url)
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=self.timeout)
        context = client_context(self.authority)
        return http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=self.timeout, context=context)


def fetch_question(address: IntakeAddress, most: int, digest: str | None = None, known: bytes | None = None) -> bytes:
    """The question's file of at most ``most`` bytes: the one with this digest, or the open one.

    ``known`` is a file that was fetched before; it is returned if it has not changed. The content is not trusted:
    ``Device.answer`` compares it with a digest.
    """
    headers = {} if known is None else {"If-None-Match": f'"{hashlib.sha256(known).hexdigest()}"'}
    path = _QUESTION if digest is None else f"{_QUESTION}/{digest}"
    status, content = _called(address, "GET", path, b"", headers, most)
    if status == _NOT_MODIFIED and known is not None:
        return known
    if status != _OK:
        raise IntakeUnreachable(f"{address.url} has no such question (status {status})")
    return content


def post_message(
    address: IntakeAddress,
    body: bytes,
    attempts: int = 1,
    pause: float = 30.0,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Post a message; on return it is on the intake's disk. Posting the same bytes again changes nothing.

    A worker that is unavailable or overloaded is called again after a ``pause`` in seconds that doubles each time.
    """
    for attempt in range(attempts):
        if attempt:
            sleep(pause * 2 ** (attempt - 1))
        try:
            status, content = _called(address, "POST", "/", body, {"Content-Type": "application/octet-stream"}, _WORD)
        except IntakeUnreachable:
            if attempt + 1 == attempts:
                raise
            continue
        if status == _OK:
            return
        if status not in _PASSING:
            word = content.decode("utf-8", "replace")
            raise IntakeRefused(next((each for each in IntakeRefusal if each == word), IntakeRefusal.MALFORMED))
    raise IntakeUnreachable(f"{address.url} is overloaded; post the same message again later")


def _called(
    address: IntakeAddress, method: str, path: str, body: bytes, headers: dict[str, str], most: int
) -> tuple[int, bytes]:
    connection = address.connection()
    try:
        sent = {**headers, "Accept-Encoding": "identity", "Connection": "close"}
        connection.request(method, path, body or None, sent)
        response = connection.getresponse()
        content = response.read(most + 1)
    except (OSError, http.client.HTTPException) as error:
        why = why_untrusted(error) or str(error)[:80] or type(error).__name__
        raise IntakeUnreachable(f"{address.url} does not answer ({why})") from None
    finally:
        connection.close()
    if len(content) > most:
        raise IntakeUnreachable(f"{address.url} sends more than the limit of {most} bytes")
    return response.status, content
