"""Every method in every place where it runs, behind one shape, so that a law is one test over all of them.

A case is an options object and a few arguments of ``tacit.distill``. One function runs all of them in one process, one
all of them over nodes through Flower's messages; a law knows no method.
"""

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

import tacit
from tacit.core.account import Ceiling, Rule
from tacit.core.guarantee import Unit
from tacit.datasets.frame import frame_of
from tacit.datasets.table import class_indices
from tacit.encoders.encoded import packed_table
from tacit.federation.coordinator import Journal, RoundPolicy
from tacit.federation.flower.client import InProcessGrid, client_app, contexts
from tacit.federation.flower.server import FlowerExchange
from tacit.federation.flower.summed import FlowerCollected, FlowerMasked
from tacit.federation.keys import SigningIdentity
from tacit.federation.node.node import Node
from tacit.federation.node.steps import Collecting, FolderMemory, Masking, NodeMemory
from tacit.ledger.memory import MemoryLedger
from tacit.ledger.policy import Rules
from tacit.ledger.sqlite import SqliteLedger
from tacit.methods.fedmd.models import ConsensusStore, Schedule
from tacit.private.records import Private, Records
from tacit.students.weighted import logistic
from tacit.students.wrapped import Refitted
from tests.laws.methods.collectors import CURATOR, collected

__all__ = ["ADAPTERS", "CLASSES", "Adapter", "Funds", "in_file"]

HOLDERS = 3
HOLDER = Unit.whole_holder()
CLASSES = ("a", "b", "c")


class Funds:
    """Accounts with ceilings, in the kind of ledger that a law wants: in memory, in a file, or of a third party."""

    def __init__(
        self, ceilings: Mapping[str, Ceiling], make: Callable[[Mapping[str, Ceiling]], Any] = MemoryLedger
    ) -> None:
        self.ceilings = dict(ceilings)
        self.ledger = make(ceilings)

    def payments(self) -> dict[str, int]:
        """How often each account has paid."""
        return {account: self.ledger.balance(account).payments for account in self.ceilings}

    def spent(self) -> dict[str, Fraction]:
        """The ε that each account has paid."""
        return {account: self.ledger.balance(account).spent.epsilon for account in self.ceilings}


def in_file(folder: Path) -> Callable[[Mapping[str, Ceiling]], SqliteLedger]:
    """Makes a durable ledger, as a site has it."""
    return lambda ceilings: SqliteLedger.create(folder / "real.ledger", ceilings)


