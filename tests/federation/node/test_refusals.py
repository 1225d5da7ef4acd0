"""Why a node does not answer: the right word for the coordinator, the whole truth but no record in its own log."""

import dataclasses
import datetime
import json
import logging
import re
import subprocess
import sys
from email.utils import format_datetime
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.supercore.error import ApiErrorCode, FlowerError
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from tacit.core.account import Ceiling
from tacit.core.codec import decode
from tacit.core.errors import InvalidInput
from tacit.core.spend import Approximate, Gaussian, Pure
from tacit.federation.collector.batches import plan_batch
from tacit.federation.collector.client import Address, Unreachable, Untrusted
from tacit.federation.collector.messages import SignedMessage
from tacit.federation.collector.messages import SubmissionRefusal as NotTakenBecause
from tacit.federation.collector.messages import SubmissionRefused as NotTaken
from tacit.federation.collector.submission_store import SubmissionOutcome, SubmissionStore
from tacit.federation.flower.link import explain_unregistered
from tacit.federation.flower.node import retry_activation
from tacit.federation.keys import SigningIdentity, public_key
from tacit.federation.messages import LARGEST_REQUEST, PASSING, RefusalReason, Request, read_response
from tacit.federation.node.refusals import lacks_delta
from tacit.federation.node.steps import Collecting
from tacit.federation.processes import failure_in_words
from tacit.ledger.memory import MemoryLedger
from tacit.ledger.policy import Rules
from tacit.ledger.sqlite import SqliteLedger
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.forms import Flags, Messages, Numbers
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
from tacit.mechanisms.shuffle.single_message import Shuffled, SingleMessage
from tacit.methods.rknn.wire import VoteAsk
from tacit.representations.scaled import Identity as Unchanged
from tacit.wire import ask_to_bytes
from tests.federation.federation import CLASSES, nodes

PURPOSE = "reverse k-NN labels"
LAPLACE = DiscreteLaplaceNoise.for_epsilon(1, 2)
RULES = Rules(("rknn",), ("DiscreteLaplaceNoise", "DiscreteGaussianNoise", "Shuffled"), (PURPOSE,), 2)


def question(mechanism=LAPLACE, names=CLASSES, purpose=PURPOSE, request="r-1"):
    return VoteAsk(np.zeros((2, 64), dtype=np.float32), Unchanged(64), 1, names, "c0ffee", mechanism, purpose, request)


def asked(node, ask, caplog, participants=4, **more):
    """The word that a node says, and what its log says."""
    caplog.clear()
    with caplog.at_level(logging.INFO, "tacit"):
        reply = node.reply(Request("a run", 0, participants, ask_to_bytes(ask), **more).to_bytes())
    return read_response(reply).answer, caplog.text


@pytest.fixture
def node():
    return nodes(4, rules=RULES)[0]


@pytest.mark.parametrize(
    ("change", "ask", "reason", "words"),
    [
        (
            {"rules": dataclasses.replace(RULES, methods=("pate",))}, {},
            RefusalReason.METHOD, "asked rknn, allowed 'pate'",
        ),
        (
            {"rules": dataclasses.replace(RULES, mechanisms=("PermuteAndFlip",))}, {},
            RefusalReason.MECHANISM, "asked DiscreteLaplaceNoise by 'answer', allowed 'PermuteAndFlip'",
        ),
        (
            {"rules": dataclasses.replace(RULES, purposes=("research",))}, {},
            RefusalReason.PURPOSE, "asked 'reverse k-NN labels', allowed 'research'",
        ),
        (
            {"rules": dataclasses.replace(RULES, participants=5)}, {},
            RefusalReason.PARTICIPANTS, "4 take part, and the policy requires 5",
        ),
        ({"classes": ("ill", "well")}, {}, RefusalReason.CLASSES, "here 'ill', 'well'"),
        (
            {"ledger": MemoryLedger({"site 0": Ceiling("0.5")})}, {},
            RefusalReason.BUDGET, "it would reach epsilon 1 by pure composition. It has spent epsilon 0 of 0.5",
        ),
        (
            {}, {"mechanism": DiscreteGaussianNoise(5, 2, True)},
            RefusalReason.DELTA, "The account's delta is 0",
        ),
        (
            {}, {"mechanism": DiscreteLaplaceNoise.for_epsilon(1, 1)},
            RefusalReason.QUESTION, "is not calibrated for this",
        ),
    ],
)  # fmt: skip
def test_a_refusal_says_what_was_asked_and_what_is_allowed(node, change, ask, reason, words, caplog):
    word, log = asked(dataclasses.replace(node, **change), question(**ask), caplog)
    assert word is reason
    assert f"refused ({reason})" in log
    assert words in log
    assert "run 'a run', round 1" in log


def test_a_request_that_was_used_before_is_named(node, caplog):
    assert isinstance(asked(node, question(), caplog)[0], bytes)
    word, log = asked(node, question(DiscreteLaplaceNoise.for_epsilon("1/2", 2)), caplog)
    assert word is RefusalReason.CONFLICT
    assert "r-1" in log


