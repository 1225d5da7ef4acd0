"""A session of secure aggregation: its run and round, its members, and the messages of its five steps.

1. *keys*: each holder announces fresh public keys, signed by its identity, and a number from which its neighbors follow
   (``neighbors.py``).
2. *shares*: each holder sends the neighbors that it drew encrypted shares of its two secrets.
3. *input*: each holder sends its masked table.
4. *agree*: each holder signs the list of those whose tables are in the sum.
5. *unmask*: each holder reveals, for every neighbor that drew it, a share of one secret: of the seed of the other's own
   mask if its table is in the sum, of its pairwise key if it dropped out. Never of both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tacit.core import InvalidInput
from tacit.core.codec import StrictReader, bytes_to_array, decode_strict, encode
from tacit.federation.keys import SigningIdentity, signed_by
from tacit.mechanisms.masked.distributed_gaussian import DistributedGaussian
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.mechanisms.masked.neighborhoods import Neighborhood
from tacit.mechanisms.registry import mechanism_fields, read_mechanism

__all__ = [
    "KEY",
    "SIGNATURE",
    "STEPS",
    "Keys",
    "Session",
    "of_session",
    "read_boxes",
    "read_input",
    "read_keys",
    "read_openings",
    "read_pieces",
    "read_roster",
    "require_enough",
    "sorted_names",
    "write_boxes",
    "write_input",
    "write_openings",
    "write_pieces",
    "write_roster",
]  # fmt: skip

STEPS = ("keys", "shares", "input", "agree", "unmask")
_MOST_NODES = 10_000
_SHARES: tuple[type[DistributedLaplace | DistributedGaussian], ...] = (DistributedLaplace, DistributedGaussian)
_MOST_CELLS = 2**26
KEY, SIGNATURE, BOX = 32, 64, 80
_KEYS = 4 * KEY + SIGNATURE
# The most bytes of a message per node, and in addition.
PER_NODE = 4096
_SLACK = 65_536


@dataclass(frozen=True)
class Session:
    """What all members know before the first step. ``nodes`` are the public keys of the members' identities by name.

    >>> names = {name: SigningIdentity.new().public for name in ("ada", "bob")}
    >>> session = Session("run", 0, "r-1", 4, DistributedLaplace(2, 2, 2, 2, 2, 100), names, Neighborhood(1, 1))
    >>> Session.read(session.to_bytes()) == session, len(session.digest)
    (True, 64)
    """

    run: str
    round: int
    request: str
    cells: int
    plan: DistributedLaplace | DistributedGaussian
    nodes: Mapping[str, bytes]
    neighborhood: Neighborhood

    def __post_init__(self) -> None:
        if len(self.nodes) != self.plan.holders:
            raise InvalidInput(f"the plan is for {self.plan.holders} holders, the session names {len(self.nodes)}")
        if len(set(self.nodes.values())) < len(self.nodes):
            raise InvalidInput("two nodes of the session have the same identity")

    def to_bytes(self) -> bytes:
        """The session with all its members, for storing."""
        return encode(self._header() | self._members())

    def _header(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "round": self.round,
            "request": self.request,
            "cells": self.cells,
            "plan": mechanism_fields(self.plan),
            "neighborhood": {"degree": self.neighborhood.degree, "shares": self.neighborhood.shares},
        }

    def _members(self) -> dict[str, Any]:
        names = bytes_to_array(b"".join(self.nodes[name] for name in self.names))
        return {"names": list(self.names), "identities": names}

    @cached_property
    def announced(self) -> bytes:
        """The session as it is sent: only a digest of the members, as every node has a list."""
        return encode(self._header() | {"members": hashlib.sha256(encode(self._members())).hexdigest()})

    @classmethod
    def read(cls, payload: bytes, members: Mapping[str, bytes] | None = None) -> Session:
        """The session in these bytes, checked; ``members`` is the own list, for a session with a digest only."""
        fields = decode_strict(payload, PER_NODE * _MOST_NODES, "session")
        run, number, request = fields.text("run"), fields.integer("round", 0, 10**9), fields.text("request")
        cells = fields.integer("cells", 1, _MOST_CELLS)
        plan = read_mechanism(fields.nested("plan"), _SHARES)
        inner = fields.nested("neighborhood")
        neighborhood = Neighborhood(*(inner.integer(name, 1, _MOST_NODES) for name in ("degree", "shares")))
        inner.done()
        if fields.peek("members") is not None:
            digest = fields.digest("members")
            fields.done()
            session = cls(run, number, request, cells, plan, dict(members or {}), neighborhood)
            if hashlib.sha256(encode(session._members())).hexdigest() != digest:
                raise InvalidInput("the session's members are not those in this node's own list")
            return session
        names = sorted_names(fields, _MOST_NODES)
        keys = _pieces(fields, "identities", KEY, len(names))
        fields.done()
        return cls(run, number, request, cells, plan, dict(zip(names, keys, strict=True)), neighborhood)

    @property
    def shares(self) -> int:
        """How many shares reconstruct a secret."""
        return self.neighborhood.shares

    @cached_property
    def digest(self) -> str:
        """The digest of the whole session, which every message names."""
        return hashlib.sha256(self.announced).hexdigest()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All members, sorted."""
        return tuple(sorted(self.nodes))

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names, start=1)}

    @property
    def limit(self) -> int:
        """The most bytes that a message about all nodes may have."""
        return _SLACK + PER_NODE * len(self.nodes)

    def place(self, node: str) -> int:
        """The point at which a node's share is evaluated: 1, 2, …"""
        return self._places[node]


