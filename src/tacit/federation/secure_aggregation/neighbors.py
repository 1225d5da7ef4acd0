"""Neighborhoods (Bell et al. 2020): with many holders each one masks with a few others, and their extra messages.

Each holder draws its neighbors by a fresh random number that it announces and signs with its keys: nobody else chooses
them, and everyone can verify the draw. It sends shares of its secrets to the neighbors that it drew, and masks its
table with those and with the holders that drew it.

Three messages exist only here. With its table a holder sends each neighbor a *tag*, which proves that it masked with
that neighbor. The *unmask request* says whose tables are in the sum, and has the neighbors' tags. The *agreement* is a
holder's signature on that request; no share is revealed before enough holders have signed the same request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tacit.core import InvalidInput, SystemRandomness, permutations
from tacit.core.codec import bytes_to_array, encode
from tacit.federation.keys import SigningIdentity, derived, signed_by, stream
from tacit.federation.secure_aggregation.session import (
    BOX,
    SIGNATURE,
    Keys,
    Session,
    of_session,
    read_pieces,
    require_enough,
    sorted_names,
    write_pieces,
)
from tacit.mechanisms.masked.neighborhoods import witnesses

__all__ = [
    "TAG",
    "AgreementQuestion",
    "Equivocation",
    "drawn_neighbors",
    "is_neighbor",
    "read_agreement",
    "read_inbox",
    "read_tags",
    "require_agreement",
    "tag_of",
    "write_agreement",
    "write_agreements",
    "write_inbox",
]  # fmt: skip

TAG = 16
_WORDS = 2**64


class Equivocation(InvalidInput):
    """A holder that is listed as a signer did not sign this request: others were sent a different one."""


def drawn_neighbors(choice: bytes, session: Session, node: str) -> frozenset[str]:
    """The neighbors that a node draws by its random number: the first distinct ones of a uniform sequence."""
    others = len(session.nodes) - 1
    degree = session.neighborhood.degree
    if degree == others:
        return frozenset(session.nodes) - {node}
    key, own, words = derived(choice, "neighbors", session.digest, node), session.place(node) - 1, 2 * degree
    while True:
        # Words at the end of the range are rejected: they would make small numbers more likely.
        sequence = stream(key, words)
        sequence = sequence[sequence <= np.uint64(_WORDS - _WORDS % others - 1)] % np.uint64(others)
        places, first = np.unique(sequence, return_index=True)
        if len(places) >= degree:
            found = places[np.argsort(first)][:degree].tolist()
            return frozenset(session.names[place + (place >= own)] for place in found)
        words *= 2


def tag_of(secret: bytes, session: Session, sender: str, receiver: str) -> bytes:
    """The proof for a neighbor that the sender masked with it; ``secret`` is the shared secret of the two."""
    return derived(secret, "masked with", session.digest, sender, receiver)[:TAG]


def write_inbox(node: str, boxes: Mapping[str, bytes], there: Iterable[str], session: Session) -> bytes:
    """The boxes of the neighbors that drew the node, and which of its neighbors are still ``there``."""
    return encode({"session": session.digest, "node": node, "there": sorted(there), **write_pieces("boxes", boxes)})


def read_inbox(payload: bytes, session: Session) -> tuple[str, dict[str, bytes], tuple[str, ...]]:
    """The receiver, the boxes, and the neighbors that are still there."""
    fields = of_session(payload, session, "inbox")
    node, there = fields.text("node"), sorted_names(fields, len(session.nodes), "there")
    boxes = read_pieces(fields, session, "boxes", BOX)
    fields.done()
    return node, boxes, there


def read_tags(payload: bytes, session: Session) -> dict[str, bytes]:
    """The tags that came with a node's table, by receiver."""
    fields = of_session(payload, session, "input", len(payload))
    tags = read_pieces(fields, session, "tags", TAG)
    fields.take("node"), fields.take("paid")
    fields.done()
    return tags