@dataclasses.dataclass(frozen=True)
class Adapter:
    """One method in one place: its ``options``, and ``more`` arguments of a run.

    Each of ``accounts`` pays ``payments`` times in a run. With ``delta_options`` the run spends its δ. ``magic`` is an
    option and a value that it does not have. ``sets`` says that every record has a set of labels.
    """

    name: str
    options: Any
    epsilon: Any = 8
    delta: Any = 0
    more: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    accounts: tuple[str, ...] = ("account",)
    payments: int = 1
    unit: Unit = Unit()  # noqa: RUF009
    federated: bool = False
    sets: bool = False
    may_run_dry: bool = False  # holders that cannot pay any more leave, and the others go on
    budget: tuple[Any, Any] | None = None  # the account's (ε, δ) where it is not the run's
    delta_options: Mapping[str, Any] | None = None
    gaussian: bool = False  # whether its δ is that of Gaussian noise
    sampled: bool = False  # whether its δ is that of Gaussian noise on samples of the records
    composed: bool = False  # whether its δ is that of Gaussian noise and of something else in one payment
    adjacency: str = "replace-one"
    magic: tuple[str, Any] = ("student", "magic")
    one_in: int = 3  # of how many laws one tries it in every test run, where it is not the plainest of its method

    @property
    def trust(self) -> str:
        """The trust model: the one that is named, or that of nodes or holders that pay, or of a curator."""
        return self.more.get("trust", "central" if len(self.accounts) == 1 else "local")

    def run(self, private: Any, public: Any, epsilon: Any = None, delta: Any = None, **given: Any) -> tacit.Run:
        """The run, with the adapter's own options or with others beside them."""
        settings = {"classes": CLASSES, "request": "r"} | {
            name: given.pop(name) for name in ("classes", "request") if name in given
        }
        place = {name: given.pop(name, None) for name in ("funds", "seed", "folder")}
        own = {each.name: getattr(self.options, each.name) for each in dataclasses.fields(self.options)}
        # An options object, or a name with options beside it: both ways to say the same.
        method = {"method": self.options} if not given else {"method": self.options.name, **(own | given)}
        run = over_nodes if self.federated else in_one_process
        return run(
            self, private, public, self.epsilon if epsilon is None else epsilon, **place, **settings, **method,
            delta=self.delta if delta is None else delta,
        )  # fmt: skip

    def ceiling(self, part: Fraction | int = 1) -> Ceiling:
        """What an account needs for a run, or this part of it."""
        epsilon, delta = self.budget or (self.epsilon, self.delta)
        return Ceiling(
            Fraction(str(epsilon)) * part, Fraction(str(delta)) * part, Rule.PLANNED, self.unit, self.adjacency
        )

    def funds(self, part: Fraction | int = 1, **more: Any) -> Funds:
        """Every account of the method with what a run needs, or with this part of it."""
        return Funds(dict.fromkeys(self.accounts, self.ceiling(part)), **more)

    def units(self, private: Any) -> int:
        """How many there are of what is protected."""
        return HOLDERS if self.unit.holder else len(private[1])


def in_one_process(case, private, public, epsilon, *, funds, seed, folder, **given):
    """The run of a case whose records are all here."""
    samples, labels = private
    paid = {} if funds is None else {"ledger": funds.ledger, "account": case.accounts[0].split()[0]}
    return tacit.distill(
        (samples, [{each} for each in labels] if case.sets else labels), public, epsilon, seed=seed,
        # Each holder has each third record, and with it records of all classes.
        holders=np.arange(len(samples)) % HOLDERS, checkpoint=folder, **paid, **case.more, **given,
    )  # fmt: skip


SITES = tuple(f"site {place}" for place in range(HOLDERS))
TERMS = RoundPolicy(expected=HOLDERS, at_least=2, deadline=10, grace=0.3, patience=0.3, records=1000)
RULES = Rules(
    methods=("privatekt", "pate", "private_knn", "fedmd", "rknn", "class_sums", "noisy_sgd"),
    mechanisms=(
        "RandomizedLabels", "DiscreteGaussianNoise", "DiscreteLaplaceNoise", "DistributedLaplace", "Responses",
        "SubsetSelection", "GeneralizedRandomizedResponse", "RoundedGaussianNoise", "DistributedGaussian",
        "SubsampledGNMax", "PermuteAndFlip", "Shuffled",
    ),
    purposes=("reverse k-NN labels", "PrivateKT labels", "PATE votes", "FedMD predictions",
              "FedMD on reverse k-NN votes", "class sums", "noisy SGD", "Private k-NN votes"),
    participants=2,
)  # fmt: skip


@cache
def _identities() -> dict[str, SigningIdentity]:
    return {name: SigningIdentity.new() for name in SITES}


