"""What a coordinator sees of a curator depends on the question, on who handed in and on what was released."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.core.account import Ceiling
from tacit.core.codec import decode
from tacit.core.errors import InvalidInput, TacitError
from tacit.core.randomness import SeededRandomness
from tacit.federation.collector import curator as curating
from tacit.federation.collector.batches import plan_tables, read_curated
from tacit.federation.collector.curator import Curator, open_curator
from tacit.federation.collector.messages import SignedMessage, Submission, SubmissionRefusal
from tacit.federation.collector.submission_store import COORDINATOR
from tacit.federation.keys import SigningIdentity, public_key, seal
from tacit.ledger.account import Bound, PolicyLimits
from tacit.ledger.memory import MemoryLedger
from tacit.mechanisms.central.counts import read_sealed_table
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.methods.fedmd.wire import PartyVoteAsk
from tacit.methods.pate.wire import TeacherAsk
from tacit.methods.rknn.wire import VoteAsk
from tacit.private.gate import Gate
from tacit.representations.scaled import Identity as Unchanged

SECRET = b"s" * 32
KEY = public_key(SECRET)
NAMES = ("ada", "bob", "cyd")
QUERIES = np.array([[0.0], [9.0]], dtype=np.float32)
ASK = VoteAsk(QUERIES, Unchanged(1), 1, ("a", "b"), "", DiscreteLaplaceNoise.for_epsilon("1/10", 2), "votes", "r-1")


def batch_of(largest, ask=ASK):
    return plan_tables(ask, "run", 0, NAMES, KEY, minimum=2, largest=largest)


def sealed(batch, counts, key=KEY):
    content = np.asarray(counts, dtype=np.int64).tobytes()
    return Submission(1, np.frombuffer(seal(key, content, batch.digest), dtype=np.uint8)[None])


def seen(batch, tables, ceiling=1, **more):
    """All that the coordinator gets to see but for the released value, and what was charged."""
    ledger = MemoryLedger({"curator": Ceiling(ceiling)})
    made = Curator(SECRET, ledger, "curator", SeededRandomness(7), **more)
    try:
        outcome = made(batch, [sealed(batch, each) for each in tables])
    except TacitError as refused:
        kind = type(refused).__name__
    else:
        said = decode(outcome.content)
        kind = {name: value for name, value in said.items() if name not in ("batch", "release")}, len(said["release"])
    return kind, ledger.balance("curator").payments


def test_bisecting_the_largest_count_reads_nothing():
    """Once a table with a count above the asker's limit was left out, and how many were was said without noise."""
    secret = 137
    tables = [[[secret, 0], [3, 4]], [[1, 1], [1, 1]], [[0, 2], [1, 0]]]
    low, high = 1, 1000
    first = seen(batch_of(high), tables)
    while low < high:
        middle = (low + high) // 2
        now = seen(batch_of(middle), tables)
        # Only the width of the numbers follows from the asker's own limit.
        assert now[0][0] == first[0][0]
        assert now[1] == first[1]
        # An attacker would go down where nothing was left out; every answer is the same, so it has to guess.
        low, high = (low, middle) if now[0][0].get("unreadable", 0) == 0 else (middle + 1, high)
    assert high != secret


@pytest.mark.parametrize("largest", [1, 136, 137, 1000])
@pytest.mark.parametrize("ceiling", [1, "1/100"])
def test_neighboring_tables_look_alike_whatever_the_asker_says(largest, ceiling):
    tables = [[[count, 0], [3, 4]] for count in (136, 137, -5, 2**62)]
    views = {repr(seen(batch_of(largest), [each, [[1, 1], [1, 1]]], ceiling)) for each in tables}
    assert len(views) == 1


