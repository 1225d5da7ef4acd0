"""A curator adds up sealed tables and releases once, at a price that the holders and its own account have paid."""

import socket
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.core.account import Ceiling
from tacit.core.codec import decode
from tacit.core.errors import InvalidInput, RequestConflict, ToleranceExceeded
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.randomness import SeededRandomness
from tacit.core.sensitivity import vote_sensitivity
from tacit.federation.collector.batches import plan_tables, read_curated, sealed_table
from tacit.federation.collector.client import Address, collect, open_batch, submit
from tacit.federation.collector.curator import Curator, open_curator
from tacit.federation.collector.messages import SignedMessage, Submission, SubmissionRefusal
from tacit.federation.collector.submission_store import COORDINATOR
from tacit.federation.keys import OVERHEAD, SigningIdentity, public_key, seal
from tacit.ledger.memory import MemoryLedger
from tacit.ledger.sqlite import SqliteLedger
from tacit.mechanisms.central.counts import SealedTable, read_sealed_table
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.pate import LNMax
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.methods.fedmd.wire import Feedback, PartyVoteAsk
from tacit.methods.pate.wire import TeacherAsk
from tacit.methods.privatekt.wire import LabelAsk
from tacit.methods.question import table_shape
from tacit.methods.rknn.holder import VoteHolder
from tacit.methods.rknn.wire import VoteAsk
from tacit.private.gate import Gate
from tacit.private.records import Private, Records
from tacit.representations.scaled import Identity as Unchanged
from tacit.wire import ask_to_bytes

SECRET = b"s" * 32
KEY = public_key(SECRET)
TACIT = (sys.executable, "-c", "from tacit.cli import main; main()")
NAMES = ("ada", "bob", "cyd")
QUERIES = np.array([[0.0], [9.0]], dtype=np.float32)
ASK = VoteAsk(QUERIES, Unchanged(1), 1, ("a", "b"), "", PermuteAndFlip.for_epsilon(1, 2), "votes", "r-1")
BATCH = plan_tables(ASK, "run", 0, NAMES, KEY, minimum=2, largest=1000)


def holder(name, seed=1):
    gate = Gate(MemoryLedger({name: Ceiling(1)}), name, SeededRandomness(seed))
    samples = np.tile([[0.0], [9.0]], (100, 1))
    return VoteHolder([Private(Records(samples, np.tile([0, 1], 100)))], gate)


def handed_in(name, batch=BATCH, ask=ASK):
    release = holder(name).answer(replace(ask, mechanism=sealed_table(ask, batch, name, KEY)))
    assert release.receipts[0].spend == ask.mechanism.spend
    return Submission(1, release.value)


def curator(ceiling=1, **more):
    return Curator(SECRET, MemoryLedger({"curator": Ceiling(ceiling, **more)}), "curator", SeededRandomness(7))


def test_tables_are_added_up_and_labels_released():
    outcome = curator()(BATCH, [handed_in(name) for name in NAMES])
    release, nodes = read_curated(outcome.content, BATCH, ASK)
    assert (release.value.tolist(), nodes) == ([0, 1], 3)
    assert release.receipts[0].account == "curator"
    assert release.receipts[0].spend.epsilon == 1


def test_counts_come_out_with_the_noise_that_was_asked_for():
    ask = replace(ASK, mechanism=DiscreteLaplaceNoise("1/50", 2))
    batch = plan_tables(ask, "run", 0, NAMES, KEY, minimum=2, largest=1000)

    def rich(name):
        gate = Gate(MemoryLedger({name: Ceiling(1000)}), name, SeededRandomness(1))
        records = Private(Records(np.tile([[0.0], [9.0]], (100, 1)), np.tile([0, 1], 100)))
        sealed = replace(ask, mechanism=sealed_table(ask, batch, name, KEY))
        return Submission(1, VoteHolder([records], gate).answer(sealed).value)

    outcome = curator(1000)(batch, [rich(name) for name in NAMES])
    assert read_curated(outcome.content, batch, ask)[0].value.tolist() == [[300, 0], [0, 300]]


def test_a_holder_pays_once_and_replays():
    north = holder("ada")
    first, again = (north.answer(replace(ASK, mechanism=sealed_table(ASK, BATCH, "ada", KEY))) for _ in range(2))
    assert np.array_equal(first.value, again.value)
    other = plan_tables(ASK, "another", 0, NAMES, KEY, minimum=2, largest=1000)
    with pytest.raises(RequestConflict):
        north.answer(replace(ASK, mechanism=sealed_table(ASK, other, "ada", KEY)))


def spoiled(content, context=BATCH.digest):
    return Submission(1, np.frombuffer(seal(KEY, content, context), dtype=np.uint8)[None])


