"""A method describes itself; one from outside comes by an entry point, and passes no door before a policy names it."""

import re
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")

import tacit
from tacit.core.account import Ceiling
from tacit.core.codec import encode
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.options import build, describe
from tacit.federation.coordinator import implausible
from tacit.federation.messages import RefusalReason, Request, read_response
from tacit.federation.node.node import Node
from tacit.federation.node.refusals import Refused, node_side
from tacit.ledger.memory import MemoryLedger
from tacit.ledger.policy import Rules, read_rules
from tacit.ledger.policy_file import POLICY_EXAMPLE, RULES_EXAMPLE
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.methods import registry
from tacit.methods.fedmd.wire import Feedback
from tacit.methods.pate.wire import TeacherAsk
from tacit.methods.private_knn.wire import NeighborAsk
from tacit.methods.privatekt.options import Teaching
from tacit.methods.registry import AUTO, METHODS, Method, find_method, known_kinds
from tacit.private.records import Private, Records
from tacit.runs.drive import drive
from tacit.wire import ask_to_bytes, read_ask, read_release, release_to_bytes
from tests.example_package.installed import forget, make_visible
from tests.local_exchange import local_exchange

CLASSES = ("cat", "dog")
NOISE = DiscreteLaplaceNoise.for_epsilon(4, 2)
ALLOWED = Rules(("histogram",), ("DiscreteLaplaceNoise",), ("label histogram",), 1)


@pytest.fixture
def installed(tmp_path_factory, monkeypatch):
    """The example package as pip would leave it: a folder of code and one that says what it adds."""
    make_visible(tmp_path_factory.mktemp("site"), monkeypatch)
    forget()
    yield
    forget()


def example():
    from tacit_example import method

    return method


def node(place=0, labels=(0, 1, 1, 1), rules=ALLOWED, ceiling=8):
    own = Private(Records(np.zeros((len(labels), 2)), np.array(labels)))
    ledger = MemoryLedger({"site": Ceiling(ceiling)})
    return Node(f"site {place}", CLASSES, own, rules, ledger, "site", seed=place)


def counts(mechanism=NOISE, request="r-1"):
    return example().CountAsk(CLASSES, mechanism, "label histogram", request)


def replied(own, ask, step="answer"):
    return read_response(own.reply(Request("run", 0, 3, ask_to_bytes(ask), step).to_bytes())).answer


# The package's own


ASKING = [each for each in METHODS.values() if each.questions]


def test_only_the_default_asks_the_questions_of_others():
    (others,) = [each for each in METHODS.values() if each not in ASKING]
    assert (others.name, others.kinds) == (AUTO, ())
    with pytest.raises(InvalidInput, match="auto asks the questions of other methods"):
        node_side(others)


@pytest.mark.parametrize("method", ASKING, ids=lambda each: each.name)
def test_every_method_names_its_questions_and_declares_their_steps(method):
    assert find_method(method.name) is method
    side = node_side(method)
    assert set(side.allowed) == set(method.questions)
    assert all(known_kinds()[kind.name] is kind for kind in method.kinds)
    assert (side.learn is not None) == bool(method.notices)
    # Whatever is summed over nodes, or released by a curator, is a table that bounds its own counts.
    for kind, steps in side.allowed.items():
        # Votes of neighbors are added up by the coordinator alone, who judges each table by its bound.
        summed = bool({"masked", "submit", "curate"} & set(steps)) or kind is NeighborAsk
        assert hasattr(kind, "most_votes") == summed


def test_who_asks_loads_nothing_that_sees_records():
    code = "import sys, tacit.wire, tacit.methods.registry as r; r.known_kinds()\n"
    code += "print([m for m in sys.modules if m.startswith('tacit.private') or m.endswith('.holder')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("kind", [each for method in METHODS.values() for each in method.kinds])
def test_a_question_belongs_to_one_method(kind):
    with pytest.raises(InvalidInput, match="and belongs to"):
        Method("another", (kind,), "nowhere:AT_NODE")


@pytest.mark.parametrize("step", ["answer", "learn"])
def test_what_is_told_is_not_answered_and_what_is_asked_is_not_learned(step):
    told = Feedback(0, np.arange(2), np.zeros((2, 2), dtype=np.float32))
    asked = TeacherAsk(np.zeros((2, 2)), CLASSES, NOISE, "label histogram", "r-1")
    own = node(rules=replace(ALLOWED, methods=("fedmd", "pate")))
    assert replied(own, told if step == "answer" else asked, step) is RefusalReason.QUESTION
    assert own.ledger.balance("site").payments == 0


# One from outside


def test_what_is_not_installed_is_not_known():
    registry._installed.cache_clear()
    assert find_method("histogram") is None
    assert "histogram-counts" not in known_kinds(["histogram"])


