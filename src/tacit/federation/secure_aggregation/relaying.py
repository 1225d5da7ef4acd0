"""The messages that the coordinator relays with neighborhoods: to each node those of its own neighbors.

They are computed from the received messages, so a restarted coordinator sends the same again.
"""

from __future__ import annotations

from collections.abc import Mapping

from tacit.core import InvalidInput
from tacit.federation.secure_aggregation.neighbors import (
    AgreementQuestion,
    drawn_neighbors,
    read_agreement,
    read_tags,
    write_agreements,
    write_inbox,
)
from tacit.federation.secure_aggregation.session import Keys, Session, read_boxes, read_keys, write_roster

__all__ = ["announced_graph", "check_agreement", "check_sparse_boxes", "neighbors_of", "next_inbox"]

Came = Mapping[str, Mapping[str, bytes]]
_Graph = Mapping[str, frozenset[str]]


def announced_graph(came: Came, session: Session) -> dict[str, frozenset[str]]:
    """The neighbors that each node drew, for the nodes that announced keys."""
    keys: dict[str, Keys] = {name: read_keys(each, session, seen=True) for name, each in came["keys"].items()}
    return {name: drawn_neighbors(each.choice, session, name) for name, each in keys.items()}


def neighbors_of(drawn: _Graph) -> dict[str, frozenset[str]]:
    """The nodes that each node masks with: those that it drew and those that drew it, among the nodes in the graph."""
    found: dict[str, set[str]] = {name: set() for name in drawn}
    for name, others in drawn.items():
        for other in others & drawn.keys():
            found[name].add(other)
            found[other].add(name)
    return {name: frozenset(others) for name, others in found.items()}


def check_sparse_boxes(came: Came, session: Session, sender: str, payload: bytes) -> None:
    """Require the sender's boxes, one for each neighbor that it drew and that announced keys."""
    node, boxes = read_boxes(payload, session)
    drawn = drawn_neighbors(read_keys(came["keys"][sender], session, seen=True).choice, session, sender)
    if node != sender or set(boxes) != drawn & came["keys"].keys():
        raise InvalidInput("the boxes must be the sender's, one for each neighbor that it drew and that announced keys")


def check_agreement(came: Came, session: Session, sender: str, payload: bytes) -> None:
    """Require the sender's own signature on the unmask request that was sent."""
    if read_agreement(payload, session, _question(came, {}))[0] != sender:
        raise InvalidInput("the agreement is signed by another node")


def next_inbox(step: str, came: Came, session: Session) -> dict[str, bytes]:
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


def _question(came: Came, tags: Mapping[str, bytes]) -> AgreementQuestion:
    survivors = frozenset(came["input"])
    return AgreementQuestion(survivors, frozenset(came["shares"]) - survivors, tags)