def test_spoiled_tables_cannot_move_the_result_further_than_their_bound():
    batch = plan_tables(ASK, "run", 0, (*NAMES, "dan", "eve", "fay"), KEY, minimum=2, largest=1000)
    wrong = [
        Submission(1, np.zeros((1, batch.size), dtype=np.uint8)),
        spoiled(np.full(4, -1, dtype=np.int64).tobytes(), batch.digest),
        spoiled(np.full(4, 10**18, dtype=np.int64).tobytes(), batch.digest),
        spoiled(b"\0" * (batch.size - OVERHEAD), context="another batch"),
    ]
    outcome = curator()(batch, [*(handed_in(name, batch) for name in NAMES[:2]), *wrong])
    release, nodes = read_curated(outcome.content, batch, ASK)
    assert nodes == 6
    # 10^18 in every cell is as much for one class as for the other.
    assert release.value.tolist() == [0, 1]


def test_below_the_minimum_nothing_is_released_or_charged(tmp_path):
    identities = {name: SigningIdentity.new() for name in NAMES}
    leading = SigningIdentity.new()
    trusted = curator()
    publics = {name: each.public for name, each in identities.items()}

    def sent(signer, kind, node, body):
        return SignedMessage.signed(signer, kind, "run", 0, BATCH.digest, node, body).to_bytes()

    with open_curator(tmp_path / "curator.db", leading.public, publics, trusted) as office:
        office.handle(sent(leading, "open", COORDINATOR, BATCH.to_bytes()))
        # One node that speaks for a thousand is still one table.
        greedy = Submission(1000, handed_in("ada").pieces).to_bytes()
        assert "taken" in decode(office.handle(sent(identities["ada"], "submit", "ada", greedy)))
        collecting = sent(leading, "collect", COORDINATOR, b"")
        assert decode(office.handle(collecting)) == {"refused": str(SubmissionRefusal.WAITING)}
        assert trusted._gate._ledger.balance("curator").spent.epsilon == 0
        office.handle(sent(identities["bob"], "submit", "bob", handed_in("bob").to_bytes()))
        first = office.handle(collecting)
        assert office.handle(collecting) == first
        assert trusted._gate._ledger.balance("curator").spent.epsilon == 1


def test_a_node_trusts_no_key_but_its_curators():
    with pytest.raises(InvalidInput, match="another key"):
        sealed_table(ASK, BATCH, "ada", public_key(b"t" * 32))
    with pytest.raises(InvalidInput, match="does not expect"):
        sealed_table(ASK, BATCH, "eve", KEY)
    with pytest.raises(InvalidInput, match="another question"):
        sealed_table(replace(ASK, request="r-2"), BATCH, "ada", KEY)
    with pytest.raises(InvalidInput, match="boxes does not fit"):
        sealed_table(ASK, replace(BATCH, size=60), "ada", KEY)
    with pytest.raises(InvalidInput, match="another key"):
        Curator(b"t" * 32, MemoryLedger({"c": Ceiling(1)}), "c")(BATCH, [])
    with pytest.raises(InvalidInput, match="another batch"):
        read_curated(curator()(BATCH, [handed_in(name) for name in NAMES]).content, replace(BATCH, run="x"), ASK)


def test_noise_for_less_than_the_curators_unit_is_refused():
    unit = Unit.person("patient", 3)
    with pytest.raises(ToleranceExceeded, match="row_range"):
        curator(unit=unit)(BATCH, [handed_in(name) for name in NAMES])


def test_sensitivities_are_those_of_the_methods():
    party = PartyVoteAsk(QUERIES, Unchanged(1), 2, ASK.mechanism, "00", "votes", "r-1")
    teachers = TeacherAsk(np.zeros((5, 2)), ("a", "b"), LNMax(1, 5), "votes", "r-1")
    several = replace(ASK, labels=2, mechanism=DiscreteLaplaceNoise(4, 8))
    person, replaced, added = Unit.person("patient", 3), Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
    assert ASK.sensitivity(Unit(), added) == vote_sensitivity(2, 2, 1, replace=False)
    assert ASK.sensitivity(person, replaced) == vote_sensitivity(2, 2, 1, records=3)
    assert several.sensitivity(Unit(), replaced) == vote_sensitivity(2, 2, 1, labels=2, voters=True)
    assert party.sensitivity(Unit(), replaced) == vote_sensitivity(2, 2, 1)
    assert teachers.sensitivity(person, replaced).l1 == 10
    assert table_shape(several) == (2, 3)
    assert table_shape(teachers) == (5, 2)
    with pytest.raises(InvalidInput, match="whole holder"):
        ASK.sensitivity(Unit.whole_holder(), replaced)
    with pytest.raises(InvalidInput, match="all records in one place"):
        replace(ASK, voting_rule="max-min").sensitivity(Unit(), replaced)
    with pytest.raises(InvalidInput, match="not answered by a table"):
        table_shape(LabelAsk(np.zeros((1, 2)), None, None, (), "p", "r"))