@pytest.mark.parametrize("largest", [20, 40])
def test_counts_are_brought_into_the_curators_own_limits(largest):
    release = DiscreteLaplaceNoise("1/50", 2)
    ask = replace(ASK, mechanism=release)
    batch = batch_of(1, ask)
    ledger = MemoryLedger({"curator": Ceiling(1000)})
    made = Curator(SECRET, ledger, "curator", SeededRandomness(7), records=40)
    wide = replace(batch, largest=largest)
    outcome = made(wide, [sealed(wide, [[90, -3], [0, 7]]), sealed(wide, [[1, 1], [1, 1]])])
    # 90 becomes 40; 47 in all are more than 40 records can vote, and shrink in proportion.
    value, nodes = read_curated(outcome.content, wide, ask)
    assert (value.value.tolist(), nodes) == ([[40 * 40 // 47 + 1, 1], [1, 7 * 40 // 47 + 1]], 2)


def test_nothing_is_opened_before_it_is_paid_for(monkeypatch):
    """And from there nothing is refused."""
    opened = []

    def unseal(secret, piece, context):
        opened.append(context)
        raise RuntimeError("a table that says something")

    monkeypatch.setattr(curating, "unseal", unseal)
    tables = [[[1, 0], [0, 1]]] * 2
    assert seen(batch_of(10), tables, "1/100") == ("BudgetExceeded", 0)
    assert not opened
    kind, payments = seen(batch_of(10), tables)
    assert opened
    assert (kind[0]["nodes"], payments) == (2, 1)


def test_what_cannot_be_opened_counts_nothing_and_is_not_told():
    batch = batch_of(10)
    spoiled = [
        Submission(1, np.zeros((1, batch.size), dtype=np.uint8)),
        sealed(replace(batch, run="another"), [[9, 9], [9, 9]]),
        sealed(batch, [[9, 9], [9, 9]], public_key(b"t" * 32)),
    ]
    views = []
    for extra in ([], spoiled[:1], spoiled[1:2], spoiled[2:]):
        ledger = MemoryLedger({"curator": Ceiling(1)})
        made = Curator(SECRET, ledger, "curator", SeededRandomness(7))
        own = [sealed(batch, [[5, 0], [0, 5]]) for _ in range(3 - len(extra))]
        views.append(decode(made(batch, [*own, *extra]).content)["nodes"])
    assert views == [3, 3, 3, 3]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"largest": 41}, "up to 40"),
        ({"size": 100}, "boxes does not fit"),
        ({"request": "r-2"}, "different requests"),
        ({"key": public_key(b"t" * 32)}, "another key"),
    ],
)
def test_a_batch_that_cannot_be_released_is_refused_when_it_is_opened(wrong, named, tmp_path):
    batch = replace(batch_of(40), **wrong)
    made = Curator(SECRET, MemoryLedger({"curator": Ceiling(1)}), "curator", records=40)
    with pytest.raises(InvalidInput, match=named):
        made.check(batch)
    leading, ada = SigningIdentity.new(), SigningIdentity.new()
    with open_curator(tmp_path / "curator.db", leading.public, dict.fromkeys(NAMES, ada.public), made) as office:
        opening = SignedMessage.signed(leading, "open", "run", 0, batch.digest, COORDINATOR, batch.to_bytes())
        assert decode(office.handle(opening.to_bytes())) == {"refused": str(SubmissionRefusal.FAILED)}
    with pytest.raises(InvalidInput, match="at least 1"):
        Curator(SECRET, MemoryLedger({"curator": Ceiling(1)}), "curator", records=0)


@pytest.mark.parametrize(
    "mechanism", [GeneralizedRandomizedResponse(4, 1, "1/10"), DistributedLaplace(2, 2, 4, 3, 2, 1000)]
)
def test_a_curator_puts_no_mechanism_of_another_place_on_the_sum(mechanism):
    made = Curator(SECRET, MemoryLedger({"curator": Ceiling(1)}), "curator")
    with pytest.raises(InvalidInput, match=f"a curator of records' votes .* {type(mechanism).__name__}; it knows"):
        made.check(batch_of(10, replace(ASK, mechanism=mechanism)))


