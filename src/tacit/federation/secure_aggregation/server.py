"""The coordinator's side of secure aggregation: collect, relay, and remove the masks from the sum of all tables.

It sees public keys, encrypted boxes, masked tables, and in the end one secret of each holder: the seed of its own mask,
or its pairwise key if its table never arrived. The coordinator closes a step; a node whose message has not arrived by
then has dropped out. The state is a value that can be stored, so a killed coordinator can resume.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, SystemRandomness, TooFewParticipants, permutations
from tacit.core.codec import bytes_to_array, decode_strict, encode
from tacit.core.release import Receipt, Release, gather, restored
from tacit.federation.keys import shared_secret
from tacit.federation.secure_aggregation.masks import (
    commitment,
    element_to_bytes,
    lagrange_weights,
    masking_public,
    own_mask,
    pairwise_mask,
    read_element,
    reconstruct_secret,
)
from tacit.federation.secure_aggregation.neighbors import (
    AgreementQuestion,
    drawn_neighbors,
    read_agreement,
    read_tags,
    write_agreements,
    write_inbox,
)
from tacit.federation.secure_aggregation.session import (
    STEPS,
    Keys,
    Session,
    read_boxes,
    read_input,
    read_keys,
    read_openings,
    write_roster,
)
from tacit.mechanisms.masked.distributed_gaussian import WIDTHS
from tacit.wire import Price, read_receipt

__all__ = ["ServerState", "accept_message", "close", "receipts_of", "result"]

_LARGEST_STATE = 2**32
_Came = Mapping[str, Mapping[str, bytes]]
# Sets of holders that are tried for a secret when some shares are wrong.
_TRIES = 1000


@dataclass(frozen=True)
class ServerState:
    """All received messages by step and node, and the open step."""

    session: Session
    came: Mapping[str, Mapping[str, bytes]] = field(default_factory=lambda: {step: {} for step in STEPS}, repr=False)
    step: str = "keys"

    def to_bytes(self) -> bytes:
        """The state for the coordinator's disk."""
        came = {step: {name: bytes_to_array(each) for name, each in self.came[step].items()} for step in STEPS}
        return encode({"session": bytes_to_array(self.session.to_bytes()), "step": self.step, "came": came})

    @classmethod
    def read(cls, payload: bytes) -> ServerState:
        """The state in these bytes."""
        fields = decode_strict(payload, _LARGEST_STATE, "state")
        session = Session.read(fields.content("session", _LARGEST_STATE))
        step, steps = fields.one_of("step", (*STEPS, "over")), fields.nested("came")
        came = {}
        for each in STEPS:
            inner = steps.nested(each)
            came[each] = {
                name: inner.content(name, _LARGEST_STATE) for name in session.nodes if inner.peek(name) is not None
            }
            inner.done()
        steps.done()
        fields.done()
        return cls(session, came, step)


def accept_message(state: ServerState, sender: str, payload: bytes) -> ServerState:
    """The state with a node's message for the open step; any other message is an error.

    ``sender`` is the transport's authenticated name. A repeated message changes nothing; a different one from the same
    node is refused, and the first one stays.
    """
    if sender not in state.session.nodes:
        raise InvalidInput("the sender does not take part in this session")
    if state.step not in STEPS:
        raise InvalidInput("the session is complete")
    place = STEPS.index(state.step)
    earlier = STEPS[place - 1] if place else None
    if earlier is not None and sender not in state.came[earlier]:
        raise InvalidInput(f"the sender did not complete the step {earlier!r} and has dropped out")
    CHECKS[state.step](state, sender, payload)
    first = state.came[state.step].get(sender)
    if first is not None and first != payload:
        raise InvalidInput("the sender has sent another message for this step; the first one counts")
    of_step = {**state.came[state.step], sender: payload}
    return replace(state, came={**state.came, state.step: of_step})


def _check_keys(state: ServerState, sender: str, payload: bytes) -> None:
    keys = read_keys(payload, state.session)
    if keys.node != sender:
        raise InvalidInput("the keys are those of another node")
    for public in (keys.sealing, keys.masking):
        # A point of small order would fail at every neighbor, who would drop out in the sender's place.
        shared_secret(_ANY_SECRET, public)


def _check_boxes(state: ServerState, sender: str, payload: bytes) -> None:
    node, boxes = read_boxes(payload, state.session)
    drawn = drawn_neighbors(
        read_keys(state.came["keys"][sender], state.session, seen=True).choice, state.session, sender
    )
    if node != sender or set(boxes) != drawn & state.came["keys"].keys():
        raise InvalidInput("the boxes must be the sender's, one for each neighbor that it drew and that announced keys")