def test_its_question_is_written_and_read_by_the_strict_codec(installed):
    ask = counts()
    payload = ask_to_bytes(ask)
    again = read_ask(payload, methods=["histogram"])
    assert again == ask
    assert ask_to_bytes(again) == payload
    with pytest.raises(InvalidInput, match="must be one of"):
        read_ask(payload)
    release = node().answer(ask)
    sent = release_to_bytes(release, ask, 10)
    np.testing.assert_array_equal(read_release(sent, ask, "site", 10).value, release.value)
    with pytest.raises(InvalidInput):
        read_release(sent + b"\0", ask, "site", 10)


def test_a_node_answers_it_where_its_policy_names_it(installed):
    own = node()
    assert isinstance(replied(own, counts()), bytes)
    assert own.ledger.balance("site").payments == 1
    # The same request again is the same release, and another question under its name is a conflict.
    assert replied(own, counts()) == replied(own, counts())
    assert own.ledger.balance("site").payments == 1
    assert replied(own, counts(DiscreteLaplaceNoise.for_epsilon(2, 2))) is RefusalReason.CONFLICT


OWN = replace(ALLOWED, methods=("rknn", "pate", "privatekt", "fedmd"))


def test_a_node_whose_policy_does_not_name_it_refuses(installed):
    own = node(rules=OWN)
    assert replied(own, counts()) is RefusalReason.QUESTION
    with pytest.raises(Refused) as refused:
        own.answer(counts())
    assert refused.value.reason is RefusalReason.METHOD
    assert own.ledger.balance("site").payments == 0


def test_what_no_policy_names_is_not_even_loaded(installed):
    sent = encode({"ask": "histogram-counts", "names": [], "mechanism": {}, "purpose": "p", "request": "r"})
    letter = Request("run", 0, 3, sent).to_bytes()
    assert read_response(node(rules=OWN).reply(letter)).answer is RefusalReason.QUESTION
    assert "tacit_example.method" not in sys.modules
    assert read_response(node().reply(letter)).answer is RefusalReason.QUESTION
    assert "tacit_example.method" in sys.modules
    # Who only asks has no part of it that sees records.
    assert "tacit_example.holder" not in sys.modules


def test_its_steps_and_mechanisms_are_checked_like_those_of_any_other(installed):
    own = node(rules=replace(ALLOWED, mechanisms=("DiscreteLaplaceNoise", "PermuteAndFlip")))
    assert replied(own, counts(PermuteAndFlip.for_epsilon(1, 2))) is RefusalReason.MECHANISM
    # Noise for a smaller change than one record makes, and classes that are not this node's.
    assert replied(own, counts(DiscreteLaplaceNoise.for_epsilon(4, 1))) is RefusalReason.QUESTION
    assert replied(own, replace(counts(), class_names=("cat", "cow"))) is RefusalReason.CLASSES
    assert replied(own, replace(counts(), purpose="something else")) is RefusalReason.PURPOSE
    assert replied(own, counts(DiscreteLaplaceNoise.for_epsilon(9, 2))) is RefusalReason.BUDGET
    assert own.ledger.balance("site").payments == 0


def test_neighboring_records_get_the_same_kind_of_reply_at_the_same_price(installed):
    seen = set()
    for labels in ((0, 1, 1, 1), (1, 1, 1, 1), (0, 1, 1, -1), (0, 1, 1, 99)):
        own = node(labels=labels)
        seen.add((len(replied(own, counts())), own.ledger.balance("site").spent))
    assert len(seen) == 1


def test_its_question_says_how_far_it_moves(installed):
    ask = counts()
    assert ask.sensitivity(Unit(), Adjacency.REPLACE_ONE).l1 == 2
    assert ask.sensitivity(Unit(), Adjacency.ADD_REMOVE).l1 == 1
    assert implausible(ask, np.array([[40, 60]]), 100) is None
    assert "total" in implausible(ask, np.array([[4000, 60]]), 100)


def test_its_coordinator_runs_in_the_one_loop(installed):
    made = [node(place) for place in range(3)]
    run = example().HistogramCoordinator(CLASSES, np.zeros((5, 2)), NOISE, "r-1")
    here = drive(run, local_exchange(made))
    assert here.value == ["dog"] * 5
    assert len(here.receipts) == 3


def test_it_runs_through_flower_and_under_masks(installed):
    pytest.importorskip("flwr", reason="needs tacit[federated]")
    from tacit.federation.coordinator import RoundPolicy
    from tacit.federation.flower.client import InProcessGrid, client_app, contexts
    from tacit.federation.flower.server import FlowerExchange
    from tacit.federation.flower.summed import FlowerMasked
    from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
    from tests.federation.federation import masking_nodes

    def grid(made):
        app = client_app(lambda context: made[context.node_config["partition-id"]])
        return InProcessGrid(app, contexts(len(made), [each.name for each in made]))

    terms = RoundPolicy(3, 3, records=10)
    made = [node(place) for place in range(3)]
    run = example().HistogramCoordinator(CLASSES, np.zeros((5, 2)), NOISE, "r-1")
    assert drive(run, FlowerExchange(grid(made), "r", terms)).value == ["dog"] * 5

    rules = replace(ALLOWED, mechanisms=("DistributedLaplace",))
    masked, peers = masking_nodes(3, seed=None, ceiling=20)
    masked = [replace(each, rules=rules) for each in masked]
    digits = tuple(map(str, range(10)))
    noise = DistributedLaplace.for_epsilon(10, 2, 3, 1000, "1", "1/2", colluding=1)
    run = example().HistogramCoordinator(digits, np.zeros((5, 2)), noise, "r-1")
    summed = FlowerMasked(grid(masked), "r", RoundPolicy(3, 3, records=1000), peers)
    assert drive(run, summed).value[0] in digits