@dataclass(frozen=True)
class AgreementQuestion:
    """An unmask request: whose tables are in the sum, who dropped out after sending shares, and the neighbors' tags."""

    survivors: frozenset[str]
    dropped: frozenset[str]
    tags: Mapping[str, bytes]

    def to_bytes(self, session: Session) -> bytes:
        """The request as bytes, with one bit per member."""
        sets = {"survivors": _bits(self.survivors, session), "dropped": _bits(self.dropped, session)}
        return encode({"session": session.digest, **sets, **write_pieces("tags", self.tags)})

    @classmethod
    def read(cls, payload: bytes, session: Session) -> AgreementQuestion:
        """The request in these bytes: no node both in the sum and dropped, and enough nodes in the sum."""
        fields = of_session(payload, session, "unmasking question")
        survivors, dropped = (
            _members(fields.content(name, len(session.nodes)), session) for name in ("survivors", "dropped")
        )
        tags = read_pieces(fields, session, "tags", TAG)
        fields.done()
        if survivors & dropped:
            raise InvalidInput("the unmask request asks for both secrets of one node, which would reveal its table")
        require_enough(len(survivors), session, "are in the sum")
        return cls(survivors, dropped, tags)

    def signed_part(self, session: Session) -> bytes:
        """The bytes that nodes sign: equal for all nodes that got the same request."""
        sets = [bytes(_bits(names, session)) for names in (self.survivors, self.dropped)]
        return b"\0".join([b"tacit question 1", session.digest.encode(), hashlib.sha256(b"".join(sets)).digest()])


def write_agreement(node: str, question: AgreementQuestion, identity: SigningIdentity, session: Session) -> bytes:
    """A node's signature on the unmask request."""
    signature = bytes_to_array(identity.sign(question.signed_part(session)))
    return encode({"session": session.digest, "node": node, "signature": signature})


def read_agreement(payload: bytes, session: Session, question: AgreementQuestion) -> tuple[str, bytes]:
    """The signer and its verified signature on this unmask request."""
    fields = of_session(payload, session, "agreement")
    node, signature = fields.text("node"), fields.content("signature", SIGNATURE)
    fields.done()
    if node not in session.nodes or not signed_by(session.nodes[node], question.signed_part(session), signature):
        raise InvalidInput("the agreement must be signed by the node that it names, for this unmask request")
    return node, signature


def write_agreements(signatures: Mapping[str, bytes], session: Session) -> bytes:
    """All signatures: one bit per member, and then the signatures in the members' order."""
    joined = b"".join(signatures[name] for name in sorted(signatures))
    signers = _bits(frozenset(signatures), session)
    return encode({"session": session.digest, "signers": signers, "signatures": bytes_to_array(joined)})


def require_agreement(payload: bytes, question: AgreementQuestion, session: Session) -> None:
    """Refuse a request that fewer nodes have signed than the threshold.

    Two different requests cannot both reach the threshold. All signatures must be listed; the node verifies some, which
    it draws itself. A coordinator that lists wrong ones is detected with high probability, and must not get a second
    try.
    """
    fields = of_session(payload, session, "agreement")
    signers = sorted(_members(fields.content("signers", len(session.nodes)), session))
    content = fields.content("signatures", SIGNATURE * len(session.nodes))
    fields.done()
    if len(content) != SIGNATURE * len(signers):
        raise InvalidInput("the agreement must have one signature for each signer")
    require_enough(len(signers), session, "have signed")
    plan, message = session.plan, question.signed_part(session)
    (order,) = permutations(1, len(signers), SystemRandomness())
    for place in order[: witnesses(plan.holders, plan.threshold, plan.colluding or 0)].tolist():
        signature = content[SIGNATURE * place : SIGNATURE * (place + 1)]
        if not signed_by(session.nodes[signers[place]], message, signature):
            raise Equivocation("a listed signature is wrong: other nodes were sent a different unmask request")


def _bits(names: frozenset[str], session: Session) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.packbits([name in names for name in session.names])


def _members(content: bytes, session: Session) -> frozenset[str]:
    bits = np.unpackbits(np.frombuffer(content, dtype=np.uint8))
    if len(content) != -(-len(session.nodes) // 8) or bits[len(session.nodes) :].any():
        raise InvalidInput("a set of members must have a bit for each of them")
    return frozenset(name for name, bit in zip(session.names, bits, strict=False) if bit)


def is_neighbor(node: str, other: Keys, drawn: frozenset[str], session: Session) -> bool:
    """Whether one of the two drew the other."""
    return other.node in drawn or node in drawn_neighbors(other.choice, session, other.node)