def over_nodes(case, private, public, epsilon, *, funds, seed, folder, request, **given):
    """The run of a case over nodes that hold a part of the records each, through Flower's messages."""
    samples, labels = private
    if case.more.get("data_kind") == "mixed":
        samples = packed_table(frame_of(samples, "samples"))
    known = class_indices(np.asarray(labels), np.asarray(CLASSES), "private labels")
    known = np.eye(len(CLASSES), dtype=bool)[known] if case.sets else known
    ledger = MemoryLedger(dict.fromkeys(case.accounts, Ceiling(10**6, "1/2"))) if funds is None else funds.ledger
    peers = {name: each.public for name, each in _identities().items()}

    def memory(what: str) -> Any:
        return NodeMemory() if folder is None else FolderMemory(folder / what)

    more = dict(case.more)
    trust, holders = more.get("trust"), more.pop("holders", "nodes")
    services = ExitStack()
    collecting, collector = {}, ()
    if trust in ("shuffle", "central"):
        collecting, collector = services.enter_context(collected(trust, peers, ledger, seed, folder))
    nodes = [
        Node(
            name, CLASSES, Private(Records(samples[place::HOLDERS], known[place::HOLDERS])), RULES, ledger, name,
            consensus=ConsensusStore(lambda: Refitted(logistic(), len(CLASSES)), public, memory(f"{name} agreements")),
            masking=Masking(_identities()[name], peers, memory(f"{name} masking")), seed=seed,
            collecting=Collecting(_identities()[name], peers=peers, **collecting) if collecting else None,
        )
        for place, name in enumerate(SITES)
    ]  # fmt: skip
    app = client_app(lambda context: nodes[context.node_config["partition-id"]])
    grid = InProcessGrid(app, contexts(HOLDERS, SITES))
    journal = None if folder is None or collector else Journal.open(folder / "journal", "a recipe")
    exchange: Any
    if trust == "masked":
        exchange = FlowerMasked(grid, request, TERMS, peers, journal)
    elif collector:
        exchange = FlowerCollected(grid, request, TERMS, *collector)
    else:
        exchange = FlowerExchange(grid, request, TERMS, journal)
    there = tacit.Nodes(
        exchange, nodes=HOLDERS, records=90, holders=holders, deliver=getattr(exchange, "deliver", None)
    )
    with services:
        return tacit.distill(None, public, epsilon, exchange=there, request=request, **more, **given)