@dataclass(frozen=True)
class Keys:
    """A holder's public keys for one session: for encryption, for pairwise masks, and the commitment to its seed."""

    node: str
    sealing: bytes
    masking: bytes
    commitment: bytes
    signature: bytes
    # The random number that determines the node's neighbors.
    choice: bytes

    @classmethod
    def signed(cls, session: Session, node: str, identity: SigningIdentity, *pieces: bytes) -> Keys:
        """The keys with their owner's signature; ``pieces`` are in the order of the fields."""
        sealing, masking, commitment, choice = pieces
        signature = identity.sign(_announcement(session, node, b"".join(pieces)))
        return cls(node, sealing, masking, commitment, signature, choice)

    @classmethod
    def of(cls, node: str, content: bytes) -> Keys:
        """The keys in these bytes: four, and a signature."""
        sealing, masking, commitment, choice = (content[at : at + KEY] for at in range(0, 4 * KEY, KEY))
        return cls(node, sealing, masking, commitment, content[4 * KEY :], choice)

    @property
    def content(self) -> bytes:
        """The concatenated keys and signature."""
        return self._pieces + self.signature

    @property
    def _pieces(self) -> bytes:
        return self.sealing + self.masking + self.commitment + self.choice

    def require(self, session: Session) -> None:
        """Require the signature of the named node for this session."""
        public = session.nodes.get(self.node)
        content = _announcement(session, self.node, self._pieces)
        if public is None or not signed_by(public, content, self.signature):
            raise InvalidInput("keys must be signed by the node they name, for this session")

    def to_bytes(self) -> bytes:
        """The keys as bytes."""
        return encode({"node": self.node, "keys": bytes_to_array(self.content)})


def _announcement(session: Session, node: str, pieces: bytes) -> bytes:
    return b"\0".join([b"tacit keys 1", session.digest.encode(), node.encode(), pieces])


def read_keys(payload: bytes, session: Session, seen: bool = False) -> Keys:
    """The keys in these bytes, which the node that they name must have signed for this session.

    The signature of keys that were ``seen`` before is not checked again.
    """
    keys = _keys(decode_strict(payload, session.limit, "keys"))
    if not seen:
        keys.require(session)
    return keys


def _keys(fields: StrictReader) -> Keys:
    node = fields.text("node")
    content = fields.content("keys", _KEYS)
    fields.done()
    if len(content) != _KEYS:
        raise InvalidInput(f"the {fields.what} must have four keys and a signature")
    return Keys.of(node, content)


def write_roster(announced: Mapping[str, bytes], session: Session) -> bytes:
    """The keys of all nodes, as the coordinator relays them."""
    contents = {name: read_keys(each, session, seen=True).content for name, each in announced.items()}
    return encode({"session": session.digest, **write_pieces("keys", contents)})


def read_roster(payload: bytes, session: Session, seen: bool = False) -> dict[str, Keys]:
    """The keys by name: each signed, and all different."""
    fields = of_session(payload, session, "roster")
    found = [Keys.of(*each) for each in read_pieces(fields, session, "keys", _KEYS).items()]
    for keys in found if not seen else ():
        keys.require(session)
    fields.done()
    roster = {each.node: each for each in found}
    for one in ("sealing", "masking"):
        if len({getattr(each, one) for each in found}) < len(found):
            raise InvalidInput("the roster has the same key twice")
    return roster


