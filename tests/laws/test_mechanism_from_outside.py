"""A mechanism of another package does all that one of ours does, and no node's records meet it unnamed."""

import logging
import subprocess
import sys
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.audit.auditor import audit
from tacit.core.account import Ceiling
from tacit.core.codec import StrictReader, decode, encode
from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness
from tacit.core.sensitivity import Sensitivity, vote_sensitivity
from tacit.core.spend import Pure
from tacit.federation.messages import RefusalReason, Request, read_response
from tacit.federation.node.refusals import node_side
from tacit.ledger.memory import MemoryLedger
from tacit.ledger.policy import Rules, parse_rules
from tacit.ledger.policy_file import POLICY_EXAMPLE, RULES_EXAMPLE
from tacit.mechanisms import registry
from tacit.mechanisms.central.counts import SealedTable
from tacit.mechanisms.description import EXACT, Described, Inner, Parameters
from tacit.methods.fedmd import holder as fedmd
from tacit.methods.pate import holder as pate
from tacit.methods.privatekt import holder as privatekt
from tacit.methods.registry import METHODS
from tacit.methods.rknn import holder as rknn
from tacit.private.gate import Gate
from tacit.private.records import Private
from tacit.wire import ask_to_bytes, read_ask, read_release, release_to_bytes
from tests.example_package.installed import FOLDER, make_visible
from tests.federation.node.test_steps import VOTES, node, said, tables

NAME = "example-bounded-counts"


@pytest.fixture
def bounded(tmp_path, monkeypatch):
    """The other package's class, registered; forgotten again afterwards."""
    make_visible(tmp_path, monkeypatch)
    registry.outside.cache_clear()
    yield registry.registered()[NAME]
    registry.outside.cache_clear()


def test_it_is_found_by_its_entry_point_and_named_beside_our_own(bounded):
    assert bounded.__module__ == "tacit_example.mechanism"
    assert bounded not in registry.OWN
    assert registry.policy_name(bounded(2, 2, 9)) == NAME
    assert "tacit_example" not in (FOLDER.parents[1] / "src" / "tacit" / "mechanisms" / "registry.py").read_text()


def test_it_is_written_and_read_exactly_and_strictly(bounded):
    mechanism = bounded("7/3", 2, 30)
    fields = registry.mechanism_fields(mechanism)
    assert fields == {"kind": NAME, "scale": "7/3", "l1": 2, "highest": 30}
    assert registry.read_mechanism(StrictReader(decode(encode(fields)), "mechanism")) == mechanism
    for change in ({"scale": "0"}, {"scale": "14/6"}, {"highest": 0}, {"l1": 10**40}, {"more": 1}):
        with pytest.raises(InvalidInput):
            registry.read_mechanism(StrictReader(fields | change, "mechanism"))


def test_it_releases_through_the_gate_and_is_paid_for(bounded):
    ledger = MemoryLedger({"clinic": Ceiling(1)})
    table = Private(np.full((2, 2), 5))
    sensitivity = vote_sensitivity(queries=2, classes=2, neighbors=1)
    gate = Gate(ledger, "clinic", SeededRandomness(1))
    release = gate.release(
        table, lambda: np.zeros((2, 2), dtype=np.int64), sensitivity, bounded(2, 2, 9), "votes", "r-1"
    )
    assert release.receipts[0].spend == Pure(1)
    assert ((release.value >= 0) & (release.value <= 9)).all()


def test_its_answers_are_packed_and_checked_as_it_says(bounded):
    ask = replace(VOTES, mechanism=bounded(2, 2, 3))
    own, _ = node(rules=Rules(("rknn",), (NAME,), ("votes",), 1))
    release = own.answer(read_ask(ask_to_bytes(ask)))
    payload = release_to_bytes(release, ask)
    # Four counts of two bits each, behind the receipt.
    assert len(payload) == 1 + 8 + 1
    assert read_release(payload, ask, "ada").value.tolist() == release.value.tolist()
    with pytest.raises(InvalidInput):
        read_release(payload + b"\0", ask, "ada")


def test_it_is_audited_as_it_says(bounded):
    (claim,) = registry.audits()[NAME](Fraction(1), Fraction(0))
    finding = audit(claim, samples=100_000, randomness=SeededRandomness(1))
    assert finding.passed
    assert finding.share > 0.8
    broken = replace(claim, epsilon=Fraction(1, 2))
    assert not audit(broken, samples=100_000, randomness=SeededRandomness(1)).passed


