"""One masked sum: which run and round it is for, who takes part, and every message of its four steps.

1. *keys*: each holder announces fresh public keys, signed by its identity.
2. *shares*: each holder sends every other one shares of its two secrets, sealed.
3. *input*: each holder sends its table under its masks.
4. *unmask*: each holder gives, for every other one, a share of one secret: of the seed of its own mask if its table is
   in the sum, of its pairwise key if it dropped out. Never of both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tacit.core.codec import StrictReader, bytes_to_array, decode_strict, encode
from tacit.core.errors import InvalidInput
from tacit.federation.keys import SigningIdentity, signed_by
from tacit.mechanisms.masked.distributed_gaussian import DistributedGaussian
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.mechanisms.registry import mechanism_fields, read_mechanism

__all__ = [
    "Keys", "Session", "read_boxes", "read_input", "read_keys", "read_openings", "read_question", "read_roster",
    "write_boxes", "write_input", "write_openings", "write_question", "write_roster",
]  # fmt: skip

_MOST_NODES = 10_000
_SHARES: tuple[type[DistributedLaplace | DistributedGaussian], ...] = (DistributedLaplace, DistributedGaussian)
_MOST_CELLS = 2**26
KEY, _SIGNATURE, BOX = 32, 64, 80
# A message names every node and holds a box for it: this much each, and some more.
PER_NODE = 4096
_SLACK = 65_536


@dataclass(frozen=True)
class Session:
    """What everybody agrees on before it begins. ``nodes`` are identities' public keys by name.

    >>> names = {name: SigningIdentity.new().public for name in ("ada", "bob")}
    >>> session = Session("run", 0, "r-1", 4, DistributedLaplace(2, 2, 2, 2, 2, 100), names)
    >>> Session.read(session.to_bytes()) == session, len(session.digest)
    (True, 64)
    """

    run: str
    round: int
    request: str
    cells: int
    plan: DistributedLaplace | DistributedGaussian
    nodes: Mapping[str, bytes]

    def __post_init__(self) -> None:
        if len(self.nodes) != self.plan.holders:
            raise InvalidInput(f"the plan is for {self.plan.holders} holders, the session names {len(self.nodes)}")
        if len(set(self.nodes.values())) < len(self.nodes):
            raise InvalidInput("two nodes of the session have the same identity")

    def to_bytes(self) -> bytes:
        """The session as bytes."""
        names = sorted(self.nodes)
        return encode(
            {
                "run": self.run,
                "round": self.round,
                "request": self.request,
                "cells": self.cells,
                "plan": mechanism_fields(self.plan),
                "names": names,
                "identities": bytes_to_array(b"".join(self.nodes[name] for name in names)),
            }
        )

    @classmethod
    def read(cls, payload: bytes) -> Session:
        """The session in these bytes, checked."""
        fields = decode_strict(payload, PER_NODE * _MOST_NODES, "session")
        run, number, request = fields.text("run"), fields.integer("round", 0, 10**9), fields.text("request")
        cells = fields.integer("cells", 1, _MOST_CELLS)
        plan = read_mechanism(fields.nested("plan"), _SHARES)
        names = _names(fields, _MOST_NODES)
        keys = _pieces(fields, "identities", KEY, len(names))
        fields.done()
        return cls(run, number, request, cells, plan, dict(zip(names, keys, strict=True)))

    @cached_property
    def digest(self) -> str:
        """A name for the session that binds all of it."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(sorted(self.nodes), start=1)}

    @property
    def limit(self) -> int:
        """The most bytes that a message about all nodes may have."""
        return _SLACK + PER_NODE * len(self.nodes)

    def place(self, node: str) -> int:
        """Where a node's share lies: from 1 on."""
        return self._places[node]


@dataclass(frozen=True)
class Keys:
    """A holder's public keys for one session: to seal for it, to make masks with, and what its seed is bound to."""

    node: str
    sealing: bytes
    masking: bytes
    commitment: bytes
    signature: bytes

    @classmethod
    def signed(
        cls, session: Session, node: str, identity: SigningIdentity, sealing: bytes, masking: bytes, commitment: bytes
    ) -> Keys:
        """The keys with their owner's signature."""
        content = _announcement(session, node, sealing, masking, commitment)
        return cls(node, sealing, masking, commitment, identity.sign(content))

    def require(self, session: Session) -> None:
        """Refuse keys that the node they name did not announce in this session."""
        public = session.nodes.get(self.node)
        content = _announcement(session, self.node, self.sealing, self.masking, self.commitment)
        if public is None or not signed_by(public, content, self.signature):
            raise InvalidInput("keys must be signed by the node they name, for this session")

    def to_bytes(self) -> bytes:
        """The keys as bytes."""
        pieces = bytes_to_array(self.sealing + self.masking + self.commitment + self.signature)
        return encode({"node": self.node, "keys": pieces})


def _announcement(session: Session, node: str, sealing: bytes, masking: bytes, commitment: bytes) -> bytes:
    return b"\0".join([b"tacit keys 1", session.digest.encode(), node.encode(), sealing + masking + commitment])


def read_keys(payload: bytes, session: Session, seen: bool = False) -> Keys:
    """The keys in these bytes, if the node they name announced them in this session.

    Who has ``seen`` them before need not check the signature again.
    """
    keys = _keys(decode_strict(payload, session.limit, "keys"))
    if not seen:
        keys.require(session)
    return keys