def test_what_a_table_can_come_to_at_most():
    several = replace(ASK, labels=2, neighbors=2, mechanism=DiscreteLaplaceNoise(4, 8))
    party = PartyVoteAsk(QUERIES, Unchanged(1), 2, ASK.mechanism, "00", "votes", "r-1")
    teachers = TeacherAsk(np.zeros((5, 2)), ("a", "b"), None, "votes", "r-1")
    assert ASK.most_votes(10) == (10, 10)
    assert several.most_votes(10) == (10, 60)
    assert party.most_votes(10) == (10, 10)
    assert teachers.most_votes(10) == (1, 5)
    assert teachers.most_votes(10, holders=4) == (4, 20)
    # By the published rules a record may vote for more than its nearest queries.
    assert replace(ASK, voting_rule="max-min").most_votes(10) is None


def test_single_counts_brought_into_a_range_move_no_further_apart():
    """All neighbors of all small tables, within the total: what the gate was told of the sum stays true."""
    for first in np.ndindex(4, 4):
        for second in np.ndindex(4, 4):
            one, other = (read_sealed_table(np.array([[a, b]]).tobytes(), (1, 2), 2, 4) for a, b in (first, second))
            assert abs(one - other).sum() <= sum(abs(a - b) for a, b in zip(first, second, strict=True))


def test_the_gate_is_told_the_sensitivity_of_the_question(monkeypatch):
    told = []
    release = Gate.release

    def spying(self, value, empty, sensitivity, *rest):
        told.append(sensitivity)
        return release(self, value, empty, sensitivity, *rest)

    monkeypatch.setattr(Gate, "release", spying)
    seen(batch_of(10), [[[1, 0], [0, 1]]] * 2)
    assert told[0].l1 == 2


def test_a_curator_keeps_the_limits_of_its_policy():
    """A node had limits per question, purpose and day, and a curator's whole budget could go at once."""
    batch = batch_of(10)
    counts = [[[1, 0], [0, 1]]] * 2
    for limits, kind in (
        (PolicyLimits(question=Bound(Fraction(1, 20))), "LimitExceeded"),
        (PolicyLimits(questions=1, purposes=("labels",)), "InvalidInput"),
    ):
        assert seen(batch, counts, limits=limits) == (kind, 0)
    assert seen(batch, counts, limits=PolicyLimits(questions=1, purposes=("votes",)))[1] == 1


def test_the_second_batch_of_a_day_is_refused_in_a_closed_word(tmp_path, caplog):
    limits = PolicyLimits(questions=1)
    coordinator, ada, bob = (SigningIdentity.new() for _ in range(3))
    ledger = MemoryLedger({"curator": Ceiling(1)})
    made = Curator(SECRET, ledger, "curator", SeededRandomness(7), limits=limits)
    store = open_curator(tmp_path / "curator.db", coordinator.public, {"ada": ada.public, "bob": bob.public}, made)
    said = []
    for place in range(2):
        ask = replace(ASK, request=f"r-{place}")
        batch = plan_tables(ask, "run", place, ("ada", "bob"), KEY, minimum=2, largest=10)

        def send(kind, name, identity, body, batch=batch):
            message = SignedMessage.signed(identity, kind, batch.run, batch.round, batch.digest, name, body)
            return store.handle(message.to_bytes())

        send("open", COORDINATOR, coordinator, batch.to_bytes())
        for name, identity in (("ada", ada), ("bob", bob)):
            send("submit", name, identity, sealed(batch, [[1, 0], [0, 1]]).to_bytes())
        said.append(send("collect", COORDINATOR, coordinator, b""))
    assert SubmissionRefusal.SPENT.encode() in said[1]
    assert SubmissionRefusal.SPENT.encode() not in said[0]
    assert ledger.balance("curator").payments == 1
    assert "1 question per day" in caplog.text
    store.close()