def _in_process() -> list[Adapter]:
    holders = {"accounts": tuple(f"holder {n}" for n in range(HOLDERS))}
    gaussian = {"delta_options": {"mechanism": "gaussian"}, "gaussian": True}

    def rknn(**options: Any) -> Any:
        return tacit.ReverseKNN(**({"queries": 6, "student": "logistic"} | options))

    def fedmd(variant: str, **options: Any) -> Any:
        return tacit.FedMD(
            variant=variant, rounds=2, queries=20, models=["logistic"], schedule=Schedule(1, 1, 1), **options
        )

    parties = holders | {"magic": ("models", ["magic"])}
    return [
        Adapter("rknn", rknn(), **gaussian),
        Adapter("rknn soft", rknn(labels="soft"), **gaussian),
        Adapter("rknn proportions", rknn(labels="proportions"), **gaussian),
        Adapter("rknn two iterations", rknn(iterations=2), payments=2),
        Adapter("rknn local", rknn(), more={"trust": "local"}),
        Adapter("rknn shuffle", rknn(), delta="1e-6", more={"trust": "shuffle"}, delta_options={}),
        Adapter("rknn multi-label", rknn(max_labels=1), sets=True, **gaussian),
        Adapter("privatekt", tacit.PrivateKT(rounds=3, participation=1, model=logistic()), 60, payments=3, unit=HOLDER,
                may_run_dry=True, delta_options={"rounds": 12}, **holders, magic=("model", "magic")),
        Adapter("fedmd rknn", fedmd("rknn"), **parties),
        Adapter("fedmd response", fedmd("response"), 200, payments=2, unit=HOLDER, delta_options={}, **parties),
        Adapter("fedmd ldp", fedmd("ldp"), 200, payments=2, unit=HOLDER, delta_options={}, gaussian=True, **parties),
        Adapter("fedmd nfdp", fedmd("nfdp", subset=5), None, budget=("1e-6", "0.2"), **parties),
        Adapter("fedmd np", fedmd("np"), None, payments=0, budget=("1e-6", 0), **parties),
        Adapter("class sums", tacit.ClassSums(), delta_options={}, gaussian=True),
        Adapter("class sums, least squares", tacit.ClassSums(components=2, fit="least-squares"), delta_options={},
                gaussian=True),
        Adapter("class sums multi-label", tacit.ClassSums(max_labels=1), sets=True, delta_options={}, gaussian=True),
        Adapter("noisy sgd", tacit.NoisySGD(steps=3), 80, payments=3, delta_options={}, gaussian=True,
                magic=("model", "magic")),
        Adapter("auto, pure", tacit.Auto()),
        Adapter("auto multi-label", tacit.Auto(max_labels=1), sets=True, delta="1e-5", delta_options={}, gaussian=True),
        # Of three classes: a gradient follows the sums with two only.
        Adapter("auto, a table", tacit.Auto(), delta="1e-5", delta_options={}, gaussian=True),
        # Two pixels by two, whose clouds are far apart: votes in three rounds, and sums in two.
        Adapter("auto, images", tacit.Auto(), 80, delta="1e-5", delta_options={}, gaussian=True, payments=3,
                more={"data_kind": "images"}),
        Adapter("auto, pure images", tacit.Auto(), 200, payments=3, more={"data_kind": "images"}),
        Adapter("auto, sums of images", tacit.Auto(releases="sums"), 20, delta="1e-5", delta_options={}, gaussian=True,
                payments=2, more={"data_kind": "images"}),
        Adapter("private k-NN", tacit.PrivateKNN(queries=6, neighbors=5), delta="1e-5", delta_options={}, sampled=True),
        # One vote passes this screen more often than not, so some of twenty queries pass.
        Adapter("private k-NN, screened", tacit.PrivateKNN(queries=20, neighbors=5, threshold=0.2), 20, delta="1e-5",
                payments=2, delta_options={}, sampled=True),
        Adapter("private k-NN, filtered", tacit.PrivateKNN(queries=12, neighbors=3, participations=2, reach=0.3),
                delta="1e-5", more={"adjacency": "add-remove"}, adjacency="add-remove", delta_options={}, sampled=True),
        Adapter("pate", tacit.PATE(), 40, **gaussian),
        Adapter("pate, two rounds", tacit.PATE(queries=20, rounds=2), 40, payments=2, **gaussian),
        Adapter("pate confident", tacit.PATE(threshold=0.3, queries=20), 20, delta="1e-5", payments=2,
                delta_options={}, gaussian=True),
        Adapter("pate gnmax", tacit.PATE(mechanism="laplace"), 40, delta_options={"mechanism": "gnmax"},
                gaussian=True),
        # So large an ε that three teachers are enough for a test of their votes.
        Adapter("pate, tested", tacit.PATE(queries=20, contested=0.1), 60, delta="1e-5", delta_options={}),
        Adapter("pate, estimated", tacit.PATE(queries=20, cost_estimate=0.2), 40, delta="1e-5", delta_options={},
                composed=True),
    ]  # fmt: skip


