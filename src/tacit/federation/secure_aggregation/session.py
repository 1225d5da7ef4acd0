"""A session of secure aggregation: its run and round, its members, and the messages of its four steps.

1. *keys*: each holder announces fresh public keys, signed by its identity.
2. *shares*: each holder sends every other one encrypted shares of its two secrets.
3. *input*: each holder sends its masked table.
4. *unmask*: each holder reveals, for every other one, a share of one secret: of the seed of the other's own mask if its
   table is in the sum, of its pairwise key if it dropped out. Never of both.

With many holders each one masks with a few neighbors only (``neighbors.py``), and there is one more step: before
*unmask* the holders *agree* by signature on whose tables are in the sum.
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
    "read_unmask_request",
    "require_enough",
    "sorted_names",
    "write_boxes",
    "write_input",
    "write_openings",
    "write_pieces",
    "write_roster",
    "write_unmask_request",
]  # fmt: skip

STEPS = ("keys", "shares", "input", "unmask")
_MOST_NODES = 10_000
_SHARES: tuple[type[DistributedLaplace | DistributedGaussian], ...] = (DistributedLaplace, DistributedGaussian)
_MOST_CELLS = 2**26
KEY, SIGNATURE, BOX = 32, 64, 80
# The most bytes of a message per node, and in addition.
PER_NODE = 4096
_SLACK = 65_536


@dataclass(frozen=True)
class Session:
    """What all members know before the first step. ``nodes`` are the public keys of the members' identities by name.

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
    # None: every holder masks with all others.
    neighborhood: Neighborhood | None = None

    def __post_init__(self) -> None:
        if len(self.nodes) != self.plan.holders:
            raise InvalidInput(f"the plan is for {self.plan.holders} holders, the session names {len(self.nodes)}")
        if len(set(self.nodes.values())) < len(self.nodes):
            raise InvalidInput("two nodes of the session have the same identity")

    def to_bytes(self) -> bytes:
        """The session with all its members, for storing."""
        return encode(self._header() | self._members())

    def _header(self) -> dict[str, Any]:
        header = {
            "run": self.run,
            "round": self.round,
            "request": self.request,
            "cells": self.cells,
            "plan": mechanism_fields(self.plan),
        }
        if self.neighborhood is not None:
            header["neighborhood"] = {"degree": self.neighborhood.degree, "shares": self.neighborhood.shares}
        return header

    def _members(self) -> dict[str, Any]:
        names = bytes_to_array(b"".join(self.nodes[name] for name in self.names))
        return {"names": list(self.names), "identities": names}

    @cached_property
    def announced(self) -> bytes:
        """The session as it is sent: with neighborhoods only a digest of the members, as every node has a list."""
        if self.neighborhood is None:
            return self.to_bytes()
        return encode(self._header() | {"members": hashlib.sha256(encode(self._members())).hexdigest()})

    @classmethod
    def read(cls, payload: bytes, members: Mapping[str, bytes] | None = None) -> Session:
        """The session in these bytes, checked; ``members`` is the own list, for a session with a digest only."""
        fields = decode_strict(payload, PER_NODE * _MOST_NODES, "session")
        run, number, request = fields.text("run"), fields.integer("round", 0, 10**9), fields.text("request")
        cells = fields.integer("cells", 1, _MOST_CELLS)
        plan = read_mechanism(fields.nested("plan"), _SHARES)
        neighborhood = None
        if fields.peek("neighborhood") is not None:
            inner = fields.nested("neighborhood")
            neighborhood = Neighborhood(*(inner.integer(name, 1, _MOST_NODES) for name in ("degree", "shares")))
            inner.done()
        if neighborhood is not None and fields.peek("members") is not None:
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
    def steps(self) -> tuple[str, ...]:
        """The steps of the session, in their order."""
        return STEPS if self.neighborhood is None else (*STEPS[:3], "agree", STEPS[3])

    @property
    def shares(self) -> int:
        """How many shares reconstruct a secret."""
        return self.plan.threshold if self.neighborhood is None else self.neighborhood.shares

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
    # The random number that determines the node's neighbors; empty without neighborhoods.
    choice: bytes = b""

    @classmethod
    def signed(cls, session: Session, node: str, identity: SigningIdentity, *pieces: bytes) -> Keys:
        """The keys with their owner's signature; ``pieces`` are in the order of the fields."""
        sealing, masking, commitment, *choice = pieces
        signature = identity.sign(_announcement(session, node, b"".join(pieces)))
        return cls(node, sealing, masking, commitment, signature, *choice)

    @classmethod
    def of(cls, node: str, content: bytes) -> Keys:
        """The keys in these bytes: three or four, and a signature."""
        sealing, masking, commitment, *choice = (
            content[at : at + KEY] for at in range(0, len(content) - SIGNATURE, KEY)
        )
        return cls(node, sealing, masking, commitment, content[-SIGNATURE:], *choice)

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
    keys = _keys(decode_strict(payload, session.limit, "keys"), 3 if session.neighborhood is None else 4)
    if not seen:
        keys.require(session)
    return keys