def _check_input(state: ServerState, sender: str, payload: bytes) -> None:
    if read_input(payload, state.session)[0] != sender:
        raise InvalidInput("the input is that of another node")
    _masked(state.session, sender, payload)


def _check_openings(state: ServerState, sender: str, payload: bytes) -> None:
    node, openings = read_openings(payload, state.session)
    if node != sender or not set(openings) <= set(state.came["shares"]):
        raise InvalidInput("the shares must be the sender's, of nodes that sent shares")
    for share in openings.values():
        read_element(share)


def _check_agreement(state: ServerState, sender: str, payload: bytes) -> None:
    if read_agreement(payload, state.session, _question(state.came, {}))[0] != sender:
        raise InvalidInput("the agreement is signed by another node")


# Whether an exchange with a public key is possible does not depend on the secret.
_ANY_SECRET = bytes(range(32))
CHECKS: Mapping[str, Callable[[ServerState, str, bytes], None]] = {
    "keys": _check_keys,
    "shares": _check_boxes,
    "input": _check_input,
    "agree": _check_agreement,
    "unmask": _check_openings,
}


def close(state: ServerState) -> tuple[ServerState, dict[str, bytes]]:
    """Close the open step: the state in the next step, and the message for each remaining node; an error if too few."""
    session, here = state.session, state.came.get(state.step, {})
    if len(here) < session.plan.threshold:
        raise TooFewParticipants(
            f"{len(here)} of {len(session.nodes)} nodes completed the step {state.step!r} of the masked sum, and at "
            f"least {session.plan.threshold} are needed. Nothing was revealed; ask again when more nodes can answer"
        )
    if state.step not in STEPS[:-1]:
        return replace(state, step="over"), {}
    following = STEPS[STEPS.index(state.step) + 1]
    return replace(state, step=following), next_inbox(state.step, state.came, session)


def announced_graph(came: _Came, session: Session) -> dict[str, frozenset[str]]:
    """The neighbors that each node drew, for the nodes that announced keys."""
    keys: dict[str, Keys] = {name: read_keys(each, session, seen=True) for name, each in came["keys"].items()}
    return {name: drawn_neighbors(each.choice, session, name) for name, each in keys.items()}


