"""A holder's side of secure aggregation: each step is a function from a state and a message to a state and a message.

The state is a value that can be stored between two steps. It contains secrets and stays on the holder's own disk. A
repeated message gets the same answer, byte for byte; a different message for a completed step is always refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput, Release, SystemRandomness, integer_below
from tacit.core.codec import bytes_to_array, decode_strict, encode
from tacit.federation.keys import SigningIdentity, boxed, derived, public_key, shared_secret, unboxed
from tacit.federation.secure_aggregation.masks import (
    PRIME,
    commitment,
    element_to_bytes,
    masking_public,
    own_mask,
    pairwise_mask,
    read_element,
    split_secret,
)
from tacit.federation.secure_aggregation.neighbors import (
    AgreementQuestion,
    drawn_neighbors,
    is_neighbor,
    read_inbox,
    require_agreement,
    tag_of,
    write_agreement,
)
from tacit.federation.secure_aggregation.session import (
    STEPS,
    Keys,
    Session,
    read_keys,
    read_roster,
    write_boxes,
    write_input,
    write_openings,
)
from tacit.mechanisms.masked.distributed_gaussian import WIDTHS
from tacit.mechanisms.masked.distributed_laplace import MaskedShare
from tacit.wire import Price, receipt_to_bytes

__all__ = ["ClientState", "agree", "announce", "masked_input", "share_secrets", "unmask"]

_WIDTH = 32
_LARGEST_STATE = 2**28


@dataclass(frozen=True)
class ClientState:
    """A holder's state of one session. Its ``repr`` shows no secrets."""

    session: Session
    node: str
    sealing: bytes = field(repr=False)
    masking: bytes = field(repr=False)
    seed: bytes = field(repr=False)
    heard: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    said: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def to_bytes(self) -> bytes:
        """The state for the holder's own disk."""
        return encode(
            {
                "session": bytes_to_array(self.session.to_bytes()),
                "node": self.node,
                "secrets": bytes_to_array(self.sealing + self.masking + self.seed),
                "heard": {step: bytes_to_array(content) for step, content in self.heard.items()},
                "said": {step: bytes_to_array(content) for step, content in self.said.items()},
            }
        )

    @property
    def forgotten(self) -> ClientState:
        """The state without its secrets, which can decrypt and reveal no share any more."""
        return replace(self, sealing=b"", masking=b"", seed=b"")

    @property
    def drawn(self) -> frozenset[str]:
        """The neighbors that this node drew."""
        return drawn_neighbors(read_keys(self.said["keys"], self.session, seen=True).choice, self.session, self.node)

    @classmethod
    def read(cls, payload: bytes) -> ClientState:
        """The state in these bytes."""
        fields = decode_strict(payload, _LARGEST_STATE, "state")
        session, node = Session.read(fields.content("session", _LARGEST_STATE)), fields.text("node")
        secrets = fields.content("secrets", 3 * _WIDTH)
        steps = [fields.nested(name) for name in ("heard", "said")]
        heard, said = (
            {step: each.content(step, _LARGEST_STATE) for step in STEPS if each.peek(step) is not None}
            for each in steps
        )
        fields.done()
        return cls(session, node, secrets[:_WIDTH], secrets[_WIDTH : 2 * _WIDTH], secrets[2 * _WIDTH :], heard, said)


def announce(session: Session, node: str, identity: SigningIdentity) -> tuple[ClientState, bytes]:
    """Step 1: fresh keys, whose public halves are announced under the holder's signature.

    The caller has checked that the session's identities are those in its own operator's list: a coordinator that could
    invent holders could subtract their noise from the sum.
    """
    if session.nodes.get(node) != identity.public:
        raise InvalidInput("this node does not take part in the session under its own identity")
    plan = session.plan
    session.neighborhood.require(plan.holders, plan.threshold, plan.honest, plan.colluding)
    # Keys come from the system's generator, in simulations too: they do not change the sum.
    source = SystemRandomness()
    choice, sealing, masking, seed = (element_to_bytes(integer_below(PRIME, source)) for _ in range(4))
    state = ClientState(session, node, sealing, masking, seed)
    public = public_key(sealing), masking_public(masking, session, node), commitment(seed, session, node), choice
    keys = Keys.signed(session, node, identity, *public).to_bytes()
    return _done(state, "keys", b"", keys), keys