def test_words_of_the_asker_cannot_fill_or_forge_the_log(node, caplog):
    for purpose, reason in (("y" * 900, RefusalReason.PURPOSE), ("x\n2026 INFO all is well", RefusalReason.QUESTION)):
        word, log = asked(node, question(purpose=purpose), caplog)
        assert word is reason
        assert "\n2026" not in log
        assert len(log) < 500


def test_an_empty_account_is_the_budget_and_a_missing_delta_is_not():
    poor = MemoryLedger({"a": Ceiling("0.001")})
    assert not lacks_delta(poor, "a", Pure(1))
    assert lacks_delta(poor, "a", Gaussian(3))
    assert lacks_delta(poor, "a", Approximate(1, "1e-6"))
    some = MemoryLedger({"a": Ceiling(1, "1e-6")})
    assert not lacks_delta(some, "a", Gaussian(3))
    assert not lacks_delta(some, "a", Approximate(1, "1e-6"))
    assert lacks_delta(some, "a", Approximate(1, "1e-5"))


def test_a_full_disk_is_a_failure_of_the_node(node, tmp_path, caplog):
    SqliteLedger.create(tmp_path / "own.ledger", {"site 0": Ceiling(1000)}).close()
    with SqliteLedger(tmp_path / "own.ledger") as ledger:
        with pytest.raises(InvalidInput, match="a simulation, which must not spend"):
            dataclasses.replace(node, ledger=ledger, seed=1)
        pages = ledger._store.connection.execute("PRAGMA page_count").fetchone()[0]
        ledger._store.connection.execute(f"PRAGMA max_page_count = {pages}")
        full = dataclasses.replace(node, ledger=ledger, seed=None)
        said = [asked(full, question(request=f"r-{n} {'x' * 900}"), caplog) for n in range(30)]
    words = {word for word, _ in said if isinstance(word, RefusalReason)}
    assert words == {RefusalReason.FAILED}
    log = next(log for word, log in said if word is RefusalReason.FAILED)
    assert "the disk is full" in log
    assert "ERROR" in log


def test_too_large_a_question_is_told_as_that(node, caplog, monkeypatch):
    monkeypatch.setattr("tacit.federation.node.node.LARGEST_REQUEST", 100)
    word, log = asked(node, question(), caplog)
    assert word is RefusalReason.SIZE
    assert "the limit is 100" in log
    assert LARGEST_REQUEST > 100


@pytest.mark.parametrize(
    ("error", "reason", "words"),
    [
        (NotTaken(NotTakenBecause.OVERSIZED), RefusalReason.SIZE, "oversized"),
        (NotTaken(NotTakenBecause.UNKNOWN), RefusalReason.COLLECTOR, "unknown sender"),
        (Untrusted("https://mix: its certificate has expired"), RefusalReason.COLLECTOR, "has expired"),
        (Unreachable("https://mix does not answer"), RefusalReason.COLLECTOR, "does not answer"),
        (InvalidInput("authority.pem: cannot be used"), RefusalReason.FAILED, "authority.pem"),
        (OSError(28, "No space left on device"), RefusalReason.FAILED, "No space left on device"),
    ],
)
def test_what_goes_wrong_at_the_collector_is_not_the_question(node, error, reason, words, caplog, monkeypatch):
    monkeypatch.setattr("tacit.federation.node.steps._PATIENCE", 0.0)

    def fails(*_):
        raise error

    plan = SingleMessage(GeneralizedRandomizedResponse(20, 1, 1), 250, "1e-3")
    batch = plan_batch(plan, "a run", 0, "r-1", ("site 0", "site 1"), public_key(b"s" * 32), 250)
    peers = {name: SigningIdentity.new().public for name in batch.nodes}
    collecting = Collecting(SigningIdentity.new(), Address("http://localhost:1"), peers=peers, submit=fails)
    site = dataclasses.replace(node, collecting=collecting, ledger=MemoryLedger({"site 0": Ceiling(9, "1e-2")}))
    word, log = asked(site, question(Shuffled(plan, 250)), caplog, step="submit", content=batch.to_bytes())
    assert word is reason, log
    assert words in log
    # Who only failed is asked again, and who refused is not.
    assert (word in PASSING) == (reason is not RefusalReason.SIZE)


def test_a_failure_is_written_down_without_a_record(node, caplog, monkeypatch):
    def broken(*_):
        raise RuntimeError("the patient Ada is HIV positive")

    monkeypatch.setattr("tacit.methods.rknn.holder.VoteHolder.answer", broken)
    word, log = asked(node, question(), caplog)
    assert word is RefusalReason.FAILED
    assert "Ada" not in log
    assert re.search(r"RuntimeError at test_refusals\.py:\d+", log)
    assert failure_in_words(KeyError("Ada")) == "KeyError"


