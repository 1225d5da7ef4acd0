"""The fleet: all nodes as their coordinator knows them. Who is admitted, answers, refusals by reason, and payments.

It is read from the files in the coordinator's folder: the list of keys, the rounds of each job, and the receipts of
saved runs. A node's ceiling and its payments to other coordinators are known here only if its operator lets it tell
them: its receipts show the least that it has spent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from tacit.accounting.compose import Running, total
from tacit.core import Rule, Spend, TacitError, decimal
from tacit.federation.members import members, removed_members
from tacit.federation.messages import RefusalReason, ToldBudget
from tacit.runs.folders import read_record

__all__ = ["Fleet", "FleetJob", "FleetNode", "read_fleet"]

# The δ at which spends without a pure ε are composed, for display.
DELTA = Fraction(1, 10**6)
MOST_JOBS, MOST_NODES, _LONGEST = 200, 2000, 300
_REASONS = frozenset(map(str, RefusalReason))
ADMITTED, REMOVED, UNLISTED = "admitted", "removed", "not listed"


@dataclass
class FleetNode:
    """One node: rounds, refusals by reason, and the total of its receipts."""

    name: str
    state: str
    since: str = ""
    asked: int = 0
    answered: int = 0
    lost: int = 0
    refusals: dict[str, int] = field(default_factory=dict)
    payments: int = 0
    paid: str = ""
    told: str = ""
    last_answer: str = ""


@dataclass(frozen=True)
class FleetJob:
    """One job: its name, state and number of rounds."""

    name: str
    state: str
    message: str
    rounds: int


@dataclass(frozen=True)
class Fleet:
    """The nodes by name, the jobs, and the number of refusals by reason."""

    nodes: tuple[FleetNode, ...]
    jobs: tuple[FleetJob, ...]
    refusals: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """The view as JSON values."""
        return asdict(self)


def read_fleet(folder: Path) -> Fleet:
    """The fleet of a coordinator's folder. Nothing is changed, and unreadable files are left out.

    Jobs are found by their journals: folders that end in ``.journal``, in this folder or one level below.
    """
    found = {each.name: FleetNode(each.name, ADMITTED, f"{each.since}") for each in members(folder)}
    for gone in removed_members(folder):
        found.setdefault(gone.name, FleetNode(gone.name, REMOVED, f"{gone.since}"))
    jobs: list[FleetJob] = []
    spends: dict[str, list[Spend]] = {}
    latest: dict[str, tuple[str, int]] = {}
    for journal, said, when in _journals(folder):
        out = journal.with_name(journal.name.removesuffix(".journal"))
        name = out.relative_to(folder).as_posix()
        jobs.append(FleetJob(name, str(said["state"]), str(said["message"])[:_LONGEST], len(said["rounds"])))
        for status in said["rounds"]:
            _count(found, status, when)
            _tell(found, status, when, latest)
        for account, spend in _paid(out):
            spends.setdefault(account, []).append(spend)
    for name, own in spends.items():
        node = _node(found, name)
        if node is not None:
            node.payments, node.paid = len(own), _together(own)
    refusals: dict[str, int] = {}
    for node in found.values():
        for reason, count in node.refusals.items():
            refusals[reason] = refusals.get(reason, 0) + count
    return Fleet(tuple(found[name] for name in sorted(found)), tuple(jobs), dict(sorted(refusals.items())))


def _journals(folder: Path) -> Iterator[tuple[Path, dict[str, Any], str]]:
    places = sorted([*folder.glob("*.journal/progress.json"), *folder.glob("*/*.journal/progress.json")])
    for file in places[:MOST_JOBS]:
        try:
            said = json.loads(file.read_text(encoding="utf-8"))
            when = datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="seconds")
            kinds = {"asked": list, "answered": list, "dropped": dict}
            well_formed = all(isinstance(status[key], kind) for status in said["rounds"] for key, kind in kinds.items())
            if well_formed and isinstance(said["state"], str) and isinstance(said["message"], str):
                yield file.parent, said, when
        except (OSError, ValueError, KeyError, TypeError):
            continue


def _node(found: dict[str, FleetNode], name: str) -> FleetNode | None:
    """The node of a name; unlisted nodes are added, up to a limit."""
    if name not in found and len(found) < MOST_NODES:
        found[name] = FleetNode(name, UNLISTED)
    return found.get(name)


def _count(found: dict[str, FleetNode], status: Mapping[str, Any], when: str) -> None:
    """Add one round to the figures of its nodes."""
    answered, dropped, reasons = set(map(str, status["answered"])), status["dropped"], status.get("reasons", {})
    for name in sorted({*map(str, status["asked"]), *answered, *map(str, dropped)}):
        node = _node(found, name)
        if node is None:
            continue
        node.asked += 1
        if name in answered:
            node.answered += 1
            node.last_answer = max(node.last_answer, when)
        elif name in dropped:
            reason = str(reasons.get(name)) if isinstance(reasons, dict) else ""
            if reason in _REASONS:
                node.refusals[reason] = node.refusals.get(reason, 0) + 1
            else:
                node.lost += 1


def _tell(
    found: dict[str, FleetNode], status: Mapping[str, Any], when: str, latest: dict[str, tuple[str, int]]
) -> None:
    """What nodes told of their budgets in a round, if it is the last that they told."""
    budgets = status.get("budgets", {})
    for name, told in budgets.items() if isinstance(budgets, dict) else ():
        node, moment = _node(found, str(name)), (when, int(status.get("number", 0)))
        if node is None or latest.get(name, moment) > moment:
            continue
        try:
            node.told = ToldBudget(str(told["spent"]), str(told["epsilon"]), str(told["delta"])).in_words[:_LONGEST]
        except (KeyError, TypeError):
            continue
        latest[name] = moment


def _paid(out: Path) -> list[tuple[str, Spend]]:
    """The payments in the receipts of a saved run, by account, without simulations."""
    if not (out / "run.json").is_file():
        return []
    try:
        receipts = read_record(out).receipts
    except (TacitError, OSError):
        return []
    return [(each.account, each.spend) for each in receipts if not each.simulated]


def _together(spends: Sequence[Spend]) -> str:
    running = Running()
    for spend in spends:
        running = running.plus(spend)
    if running.pure_epsilon is not None:
        return f"epsilon {decimal(running.pure_epsilon)}"
    found = total(list(spends), DELTA, Rule.ADAPTIVE)
    return f"epsilon {float(found.epsilon):.4g} at delta {decimal(DELTA)}"