def test_the_command_audits_it_where_it_is_installed(tmp_path, monkeypatch):
    make_visible(tmp_path, monkeypatch)
    command = [sys.executable, "-c", "from tacit.cli import main; main()", "audit", NAME, "--samples", "20000"]
    run = subprocess.run(
        command, capture_output=True, text=True, env={"PYTHONPATH": f"{tmp_path}:{FOLDER}", "PATH": ""}, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "holds" in run.stdout


def asked(own, ask):
    answer = read_response(own.reply(Request("run", 0, 3, ask_to_bytes(ask)).to_bytes())).answer
    return answer if isinstance(answer, RefusalReason) else "answered"


def test_a_node_refuses_it_until_its_policy_names_it(bounded):
    ask = replace(VOTES, mechanism=bounded(2, 2, 9))
    for named in (("DiscreteLaplaceNoise",), ("BoundedCounts",), ("PermuteAndFlip", "BoundedCounts")):
        own, _ = node(rules=Rules(("rknn",), named, ("votes",), 1))
        assert asked(own, ask) is RefusalReason.MECHANISM
        assert own.ledger.balance("ada").payments == 0
    own, _ = node(rules=Rules(("rknn",), (NAME,), ("votes",), 1))
    assert asked(own, ask) == "answered"
    assert own.ledger.balance("ada").payments == 1
    # Sealed for a curator it goes the same way.
    own, _ = node(rules=Rules(("rknn",), (NAME,), ("votes",), 1))
    assert said(own, tables(ask=ask), ask) == ("handed in", 1)


def test_a_policy_can_name_what_is_installed_and_nothing_else(bounded):
    text = POLICY_EXAMPLE + RULES_EXAMPLE.replace("DiscreteLaplaceNoise", NAME)
    assert parse_rules(text).mechanisms == (NAME,)
    registry.outside.cache_clear()
    with pytest.raises(InvalidInput, match="is not known"):
        parse_rules(text.replace(NAME, "BoundedCounts"))


ALL_DOORS = [
    rknn.VOTES, rknn.ONE_RECORD, pate.TEACHERS, privatekt.LABELS, fedmd.PREDICTING, fedmd.VOTING,
    *(
        door
        for method in METHODS.values()
        if method.questions
        for steps in node_side(method).allowed.values()
        for door in steps.values()
    ),
]  # fmt: skip


@pytest.mark.parametrize("door", ALL_DOORS, ids=lambda door: door.name)
def test_no_door_lets_it_through_unnamed_nor_named_where_no_other_releases_the_same(door, bounded):
    mechanism = bounded(2, 2, 9)
    for each in (mechanism, SealedTable(mechanism, "s", len)):
        with pytest.raises(InvalidInput):
            door.require(each)
        with pytest.raises(InvalidInput):
            door.require(each, named=())
    noisy_counts = any((each.statistic, each.releases) == ("table", "counts") for each in door.listed)
    if noisy_counts:
        door.require(mechanism, named=(bounded,))
    else:
        with pytest.raises(InvalidInput):
            door.require(mechanism, named=(bounded,))


@dataclass(frozen=True)
class Around(Described):
    """A wrapper that claims less than what is inside it."""

    name = "example-around"
    statistic = "table"
    releases = "counts"
    parameters: ClassVar[Parameters] = {"inner": Inner(statistic="table")}
    inner: object
    spend = Pure("1/100")
    max_sensitivity = Sensitivity(l1=10**6)


@dataclass(frozen=True)
class OwnSpend(Pure):
    """Looks like a price that accountants know."""


@dataclass(frozen=True)
class Cheap(Described):
    name = "example-cheap"
    statistic = "table"
    releases = "counts"
    parameters: ClassVar[Parameters] = {"rate": EXACT}
    rate: Fraction

    @property
    def spend(self):
        return OwnSpend(self.rate)


@dataclass(frozen=True)
class PassesForOurs(Cheap):
    name = "permute-and-flip"


@dataclass(frozen=True)
class PassesForOurClass(Cheap):
    name = "PermuteAndFlip"


@dataclass(frozen=True)
class Undescribed(Cheap):
    name = "example-undescribed"
    parameters: ClassVar[Parameters] = {"rate": str}


class Offer:
    """An entry point of a package that is not installed."""

    value = "elsewhere"

    def __init__(self, name, kind):
        self.name, self._kind = name, kind

    def load(self):
        if self._kind is None:
            raise ImportError("no such module")
        return self._kind


@pytest.fixture
def offered(monkeypatch):
    """What other packages would offer: classes in place of entry points."""

    def offer(**kinds):
        offers = [Offer(name.replace("_", "-"), kind) for name, kind in kinds.items()]
        monkeypatch.setattr(registry, "entry_points", lambda group: offers if group == registry.MECHANISM_GROUP else [])
        registry.outside.cache_clear()
        return registry.outside()

    yield offer
    registry.outside.cache_clear()


def test_a_wrapper_from_outside_passes_no_door(offered, bounded):
    offered(example_around=Around)
    for inner in (bounded(2, 2, 9), rknn.RECORD_VOTES[1](2, 2)):
        with pytest.raises(InvalidInput, match="inside Around it knows nothing"):
            rknn.VOTES.require(Around(inner), named=(Around, bounded))


def test_a_price_of_its_own_is_no_price(offered):
    offered(example_cheap=Cheap)
    fields = StrictReader({"kind": "example-cheap", "rate": "1/4"}, "mechanism")
    with pytest.raises(InvalidInput, match="is not one that the accountants know"):
        registry.read_mechanism(fields)
    with pytest.raises(InvalidInput, match="is not one that the accountants know"):
        registry.described(Cheap(Fraction(1, 4)))


def test_nobody_takes_a_name_of_ours_and_what_is_broken_is_left_out(offered, caplog):
    with caplog.at_level(logging.WARNING):
        found = offered(
            permute_and_flip=PassesForOurs,
            PermuteAndFlip=PassesForOurClass,
            example_undescribed=Undescribed,
            example_gone=None,
            example_other=Cheap,
            example_cheap=Cheap,
        )
    assert found == {"example-cheap": Cheap}
    assert len(caplog.records) == 5
    assert registry.registered()["permute-and-flip"] is rknn.RECORD_VOTES[0]