def test_tables_are_read_strictly():
    assert read_sealed_table(np.arange(4).tobytes(), (2, 2), 3, 6).tolist() == [[0, 1], [2, 3]]
    for content in (b"", np.arange(3).tobytes(), np.arange(5).tobytes()):
        with pytest.raises(InvalidInput, match="must have 32 bytes"):
            read_sealed_table(content, (2, 2), 3, 6)
    assert read_sealed_table(np.arange(4).tobytes(), (2, 2), 2, 6).tolist() == [[0, 1], [2, 2]]
    assert read_sealed_table(np.full(4, 2**62).tobytes(), (2, 2), 2**40, 10).sum() <= 10


def test_boxes_of_all_tables_are_equally_long():
    sealed = SealedTable(ASK.mechanism, "s", lambda content: np.frombuffer(content, dtype=np.uint8))
    sizes = {len(sealed.sample(np.full((2, 2), count), None)) for count in (0, 1, 10**9)}
    assert sizes == {32}
    assert repr(sealed) == repr(SealedTable(ASK.mechanism, "s", len))
    assert sealed.spend.epsilon == Fraction(1)


def test_a_real_curator_process(tmp_path):
    leading, identities = SigningIdentity.new(), {name: SigningIdentity.new() for name in NAMES}
    SigningIdentity.from_secret(SECRET).write(tmp_path / "sealing.key")
    SqliteLedger.create(tmp_path / "curator.ledger", {"curator": Ceiling(1)}).close()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    lines = [
        f'port = {port}\nstate = "curator.db"\nsealing = "sealing.key"\nledger = "curator.ledger"',
        f'account = "curator"\ncoordinator = "{leading.public.hex()}"\n[nodes]',
        *(f'{name} = "{each.public.hex()}"' for name, each in identities.items()),
    ]
    (tmp_path / "curator.toml").write_text("\n".join(lines))
    command = [*TACIT, "federation", "curator", str(tmp_path / "curator.toml")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().startswith("ready at http://127.0.0.1")
        address = Address(f"http://127.0.0.1:{port}", timeout=20)
        open_batch(address, leading, BATCH)
        for name in NAMES:
            submit(address, identities[name], name, BATCH, handed_in(name))
        first = collect(address, leading, BATCH)
        assert read_curated(first, BATCH, ASK)[0].value.tolist() == [0, 1]
        # A second question is more than the curator's own account can pay.
        ask = replace(ASK, request="r-2")
        batch = plan_tables(ask, "run", 1, NAMES, KEY, minimum=2, largest=1000)
        open_batch(address, leading, batch)
        for name in NAMES:
            submit(address, identities[name], name, batch, handed_in(name, batch, ask))
        with pytest.raises(Exception, match="account cannot pay"):
            collect(address, leading, batch)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    with SqliteLedger(tmp_path / "curator.ledger") as ledger:
        assert ledger.balance("curator").spent.epsilon == 1
    broken = (tmp_path / "curator.toml").read_text().replace('account = "curator"', "")
    (tmp_path / "curator.toml").write_text(broken)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "needs its sealing key" in ended.stderr


def test_a_curator_that_was_killed_after_it_had_paid_releases_the_same_and_pays_nothing():
    trusted = curator()
    first = trusted(BATCH, [handed_in(name) for name in NAMES[:2]])
    # Nothing was written down but the ledger, and one more table has come since.
    again = trusted(BATCH, [handed_in(name) for name in NAMES])
    one, other = (read_curated(each.content, BATCH, ASK)[0] for each in (first, again))
    assert np.array_equal(one.value, other.value)
    assert one.receipts == other.receipts
    assert trusted._gate._ledger.balance("curator").spent.epsilon == 1


def test_one_payment_of_the_curator_is_for_one_batch():
    """Other tables under the same request would be another release."""
    trusted = curator(ceiling=10)
    trusted(BATCH, [handed_in(name) for name in NAMES])
    other = plan_tables(ASK, "another run", 0, NAMES, KEY, minimum=2, largest=1000)
    with pytest.raises(RequestConflict):
        trusted(other, [handed_in(name, batch=other) for name in NAMES])


def test_a_batch_whose_question_is_none_for_a_curator_is_refused_in_words():
    told = ask_to_bytes(Feedback(0, np.arange(2), np.zeros((2, 2), dtype=np.float32)))
    with pytest.raises(InvalidInput, match="Feedback is not answered by a table"):
        curator().check(replace(BATCH, ask=told))