def test_an_operator_names_it_in_the_policy_file(installed, tmp_path):
    file = tmp_path / "policy.toml"
    text = POLICY_EXAMPLE + RULES_EXAMPLE.replace('methods = ["rknn"]', 'methods = ["histogram"]')
    file.write_text(text)
    assert read_rules(file).methods == ("histogram",)
    file.write_text(text.replace('"histogram"', '"histogramm"'))
    with pytest.raises(InvalidInput, match="did you mean 'histogram'"):
        read_rules(file)


def test_a_policy_file_cannot_name_what_is_not_installed(tmp_path):
    file = tmp_path / "policy.toml"
    file.write_text(POLICY_EXAMPLE + RULES_EXAMPLE.replace('methods = ["rknn"]', 'methods = ["histogram"]'))
    with pytest.raises(InvalidInput, match="'histogram' is not known"):
        read_rules(file)


def point(value, name="histogram"):
    return EntryPoint(name, value, registry.GROUP)


@pytest.mark.parametrize(
    ("points", "match"),
    [
        ([point("tacit_example.method:CLASSES")] * 2, "2 installed packages add a method 'histogram'"),
        ([point("tacit_example.method:CountAsk")], "must load a Method of that name"),
        ([point("tacit.methods.registry:METHODS")], "must load a Method of that name"),
    ],
)
def test_an_entry_point_that_is_no_such_method_is_refused(installed, monkeypatch, points, match):
    found = EntryPoints(points)
    monkeypatch.setattr(registry, "entry_points", lambda **which: found.select(**which))
    with pytest.raises(InvalidInput, match=match):
        find_method("histogram")


def test_nothing_from_outside_takes_the_place_of_an_own_method(installed, monkeypatch):
    found = EntryPoints([point("tacit_example.method:METHOD", "rknn")])
    monkeypatch.setattr(registry, "entry_points", lambda **which: found.select(**which))
    assert find_method("rknn") is METHODS["rknn"]
    assert known_kinds(["rknn"]) == known_kinds()


def test_a_name_is_one_word():
    with pytest.raises(InvalidInput, match="one word"):
        Method("rknn-votes", (), "nowhere:AT_NODE")


def options_classes():
    """Every options class of a method, and those inside of it."""
    for method in METHODS.values():
        made = method.load_options()
        yield made
        yield from (type(each.default) for each in describe(made) if hasattr(each.default, "renamed"))


@pytest.mark.parametrize("options", list(options_classes()), ids=lambda each: each.__name__)
def test_an_old_name_is_told_by_its_new_one_wherever_it_is_given(options):
    for old, new in options.renamed.items():
        for make in (lambda name: options(**{name: 1}), lambda name: build(options, {name: 1})):
            with pytest.raises(InvalidInput, match=f"{old} is called {re.escape(new)} now"):
                make(old)
        inner = getattr(options, "name", None) is None
        if not inner and old not in tacit.PrivateDistiller._get_param_names():
            with pytest.raises(InvalidInput, match=f"{old} is called {re.escape(new)} now"):
                tacit.PrivateDistiller(**{old: 1})
    # An unknown one is Python's to tell.
    with pytest.raises(TypeError, match="no_such_option"):
        options(no_such_option=1)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"queries": "many"}, "queries must be a whole number, got 'many'"),
        ({"queries": [30, 0]}, "queries must be at least 1, got 0"),
        ({"neighbors": -1}, "neighbors must be at least 1, got -1"),
        ({"iterations": 0}, "iterations must be at least 1, got 0"),
        ({"max_labels": 0}, "max_labels must be at least 1, got 0"),
    ],
)
def test_numbers_of_votes_are_checked_when_the_options_are_made(given, told):
    with pytest.raises(InvalidInput, match=re.escape(told)):
        tacit.ReverseKNN(**given)


def test_options_inside_of_options_may_be_a_mapping():
    assert build(tacit.PrivateKT, {"teaching": {"warmup_rounds": 2}}).teaching == Teaching(warmup_rounds=2)
    assert build(tacit.PrivateKT, {"learning": {"steps": 2}}).learning.steps == 2
    with pytest.raises(InvalidInput, match="teaching: waiting is called warmup_rounds now"):
        build(tacit.PrivateKT, {"teaching": {"waiting": 1}})
    with pytest.raises(InvalidInput, match="teaching: unknown option 'warm' of Teaching"):
        build(tacit.PrivateKT, {"teaching": {"warm": 1}})
    with pytest.raises(InvalidInput, match="teaching must be a Teaching, got dict"):
        tacit.PrivateKT(teaching={"warmup_rounds": 2})