def write_boxes(node: str, boxes: Mapping[str, bytes], session: Session) -> bytes:
    """A node's encrypted boxes by receiver, or by sender."""
    return _write_pieces(node, "boxes", boxes, session)


def read_boxes(payload: bytes, session: Session) -> tuple[str, dict[str, bytes]]:
    """The node and its boxes by the other node's name."""
    return _read_pieces(payload, session, "boxes", BOX)


def write_input(node: str, paid: bytes, session: Session, tags: Mapping[str, bytes]) -> bytes:
    """A receipt followed by the masked table that it paid for, with ``tags`` for neighbors."""
    sent = {"session": session.digest, "node": node, "paid": bytes_to_array(paid)}
    return encode(sent | write_pieces("tags", tags))


def read_input(payload: bytes, session: Session) -> tuple[str, bytes]:
    """The node, and the receipt with its table."""
    fields = of_session(payload, session, "input", session.cells * 8 + _SLACK)
    node, paid = _known(fields.text("node"), session), fields.content("paid", session.cells * 8 + _SLACK)
    # The tags are for the node's neighbors.
    fields.take("names"), fields.take("tags")
    fields.done()
    return node, paid


def write_openings(node: str, openings: Mapping[str, bytes], session: Session) -> bytes:
    """One revealed share per other node."""
    return _write_pieces(node, "openings", openings, session)


def read_openings(payload: bytes, session: Session) -> tuple[str, dict[str, bytes]]:
    """The node that reveals shares, and its share by the other node's name."""
    return _read_pieces(payload, session, "openings", KEY)


def of_session(payload: bytes, session: Session, what: str, most: int | None = None) -> StrictReader:
    """The fields of a message, which must belong to the session."""
    fields = decode_strict(payload, most or session.limit, what)
    if fields.digest("session") != session.digest:
        raise InvalidInput(f"the {what} belongs to another session")
    return fields


def sorted_names(fields: StrictReader, most: int, name: str = "names") -> tuple[str, ...]:
    """A list of names, which must be sorted and unique."""
    names = fields.texts(name, most)
    if list(names) != sorted(set(names)):
        raise InvalidInput(f"the {fields.what}'s {name} must be sorted and unique")
    return names


def _write_pieces(node: str, what: str, pieces: Mapping[str, bytes], session: Session) -> bytes:
    return encode({"session": session.digest, "node": node, **write_pieces(what, pieces)})


def write_pieces(what: str, pieces: Mapping[str, bytes]) -> dict[str, Any]:
    """Pieces of equal size by name, as fields of a message."""
    names = sorted(pieces)
    return {"names": names, what: bytes_to_array(b"".join(pieces[name] for name in names))}


def read_pieces(fields: StrictReader, session: Session, what: str, size: int) -> dict[str, bytes]:
    """One piece of this many bytes per named member."""
    names = sorted_names(fields, len(session.nodes))
    pieces = _pieces(fields, what, size, len(names))
    return {_known(name, session): piece for name, piece in zip(names, pieces, strict=True)}


def _read_pieces(payload: bytes, session: Session, what: str, size: int) -> tuple[str, dict[str, bytes]]:
    """The sender, and one piece of this many bytes per named member."""
    fields = of_session(payload, session, what)
    node, pieces = _known(fields.text("node"), session), read_pieces(fields, session, what, size)
    fields.done()
    return node, pieces


def _pieces(fields: StrictReader, name: str, size: int, count: int) -> list[bytes]:
    content = fields.content(name, size * count)
    if len(content) != size * count:
        raise InvalidInput(f"the {fields.what}'s {name} must have {size} bytes for each name")
    return [content[at : at + size] for at in range(0, len(content), size)]


def _known(node: str, session: Session) -> str:
    if node not in session.nodes:
        raise InvalidInput("a named node does not take part in this session")
    return node


def require_enough(count: int, session: Session, what: str) -> None:
    """Require at least the plan's threshold of nodes."""
    if count < session.plan.threshold:
        raise InvalidInput(f"only {count} nodes {what}; at least {session.plan.threshold} are needed")