def share_secrets(state: ClientState, roster: bytes) -> tuple[ClientState, bytes]:
    """Step 2: shares of both secrets for every neighbor that announced keys, each encrypted for its receiver."""
    if (again := _again(state, "shares", roster)) is not None:
        return state, again
    session, peers = state.session, read_roster(roster, state.session)
    _require_own_keys(state, peers)
    receivers = _drawn_among(state, peers)
    source, places = SystemRandomness(), [session.place(name) for name in receivers]
    parts = [
        split_secret(read_element(secret), session.shares, places, source) for secret in (state.seed, state.masking)
    ]
    boxes = {}
    for name, *pair in zip(receivers, *parts, strict=True):
        key, label = _box_key(state, peers[name], sender=state.node)
        boxes[name] = boxed(key, b"".join(map(element_to_bytes, pair)), label)
    sent = write_boxes(state.node, boxes, session)
    return _done(state, "shares", roster, sent), sent


def masked_input(
    state: ClientState, inbox: bytes, answer: Callable[[MaskedShare], Release[Any]]
) -> tuple[ClientState, bytes]:
    """Step 3: the masked table, which ``answer`` releases through the gate, after payment.

    The table is masked with every node whose boxes arrived; these masks cancel in the sum or are computed from shares.
    """
    if (again := _again(state, "input", inbox)) is not None:
        return state, again
    there = _neighbors_there(state, inbox)
    mask, session = _mask(state, there)
    plan = state.session.plan
    release = answer(MaskedShare(plan, session, mask))
    (receipt,) = release.receipts
    paid = receipt_to_bytes(receipt, Price(state.session.request, receipt.purpose, plan.spend))
    table = np.ascontiguousarray(release.value, dtype=np.dtype(WIDTHS[plan.bits]).newbyteorder("<"))
    tags = {name: _tag(state, keys, sender=state.node) for name, keys in there.items()}
    sent = write_input(state.node, paid + table.tobytes(), state.session, tags)
    return _done(state, "input", inbox, sent), sent


def agree(state: ClientState, question: bytes, identity: SigningIdentity) -> tuple[ClientState, bytes]:
    """Step 4: sign the list of tables in the sum, if all neighbors were shown the same graph."""
    if (again := _again(state, "agree", question)) is not None:
        return state, again
    asked, there = (
        AgreementQuestion.read(question, state.session),
        _neighbors_there(state, state.heard["input"], seen=True),
    )
    known = asked.survivors | asked.dropped
    if state.node not in asked.survivors or not set(there) <= known or not state.drawn & known <= set(there):
        raise InvalidInput(
            "the unmask request must include this node's own table, and exactly the neighbors that it was told of"
        )
    for name in there.keys() & asked.survivors:
        if asked.tags.get(name) != _tag(state, there[name], sender=name):
            raise InvalidInput(f"node {name[:80]!r} did not mask with this node: they were shown different graphs")
    sent = write_agreement(state.node, asked, identity, state.session)
    return _done(state, "agree", question, sent), sent


def unmask(state: ClientState, question: bytes) -> tuple[ClientState, bytes]:
    """Step 5: reveal for every neighbor that drew this holder one share, of its seed or of its key, and never of both.

    It follows the request that this holder signed, once enough others have signed the same. ``Equivocation`` ends the
    session for this holder: its secrets must be deleted.
    """
    if (again := _again(state, "unmask", question)) is not None:
        return state, again
    session = state.session
    if not state.sealing:
        raise InvalidInput("this node has left the session: nodes were sent different unmask requests")
    signed = AgreementQuestion.read(state.heard["agree"], session)
    require_agreement(question, signed, session)
    _, boxes, _ = read_inbox(state.heard["input"], session)
    peers = read_roster(state.heard["shares"], session, seen=True)
    openings = {}
    for name in sorted(boxes):
        key, label = _box_key(state, peers[name], sender=name)
        # A box that cannot be decrypted was damaged by its sender; other holders have shares of the same secret.
        content = unboxed(key, boxes[name], label) or b""
        if len(content) == 2 * _WIDTH:
            openings[name] = content[:_WIDTH] if name in signed.survivors else content[_WIDTH:]
    sent = write_openings(state.node, openings, session)
    # This was the last step of the session, so the secrets are deleted.
    return _done(state.forgotten, "unmask", question, sent), sent