def _keys(fields: StrictReader) -> Keys:
    node = fields.text("node")
    content = fields.content("keys", 3 * KEY + _SIGNATURE)
    fields.done()
    if len(content) != 3 * KEY + _SIGNATURE:
        raise InvalidInput(f"the {fields.what} must have three keys and a signature")
    sealing, masking, commitment = (content[at : at + KEY] for at in (0, KEY, 2 * KEY))
    return Keys(node, sealing, masking, commitment, content[3 * KEY :])


def write_roster(announced: Mapping[str, bytes], session: Session) -> bytes:
    """Everybody's keys, as the coordinator passes them on."""
    return encode({"session": session.digest, "keys": [bytes_to_array(announced[name]) for name in sorted(announced)]})


def read_roster(payload: bytes, session: Session, seen: bool = False) -> dict[str, Keys]:
    """Everybody's keys by name: each signed, each once, and enough of them."""
    fields = _of_session(payload, session, "roster")
    listed = fields.take("keys")
    fields.done()
    if not isinstance(listed, list):
        raise InvalidInput("the roster must list keys")
    contents = [StrictReader({"keys": each}, "roster").content("keys", session.limit) for each in listed]
    found = [read_keys(each, session, seen) for each in contents]
    roster = {each.node: each for each in found}
    for one in ("sealing", "masking"):
        if len({getattr(each, one) for each in found}) < len(found):
            raise InvalidInput("the roster has the same key twice")
    _require_enough(len(roster), session, "announced keys")
    return roster


def write_boxes(node: str, boxes: Mapping[str, bytes], session: Session) -> bytes:
    """Sealed boxes by whom they are for, or from whom they are."""
    return _write_pieces(node, "boxes", boxes, session)


def read_boxes(payload: bytes, session: Session) -> tuple[str, dict[str, bytes]]:
    """The node in question and its boxes by the other node's name."""
    return _read_pieces(payload, session, "boxes", BOX)


def write_input(node: str, paid: bytes, session: Session) -> bytes:
    """A receipt and the table under its masks that it paid for, one behind the other."""
    return encode({"session": session.digest, "node": node, "paid": bytes_to_array(paid)})


def read_input(payload: bytes, session: Session) -> tuple[str, bytes]:
    """The node, and the receipt with its table."""
    fields = _of_session(payload, session, "input", session.cells * 8 + _SLACK)
    node, paid = _known(fields.text("node"), session), fields.content("paid", session.cells * 8 + _SLACK)
    fields.done()
    return node, paid


def write_question(survivors: list[str], dropped: list[str], session: Session) -> bytes:
    """Whose tables are in the sum, and who sent shares and then no table."""
    return encode({"session": session.digest, "survivors": sorted(survivors), "dropped": sorted(dropped)})


def read_question(payload: bytes, session: Session) -> tuple[list[str], list[str]]:
    """Survivors and dropouts, each known and none of them both."""
    fields = _of_session(payload, session, "unmasking question")
    survivors = _names(fields, len(session.nodes), "survivors")
    dropped = _names(fields, len(session.nodes), "dropped")
    fields.done()
    if set(survivors) & set(dropped):
        raise InvalidInput("the question asks for both secrets of one node; that would reveal its table")
    for name in (*survivors, *dropped):
        _known(name, session)
    _require_enough(len(survivors), session, "are in the sum")
    return list(survivors), list(dropped)


def write_openings(node: str, openings: Mapping[str, bytes], session: Session) -> bytes:
    """One share about every other node."""
    return _write_pieces(node, "openings", openings, session)


def read_openings(payload: bytes, session: Session) -> tuple[str, dict[str, bytes]]:
    """The node that gives shares, and its share about each other one."""
    return _read_pieces(payload, session, "openings", KEY)


def _of_session(payload: bytes, session: Session, what: str, most: int | None = None) -> StrictReader:
    fields = decode_strict(payload, most or session.limit, what)
    if fields.digest("session") != session.digest:
        raise InvalidInput(f"the {what} belongs to another session")
    return fields


def _names(fields: StrictReader, most: int, name: str = "names") -> tuple[str, ...]:
    names = fields.texts(name, most)
    if list(names) != sorted(set(names)):
        raise InvalidInput(f"the {fields.what}'s {name} must be sorted and unique")
    return names


def _write_pieces(node: str, what: str, pieces: Mapping[str, bytes], session: Session) -> bytes:
    names = sorted(pieces)
    joined = bytes_to_array(b"".join(pieces[name] for name in names))
    return encode({"session": session.digest, "node": node, "names": names, what: joined})


def _read_pieces(payload: bytes, session: Session, what: str, size: int) -> tuple[str, dict[str, bytes]]:
    """A node, and one piece of this many bytes for each of the nodes that it names."""
    fields = _of_session(payload, session, what)
    node, names = _known(fields.text("node"), session), _names(fields, len(session.nodes))
    pieces = _pieces(fields, what, size, len(names))
    fields.done()
    return node, {_known(name, session): piece for name, piece in zip(names, pieces, strict=True)}


def _pieces(fields: StrictReader, name: str, size: int, count: int) -> list[bytes]:
    content = fields.content(name, size * count)
    if len(content) != size * count:
        raise InvalidInput(f"the {fields.what}'s {name} must have {size} bytes for each name")
    return [content[at : at + size] for at in range(0, len(content), size)]


def _known(node: str, session: Session) -> str:
    if node not in session.nodes:
        raise InvalidInput("a node is named that does not take part in this session")
    return node


def _require_enough(count: int, session: Session, what: str) -> None:
    if count < session.plan.threshold:
        raise InvalidInput(f"only {count} nodes {what}; at least {session.plan.threshold} are needed")