def test_lines_have_a_time_in_every_process():
    program = (
        "from tacit.federation.processes import log_to; import logging; log_to(); "
        "logging.getLogger('tacit.node').info('hello'); log_to(); logging.getLogger('tacit.gate').error('once')"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    lines = ended.stderr.splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == ["INFO tacit.node: hello", "ERROR tacit.gate: once"]
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ", line) for line in lines)


def test_a_log_is_its_owners_alone(tmp_path):
    place = str(tmp_path / "l")
    program = f"from tacit.federation.processes import log_to; from pathlib import Path; log_to(Path({place!r}))"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert (tmp_path / "l").stat().st_mode & 0o777 == 0o600


def test_a_collector_with_a_full_disk_says_that_it_failed(tmp_path, caplog):
    ada, coordinator = SigningIdentity.new(), SigningIdentity.new()
    plan = SingleMessage(GeneralizedRandomizedResponse(20, 1, 1), 250, "1e-3")
    batch = plan_batch(plan, "run", 0, "r-1", ("ada",), public_key(b"s" * 32), 250)

    with SubmissionStore(
        tmp_path / "o.db", coordinator.public, {"ada": ada.public}, lambda *_: SubmissionOutcome(b"", 0)
    ) as office:
        office._connection.execute("PRAGMA max_page_count = 1")
        office._connection.execute("PRAGMA query_only = ON")
        sent = SignedMessage.signed(coordinator, "open", "run", 0, batch.digest, "coordinator", batch.to_bytes())
        with caplog.at_level(logging.WARNING, "tacit"):
            assert decode(office.handle(sent.to_bytes())) == {"refused": str(NotTakenBecause.FAILED)}
    assert "could not be stored" in caplog.text


# What a node hears at the coordinator's door


def turned_away(status, payload="", ahead=0.0):
    """An activation that the SuperLink answers with an error, ``ahead`` seconds before this machine's time."""
    date = format_datetime(datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=ahead), usegmt=True)

    def activate(*_, **__):
        request = httpx.Request("POST", "https://study/v1/fleet/activate-node")
        response = httpx.Response(status, headers={"Date": date}, text=payload, request=request)
        raise httpx.HTTPStatusError("no", request=request, response=response)

    return activate


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (400, "400 seconds ahead of the server; at most 5 are tolerated"),
        (-4000, "4000 seconds behind the server; at most 300 are tolerated"),
        (0, "it rejects the signature"),
    ],
)
def test_a_wrong_clock_is_named_as_that(ahead, words, caplog):
    with pytest.raises(httpx.HTTPStatusError):
        retry_activation(turned_away(401, ahead=ahead))()
    assert words in caplog.text


def test_an_unregistered_key_is_named_as_that(caplog, monkeypatch):
    monkeypatch.setattr("tacit.federation.flower.node._PATIENCE", 0.0)
    known, other = (public_key_to_bytes(ec.generate_private_key(ec.SECP384R1()).public_key()) for _ in range(2))
    state = SimpleNamespace(get_node_id_by_public_key=lambda key: 7 if key == known else None)
    activate = explain_unregistered(lambda request, state: "let in")
    assert activate(request=SimpleNamespace(public_key=known), state=state) == "let in"
    with pytest.raises(FlowerError) as refused:
        activate(request=SimpleNamespace(public_key=other), state=state)
    # The coordinator's log says which, as `tacit federation nodes list` shows it.
    assert "this key is not registered, or was removed: SHA256:" in str(refused.value)

    payload = json.dumps(refused.value.to_json("Failed to activate SuperNode."))
    caplog.clear()
    with pytest.raises(httpx.HTTPStatusError):
        retry_activation(turned_away(412, payload))()
    assert "this node's key is not registered there, or was removed" in caplog.text
    busy = FlowerError(ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED, "busy").to_json("Failed to activate SuperNode.")
    caplog.clear()
    with pytest.raises(httpx.HTTPStatusError):
        retry_activation(turned_away(412, json.dumps(busy)))()
    assert "still expects the previous process" in caplog.text


def test_an_answer_that_is_too_large_to_be_sent_is_refused_before_it_is_paid(node, caplog, monkeypatch):
    """One message per record: the asker chooses their size, and their number is public."""
    local = GeneralizedRandomizedResponse(20, 1, 1)
    holder = dataclasses.replace(node, rules=dataclasses.replace(RULES, mechanisms=(type(local).__name__,)))
    size = len(asked(holder, question(local, request="r-1"), caplog)[0])
    paid = holder.ledger.balance(holder.account).payments
    # The answer without its receipt of nine bytes is one byte too large.
    monkeypatch.setattr("tacit.federation.node.node._MOST_BESIDE", LARGEST_REQUEST - (size - 10))
    reason, log = asked(holder, question(local, request="r-2"), caplog)
    assert reason is RefusalReason.SIZE
    assert "its answer has up to" in log
    assert holder.ledger.balance(holder.account).payments == paid == 1


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (Numbers((3, 5), -2, 4), np.zeros((3, 5), dtype=np.int64)),
        (Flags(9), np.zeros(9, dtype=bool)),
        (Messages(GeneralizedRandomizedResponse(300, 1, 1).code, None), np.zeros(7, dtype=np.int64)),
        (Messages(GeneralizedRandomizedResponse(300, 1, 1).code, 7, exactly=True), np.zeros(7, dtype=np.int64)),
    ],
)
def test_the_size_of_an_answer_is_known_before_it_is_made(form, value):
    assert form.most_bytes(lambda: 7) == len(form.pack(value))