def _keys(fields: StrictReader, count: int) -> Keys:
    node = fields.text("node")
    size = count * KEY + SIGNATURE
    content = fields.content("keys", size)
    fields.done()
    if len(content) != size:
        raise InvalidInput(f"the {fields.what} must have {count} keys and a signature")
    return Keys.of(node, content)


def write_roster(announced: Mapping[str, bytes], session: Session) -> bytes:
    """The keys of all nodes, as the coordinator relays them."""
    if session.neighborhood is not None:
        contents = {name: read_keys(each, session, seen=True).content for name, each in announced.items()}
        return encode({"session": session.digest, **write_pieces("keys", contents)})
    return encode({"session": session.digest, "keys": [bytes_to_array(announced[name]) for name in sorted(announced)]})


def read_roster(payload: bytes, session: Session, seen: bool = False) -> dict[str, Keys]:
    """The keys by name: each signed, all different, and enough of them."""
    fields = of_session(payload, session, "roster")
    if session.neighborhood is None:
        contents = [StrictReader({"keys": each}, "roster").content("keys", session.limit) for each in _list(fields)]
        found = [read_keys(each, session, seen) for each in contents]
    else:
        found = [Keys.of(*each) for each in read_pieces(fields, session, "keys", 4 * KEY + SIGNATURE).items()]
        for keys in found if not seen else ():
            keys.require(session)
    fields.done()
    roster = {each.node: each for each in found}
    for one in ("sealing", "masking"):
        if len({getattr(each, one) for each in found}) < len(found):
            raise InvalidInput("the roster has the same key twice")
    if session.neighborhood is None:
        require_enough(len(roster), session, "announced keys")
    return roster


def _list(fields: StrictReader) -> list[Any]:
    listed = fields.take("keys")
    if not isinstance(listed, list):
        raise InvalidInput("the roster must list keys")
    return listed


def write_boxes(node: str, boxes: Mapping[str, bytes], session: Session) -> bytes:
    """A node's encrypted boxes by receiver, or by sender."""
    return _write_pieces(node, "boxes", boxes, session)


def read_boxes(payload: bytes, session: Session) -> tuple[str, dict[str, bytes]]:
    """The node and its boxes by the other node's name."""
    return _read_pieces(payload, session, "boxes", BOX)


def write_input(node: str, paid: bytes, session: Session, tags: Mapping[str, bytes] | None = None) -> bytes:
    """A receipt followed by the masked table that it paid for; with ``tags`` for neighbors."""
    sent: dict[str, Any] = {"session": session.digest, "node": node, "paid": bytes_to_array(paid)}
    return encode(sent | ({} if tags is None else write_pieces("tags", tags)))


def read_input(payload: bytes, session: Session) -> tuple[str, bytes]:
    """The node, and the receipt with its table."""
    fields = of_session(payload, session, "input", session.cells * 8 + _SLACK)
    node, paid = _known(fields.text("node"), session), fields.content("paid", session.cells * 8 + _SLACK)
    if session.neighborhood is not None:
        # The tags are for the node's neighbors.
        fields.take("names"), fields.take("tags")
    fields.done()
    return node, paid


def write_unmask_request(survivors: list[str], dropped: list[str], session: Session) -> bytes:
    """An unmask request: whose tables are in the sum, and who dropped out after sending shares."""
    return encode({"session": session.digest, "survivors": sorted(survivors), "dropped": sorted(dropped)})


def read_unmask_request(payload: bytes, session: Session) -> tuple[list[str], list[str]]:
    """Surviving and dropped nodes; all are members, and none is both."""
    fields = of_session(payload, session, "unmasking question")
    survivors = sorted_names(fields, len(session.nodes), "survivors")
    dropped = sorted_names(fields, len(session.nodes), "dropped")
    fields.done()
    if set(survivors) & set(dropped):
        raise InvalidInput("the unmask request asks for both secrets of one node, which would reveal its table")
    for name in (*survivors, *dropped):
        _known(name, session)
    require_enough(len(survivors), session, "are in the sum")
    return list(survivors), list(dropped)


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