def neighbors_of(drawn: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """The nodes that each node masks with: those that it drew and those that drew it, among the nodes in the graph."""
    found: dict[str, set[str]] = {name: set() for name in drawn}
    for name, others in drawn.items():
        for other in others & drawn.keys():
            found[name].add(other)
            found[other].add(name)
    return {name: frozenset(others) for name, others in found.items()}


def next_inbox(step: str, came: _Came, session: Session) -> dict[str, bytes]:
    """The message of the next step for each node that completed this one."""
    here = came[step]
    match step:
        case "keys":
            neighbors = neighbors_of(announced_graph(came, session))
            return {
                name: write_roster({other: here[other] for other in (name, *neighbors[name])}, session) for name in here
            }
        case "shares":
            sent = {name: read_boxes(payload, session)[1] for name, payload in here.items()}
            drawn = {name: each for name, each in announced_graph(came, session).items() if name in here}
            neighbors = neighbors_of(drawn)
            return {
                name: write_inbox(
                    name,
                    {other: sent[other][name] for other in neighbors[name] if name in drawn[other]},
                    neighbors[name],
                    session,
                )
                for name in here
            }
        case "input":
            tags: dict[str, dict[str, bytes]] = {name: {} for name in here}
            for sender, payload in here.items():
                for receiver, tag in read_tags(payload, session).items():
                    if receiver in tags:
                        tags[receiver][sender] = tag
            return {name: _question(came, tags[name]).to_bytes(session) for name in here}
        case _:
            question = _question(came, {})
            signed = {name: read_agreement(each, session, question)[1] for name, each in here.items()}
            return dict.fromkeys(here, write_agreements(signed, session))


def _question(came: _Came, tags: Mapping[str, bytes]) -> AgreementQuestion:
    survivors = frozenset(came["input"])
    return AgreementQuestion(survivors, frozenset(came["shares"]) - survivors, tags)


def result(state: ServerState, purpose: str, shape: tuple[int, ...]) -> Release[Integers]:
    """The sum of the surviving nodes' noisy tables in this shape, with the receipts that paid for it."""
    if state.step != "over":
        raise InvalidInput(f"the masked sum is not complete: the step {state.step!r} is open")
    inputs = [_masked(state.session, name, payload, purpose) for name, payload in state.came["input"].items()]
    mask = _whole_mask(state)

    def unmasked(tables: list[NDArray[Any]]) -> Integers:
        total = np.zeros(state.session.cells, dtype=np.uint64)
        for table in tables:
            total += table.astype(np.uint64)
        return state.session.plan.opened(total - mask).reshape(shape)

    return gather(inputs).map(unmasked)


def receipts_of(session: Session, sender: str, payload: bytes) -> tuple[Receipt, ...]:
    """The receipts in a node's masked input."""
    return _masked(session, sender, payload).receipts


def _masked(session: Session, sender: str, payload: bytes, purpose: str = "") -> Release[NDArray[Any]]:
    """A node's masked table with its receipt."""
    price = Price(session.request, purpose, session.plan.spend)
    receipt, table = read_receipt(read_input(payload, session)[1], sender, price)
    width = np.dtype(WIDTHS[session.plan.bits]).newbyteorder("<")
    if len(table) != session.cells * width.itemsize:
        raise InvalidInput(f"a masked table must have {session.cells} cells of {session.plan.bits} bits")
    return restored(np.frombuffer(table, dtype=width), [receipt.to_json()])


def _whole_mask(state: ServerState) -> NDArray[np.uint64]:
    """The sum of all masks that do not cancel in the sum of the surviving nodes' tables."""
    session, survivors = state.session, list(state.came["input"])
    dropped = [name for name in state.came["shares"] if name not in state.came["input"]]
    keys = {name: read_keys(payload, session, seen=True) for name, payload in state.came["keys"].items()}
    openings = {name: read_openings(payload, session)[1] for name, payload in state.came["unmask"].items()}
    found = _Secrets(session, openings)
    mask = np.zeros(session.cells, dtype=np.uint64)
    for name in survivors:
        mask += own_mask(found.secret(name, partial(_is_seed, session, keys[name])), session, name)
    masked = _masked_with(state)
    for name in dropped:
        secret = found.secret(name, partial(_is_masking, session, keys[name]))
        for other in sorted(masked[name] & state.came["input"].keys()):
            # The surviving node subtracted what the dropout would have added.
            mask -= pairwise_mask(secret, session, name, keys[other])
    return mask


def _masked_with(state: ServerState) -> Mapping[str, frozenset[str]]:
    """The nodes that each node masked with, for the nodes that sent shares."""
    everyone = frozenset(state.came["shares"])
    drawn = announced_graph(state.came, state.session)
    return neighbors_of({name: each for name, each in drawn.items() if name in everyone})


def _is_seed(session: Session, keys: Keys, secret: bytes) -> bool:
    return commitment(secret, session, keys.node) == keys.commitment


def _is_masking(session: Session, keys: Keys, secret: bytes) -> bool:
    return masking_public(secret, session, keys.node) == keys.masking


class _Secrets:
    """Reconstructs secrets from shares, also if some holders sent wrong ones."""

    def __init__(self, session: Session, openings: Mapping[str, Mapping[str, bytes]]) -> None:
        self._session = session
        self._openings = openings
        self._weights: dict[tuple[str, ...], list[int]] = {}

    def secret(self, node: str, fits: Callable[[bytes], bool]) -> bytes:
        """A holder's secret, verified by the holder's announced keys."""
        givers = [name for name, given in self._openings.items() if node in given]
        for chosen in self._choices(givers):
            if chosen not in self._weights:
                self._weights[chosen] = lagrange_weights([self._session.place(name) for name in chosen])
            shares = {self._session.place(name): read_element(self._openings[name][node]) for name in chosen}
            secret = element_to_bytes(reconstruct_secret(shares, self._weights[chosen]))
            if fits(secret):
                # These holders' shares are probably correct for other secrets, too, and their weights are known.
                self._weights = {chosen: self._weights[chosen]}
                return secret
        raise TooFewParticipants(
            "too few holders sent correct shares of a secret that is needed for the sum. Nothing was revealed; ask "
            "again without the holders that send wrong shares"
        )

    def _choices(self, givers: list[str]) -> Iterator[tuple[str, ...]]:
        """Sets of holders to try: correct ones of before, then all sets, or the first one and random ones."""
        threshold = self._session.shares
        yield from [chosen for chosen in self._weights if set(chosen) <= set(givers)]
        if math.comb(len(givers), threshold) <= _TRIES:
            yield from combinations(givers, threshold)
        else:
            yield tuple(givers[:threshold])
            for order in permutations(_TRIES, len(givers), SystemRandomness()):
                yield tuple(givers[place] for place in sorted(order[:threshold].tolist()))
