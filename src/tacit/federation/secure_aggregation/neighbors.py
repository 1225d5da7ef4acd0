"""Who masks with whom where holders are many, and what they tell each other about it.

Each holder draws its neighbors itself, by a fresh number that it announces with its keys and signs: nobody else chooses
them, and everybody can see that they follow from the number. It gives shares of its secrets to those it drew, and masks
its table with those it drew and with those who drew it.

Three messages are there for such sums alone. With its table a holder sends each neighbor a *tag*: I masked with you.
The *question* says whose tables are in the sum, and brings the neighbors' tags. The *agreement* is a holder's signature
under the question, and nobody opens a share before enough have signed the same one.
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
    """Too few have signed what this node was asked: others were asked something else."""


def drawn_neighbors(choice: bytes, session: Session, node: str) -> frozenset[str]:
    """The others that a node draws by its number: the first different ones of a uniform sequence."""
    others = len(session.nodes) - 1
    degree = others if session.neighborhood is None else session.neighborhood.degree
    if degree == others:
        return frozenset(session.nodes) - {node}
    key, own, words = derived(choice, "neighbors", session.digest, node), session.place(node) - 1, 2 * degree
    while True:
        # Words at the end of the range would make small numbers a little likelier.
        sequence = stream(key, words)
        sequence = sequence[sequence <= np.uint64(_WORDS - _WORDS % others - 1)] % np.uint64(others)
        places, first = np.unique(sequence, return_index=True)
        if len(places) >= degree:
            found = places[np.argsort(first)][:degree].tolist()
            return frozenset(session.names[place + (place >= own)] for place in found)
        words *= 2


def tag_of(secret: bytes, session: Session, sender: str, receiver: str) -> bytes:
    """What shows a neighbor that the sender masked with it; ``secret`` is what only the two can know."""
    return derived(secret, "masked with", session.digest, sender, receiver)[:TAG]


def write_inbox(node: str, boxes: Mapping[str, bytes], there: Iterable[str], session: Session) -> bytes:
    """The boxes of those who drew the node, and which of its neighbors are ``there``."""
    return encode({"session": session.digest, "node": node, "there": sorted(there), **write_pieces("boxes", boxes)})


def read_inbox(payload: bytes, session: Session) -> tuple[str, dict[str, bytes], tuple[str, ...]]:
    """Whom it is for, the boxes, and the neighbors that are there."""
    fields = of_session(payload, session, "inbox")
    node, there = fields.text("node"), sorted_names(fields, len(session.nodes), "there")
    boxes = read_pieces(fields, session, "boxes", BOX)
    fields.done()
    return node, boxes, there


def read_tags(payload: bytes, session: Session) -> dict[str, bytes]:
    """The tags that came with a node's table, by whom they are for."""
    fields = of_session(payload, session, "input", len(payload))
    tags = read_pieces(fields, session, "tags", TAG)
    fields.take("node"), fields.take("paid")
    fields.done()
    return tags


@dataclass(frozen=True)
class AgreementQuestion:
    """Whose tables are in the sum, who sent shares and then no table, and the tags of one node's neighbors."""

    survivors: frozenset[str]
    dropped: frozenset[str]
    tags: Mapping[str, bytes]

    def to_bytes(self, session: Session) -> bytes:
        """The question as it travels: a bit for every member."""
        sets = {"survivors": _bits(self.survivors, session), "dropped": _bits(self.dropped, session)}
        return encode({"session": session.digest, **sets, **write_pieces("tags", self.tags)})

    @classmethod
    def read(cls, payload: bytes, session: Session) -> AgreementQuestion:
        """The question in these bytes: nobody both in the sum and dropped, and enough in it."""
        fields = of_session(payload, session, "unmasking question")
        survivors, dropped = (
            _members(fields.content(name, len(session.nodes)), session) for name in ("survivors", "dropped")
        )
        tags = read_pieces(fields, session, "tags", TAG)
        fields.done()
        if survivors & dropped:
            raise InvalidInput("the question asks for both secrets of one node; that would show its table")
        require_enough(len(survivors), session, "are in the sum")
        return cls(survivors, dropped, tags)

    def signed_part(self, session: Session) -> bytes:
        """What all nodes sign: the same for everybody who was asked the same."""
        sets = [bytes(_bits(names, session)) for names in (self.survivors, self.dropped)]
        return b"\0".join([b"tacit question 1", session.digest.encode(), hashlib.sha256(b"".join(sets)).digest()])


def write_agreement(node: str, question: AgreementQuestion, identity: SigningIdentity, session: Session) -> bytes:
    """A node's signature under the question."""
    signature = bytes_to_array(identity.sign(question.signed_part(session)))
    return encode({"session": session.digest, "node": node, "signature": signature})


def read_agreement(payload: bytes, session: Session, question: AgreementQuestion) -> tuple[str, bytes]:
    """Who signed, and the signature, which is under this question."""
    fields = of_session(payload, session, "agreement")
    node, signature = fields.text("node"), fields.content("signature", SIGNATURE)
    fields.done()
    if node not in session.nodes or not signed_by(session.nodes[node], question.signed_part(session), signature):
        raise InvalidInput("the agreement must be signed by the node it names, under the question that was asked")
    return node, signature


def write_agreements(signatures: Mapping[str, bytes], session: Session) -> bytes:
    """Everybody's signatures: a bit for each member, and then the signatures in the members' order."""
    joined = b"".join(signatures[name] for name in sorted(signatures))
    signers = _bits(frozenset(signatures), session)
    return encode({"session": session.digest, "signers": signers, "signatures": bytes_to_array(joined)})


def require_agreement(payload: bytes, question: AgreementQuestion, session: Session) -> None:
    """Refuse what fewer have signed than two different questions could both have.

    All must be listed and some, which the node draws itself, are checked. Whoever lists wrong ones is found out, and
    must not get a second try.
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
            raise Equivocation("nodes that are said to have signed the question did not: others were asked another")


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