def _over_nodes() -> list[Adapter]:
    nodes = {"accounts": SITES, "federated": True}
    masked = {"more": {"trust": "masked"}}
    # A shuffler and a curator are services on a port, so that few laws try them in every test run.
    shuffled = {"delta": "1e-6", "more": {"trust": "shuffle"}, "delta_options": {}, "one_in": 12}
    curated = {"accounts": (*SITES, CURATOR), "federated": True, "more": {"trust": "central"}, "one_in": 12}
    gaussian = {"delta_options": {"mechanism": "gaussian"}, "gaussian": True}

    def rknn(**options: Any) -> Any:
        return tacit.ReverseKNN(queries=6, **options)

    def fedmd(variant: str) -> Any:
        return tacit.FedMD(variant=variant, rounds=2, queries=20)

    return [
        Adapter("rknn nodes, federated", rknn(), **nodes, **gaussian),
        Adapter("rknn soft, federated", rknn(labels="soft"), **nodes, **gaussian),
        Adapter("rknn proportions, federated", rknn(labels="proportions"), **nodes, **gaussian),
        Adapter("rknn two iterations, federated", rknn(iterations=2), payments=2, **nodes),
        Adapter("rknn raw rows, federated", rknn(), more={"data_kind": "mixed"}, **nodes, **gaussian),
        Adapter("rknn records, federated", rknn(), more={"holders": "records"}, **nodes),
        Adapter("rknn masked, federated", rknn(), **masked, **nodes),
        Adapter("rknn multi-label, federated", rknn(max_labels=1), sets=True, **nodes, **gaussian),
        Adapter("rknn multi-label masked, federated", rknn(max_labels=1), sets=True, **masked, **nodes),
        Adapter("rknn two iterations masked, federated", rknn(iterations=2), payments=2, **masked, **nodes),
        Adapter("rknn shuffle, federated", rknn(), **shuffled, **nodes),
        Adapter("rknn curated, federated", rknn(), **curated, **gaussian),
        Adapter("class sums, federated", tacit.ClassSums(), 80, more={"trust": "local"}, delta_options={},
                gaussian=True, **nodes),
        Adapter("class sums multi-label, federated", tacit.ClassSums(max_labels=1), 80, sets=True,
                more={"trust": "local"}, delta_options={}, gaussian=True, **nodes),
        Adapter("class sums masked, federated", tacit.ClassSums(), 80, delta_options={}, gaussian=True, **masked,
                **nodes),
        Adapter("class sums curated, federated", tacit.ClassSums(), 80, delta_options={}, gaussian=True, **curated),
        Adapter("noisy sgd, federated", tacit.NoisySGD(steps=2), 80, payments=2, more={"trust": "local"},
                delta_options={}, gaussian=True, magic=("model", "magic"), **nodes),
        Adapter("noisy sgd masked, federated", tacit.NoisySGD(steps=2), 80, payments=2, delta_options={}, gaussian=True,
                magic=("model", "magic"), **masked, **nodes),
        Adapter("noisy sgd curated, federated", tacit.NoisySGD(steps=2), 80, payments=2, delta_options={},
                gaussian=True, magic=("model", "magic"), **curated),
        Adapter("auto, federated", tacit.Auto(), **nodes),
        Adapter("auto masked, federated", tacit.Auto(), one_in=12, **masked, **nodes),
        Adapter("auto shuffle, federated", tacit.Auto(), **shuffled, **nodes),
        Adapter("auto curated, federated", tacit.Auto(), **curated),
        Adapter("auto, sums, federated", tacit.Auto(releases="sums"), 80, **masked, **nodes),
        Adapter("private k-NN, federated", tacit.PrivateKNN(queries=6, neighbors=2), delta="1e-5", delta_options={},
                sampled=True, **nodes),
        Adapter("pate, federated", tacit.PATE(), 200, unit=HOLDER, more={"trust": "local"}, **nodes),
        Adapter("pate masked, federated", tacit.PATE(), 200, unit=HOLDER, **masked, **nodes),
        Adapter("privatekt, federated", tacit.PrivateKT(rounds=3, participation=1, model="logistic"), 60, payments=3,
                unit=HOLDER, magic=("model", "magic"), may_run_dry=True, delta_options={"rounds": 12}, **nodes),
        Adapter("fedmd rknn, federated", fedmd("rknn"), **nodes),
        Adapter("fedmd response, federated", fedmd("response"), 200, payments=2, unit=HOLDER, delta_options={},
                **nodes),
        Adapter("fedmd ldp, federated", fedmd("ldp"), 200, payments=2, unit=HOLDER, delta_options={}, gaussian=True,
                **nodes),
    ]  # fmt: skip


ADAPTERS = {each.name: each for each in (*_in_process(), *_over_nodes())}