def _drawn_among(state: ClientState, peers: Mapping[str, Keys]) -> list[str]:
    """The neighbors that this node drew and that announced keys; the roster may have neighbors' keys only."""
    session, drawn = state.session, state.drawn
    if not all(is_neighbor(state.node, keys, drawn, session) for name, keys in peers.items() if name != state.node):
        raise InvalidInput("the roster has keys of a node that is not a neighbor of this one")
    found = sorted(drawn & peers.keys())
    if len(found) < session.shares:
        raise InvalidInput(f"only {len(found)} of this node's neighbors announced keys; at least {session.shares} must")
    return found


def _neighbors_there(state: ClientState, inbox: bytes, seen: bool = False) -> dict[str, Keys]:
    """The keys of the neighbors whose shares arrived; an inbox that was ``seen`` is not checked again."""
    session = state.session
    peers = read_roster(state.heard["shares"], session, seen=True)
    node, boxes, there = read_inbox(inbox, session)
    if seen:
        return {name: peers[name] for name in there}
    if node != state.node or state.node in there or not set(there) <= set(peers):
        raise InvalidInput("the inbox must be for this node, from neighbors that announced keys")
    if set(boxes) != {name for name in there if state.node in drawn_neighbors(peers[name].choice, session, name)}:
        raise InvalidInput("the boxes must be from exactly the neighbors that drew this node")
    if len(state.drawn & set(there)) < session.shares:
        raise InvalidInput(f"fewer than {session.shares} of the neighbors that this node drew sent their shares")
    return {name: peers[name] for name in there}


def _mask(state: ClientState, there: Mapping[str, Keys]) -> tuple[NDArray[np.uint64], str]:
    """The sum of all masks, and a digest of everything that it depends on."""
    session = state.session
    mask = own_mask(state.seed, session, state.node)
    for keys in there.values():
        mask = mask + pairwise_mask(state.masking, session, state.node, keys)
    bound = [session.digest.encode(), state.node.encode(), state.heard["shares"], *map(str.encode, sorted(there))]
    return mask, hashlib.sha256(b"".join(hashlib.sha256(each).digest() for each in bound)).hexdigest()


def _box_key(state: ClientState, other: Keys, sender: str) -> tuple[bytes, bytes]:
    """The encryption key between this node and the other, in the direction from ``sender``, and the box's label."""
    receiver = other.node if sender == state.node else state.node
    key = derived(shared_secret(state.sealing, other.sealing), "box", state.session.digest, sender, receiver)
    return key, f"{state.session.digest} {sender} {receiver}".encode()


def _tag(state: ClientState, other: Keys, sender: str) -> bytes:
    receiver = other.node if sender == state.node else state.node
    return tag_of(shared_secret(state.sealing, other.sealing), state.session, sender, receiver)


def _require_own_keys(state: ClientState, peers: Mapping[str, Keys]) -> None:
    mine = peers.get(state.node)
    if mine is None or mine.to_bytes() != state.said["keys"]:
        raise InvalidInput("the roster must contain the keys that this node announced")


def _again(state: ClientState, step: str, payload: bytes) -> bytes | None:
    """The earlier answer to a repeated message; None for the next step, and an error for any other message."""
    if step in state.said:
        if state.heard[step] != payload:
            raise InvalidInput(f"this session's step {step!r} is complete, and had different content")
        return state.said[step]
    if (due := STEPS[len(state.said)]) != step:
        raise InvalidInput(f"the step {step!r} comes after {due!r}")
    return None


def _done(state: ClientState, step: str, heard: bytes, said: bytes) -> ClientState:
    return replace(state, heard={**state.heard, step: heard}, said={**state.said, step: said})
