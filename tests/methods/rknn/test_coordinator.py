"""Reverse k-NN: what the holder answers, what the coordinator makes of it."""

import numpy as np
import pytest

import tacit
from tacit.core.account import Ceiling
from tacit.core.errors import InvalidInput, RequestConflict, ToleranceExceeded
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.randomness import SeededRandomness
from tacit.core.sensitivity import Sensitivity, vote_sensitivity
from tacit.core.spend import FREE
from tacit.ledger.memory import MemoryLedger
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.mechanisms.choices import choose
from tacit.methods.rknn.choice import choose_mechanism
from tacit.methods.rknn.coordinator import Round, VoteCoordinator
from tacit.methods.rknn.holder import OneRecordHolders, VoteHolder
from tacit.methods.rknn.queries import Clusters, cluster, margins, suggest_queries
from tacit.methods.rknn.reading import LabelReader
from tacit.methods.rknn.wire import VoteAsk
from tacit.private.gate import Gate
from tacit.private.partition import split_by_class, split_by_dirichlet, split_by_owner, split_evenly
from tacit.private.records import Private, Records
from tacit.representations.registry import fit_representation
from tacit.representations.scaled import Identity
from tacit.runs.drive import drive
from tests.local_exchange import local_exchange

PARTS = tacit.digits()
LABELS = PARTS.private_labels.astype(np.int64)
QUERIES = cluster(PARTS.public_samples.astype(np.float32), 30).centers
# What needs no extra; the others have tests of their own.
QUICK = ["gradients", "handwriting", "identity", "pca", "spectral", "standardized"]


# Noise that vanishes, at an absurd price: lets a test see the counts.
EXACT = DiscreteLaplaceNoise("1e-6", 100)
BOTTOMLESS = Ceiling(10**12)
NAMES = tuple(map(str, range(10)))


class Free:
    """A mechanism that claims to cost nothing, as a dishonest coordinator might send it."""

    spend = FREE
    max_sensitivity = Sensitivity()

    def sample(self, value, randomness):
        return value


def ask(mechanism, queries=QUERIES, neighbors=1, request="r-1", names=NAMES):
    return VoteAsk(queries, Identity(64), neighbors, names, "space", mechanism, "labels", request)


def holder(parts=None, ceiling=None, seed=1):
    gate = Gate(MemoryLedger({"clinic": ceiling or Ceiling(1)}), "clinic", SeededRandomness(seed))
    rows = parts or [np.arange(1000)]
    persons = np.arange(1000) // gate.unit.records
    return VoteHolder(
        [Private(Records(PARTS.private_samples[each], LABELS[each], persons[each])) for each in rows], gate
    )


@pytest.mark.parametrize("neighbors", [1, 3])
@pytest.mark.parametrize(
    "parts",
    [
        split_evenly(1000, 10),
        split_evenly(1000, 1000),
        split_by_class(LABELS, 10),
        split_by_dirichlet(LABELS, 30, 0.1),
        split_by_owner(np.arange(1000) % 7),
    ],
    ids=["10", "1000", "class", "dirichlet", "owner"],
)
def test_counts_are_exactly_the_same_for_every_split(parts, neighbors):
    whole = holder(ceiling=BOTTOMLESS).answer(ask(EXACT, neighbors=neighbors)).value
    spread = holder([rows for rows in parts if len(rows)], BOTTOMLESS).answer(ask(EXACT, neighbors=neighbors)).value
    assert np.array_equal(whole, spread)
    assert whole.sum() == 1000 * neighbors


@pytest.mark.parametrize("name", QUICK)
def test_one_record_moves_the_counts_as_far_as_claimed_and_no_further(name):
    """Raw integer pixels, where distances tie, through the whole holder, on both sides of every batch size."""
    fitted = fit_representation(name, PARTS.public_samples, 30)[1]
    queries = cluster(fitted.encode(PARTS.public_samples), 20).centers

    def counts(rows):
        question = VoteAsk(queries, fitted, 1, NAMES, "", EXACT, "labels", "r-1")
        return holder([rows], BOTTOMLESS).answer(question).value

    for size in (499, 500, 999):
        fewer, more = counts(np.arange(size)), counts(np.arange(size + 1))
        assert abs(more - fewer).sum() == 1
        replaced = counts(np.append(np.arange(size - 1), 999 if size < 999 else 998))
        assert abs(replaced - fewer).sum() <= 2
    whole = counts(np.arange(1000))
    assert np.array_equal(whole, sum(counts(rows) for rows in split_evenly(1000, 7)))


def test_a_record_votes_for_its_nearest_queries():
    counts = holder([np.array([5])], BOTTOMLESS).answer(ask(EXACT, neighbors=2)).value
    distances = ((QUERIES - PARTS.private_samples[5]) ** 2).sum(axis=1)
    assert sorted(np.flatnonzero(counts[:, LABELS[5]])) == sorted(np.argsort(distances)[:2])


@pytest.mark.parametrize(
    "ceiling",
    [Ceiling(1, unit=Unit.person("patient", 3)), Ceiling(1)],
)
def test_the_accounts_unit_rules_whatever_the_coordinator_asks(ceiling):
    sensitivity = vote_sensitivity(30, 10, 1, records=ceiling.unit.records)
    enough = PermuteAndFlip.for_epsilon(1, int(sensitivity.row_range))
    assert holder(ceiling=ceiling).answer(ask(enough)).value.shape == (30,)
    with pytest.raises(ToleranceExceeded, match="row_range"):
        holder(ceiling=ceiling).answer(ask(PermuteAndFlip.for_epsilon(1, int(sensitivity.row_range) - 1)))


def test_add_remove_needs_half_the_noise():
    ceiling = Ceiling(1, adjacency=Adjacency.ADD_REMOVE)
    assert holder(ceiling=ceiling).answer(ask(PermuteAndFlip.for_epsilon(1, 1))).value.shape == (30,)


def test_a_mechanism_of_somebody_else_is_refused():
    with pytest.raises(InvalidInput, match="does not answer through Free"):
        holder().answer(ask(Free()))
    with pytest.raises(ToleranceExceeded, match="every private release has a cost"):
        Gate(MemoryLedger({"a": Ceiling(1)}), "a").release(Private(1), lambda: 0, Sensitivity(), Free(), "labels", "r")


def test_a_question_about_another_kind_of_sample_is_refused_before_payment():
    ledger = MemoryLedger({"clinic": Ceiling(1)})
    question = ask(PermuteAndFlip.for_epsilon(1, 2), QUERIES[:, :9])
    with pytest.raises(InvalidInput, match="samples of a different kind; nothing was charged") as caught:
        VoteHolder([Private(Records(PARTS.private_samples, LABELS))], Gate(ledger, "clinic")).answer(question)
    assert caught.value.__cause__ is None
    assert ledger.balance("clinic").payments == 0


def test_labels_that_are_not_asked_about_are_empty_votes():
    ledger = MemoryLedger({"clinic": Ceiling(10**6)})
    question = ask(DiscreteLaplaceNoise.for_epsilon(10**6, 2), names=("0", "1"))
    samples = PARTS.private_samples
    said = VoteHolder([Private(Records(samples, LABELS))], Gate(ledger, "clinic")).answer(question)
    assert said.value.sum() == (LABELS < 2).sum()


@pytest.mark.parametrize("split", [[1000], [500, 500], [1, 999]])
def test_of_a_person_no_more_records_are_counted_than_the_unit_has(split):
    """Whoever loads records may forget to bound them; the holder does not."""
    gate = Gate(MemoryLedger({"a": Ceiling(10**6, unit=Unit.person("patient", 2))}), "a")
    whole = Records(PARTS.private_samples, LABELS, np.arange(1000) // 5)
    ends = np.cumsum(split)
    parts = [Private(whole.take(np.arange(end - size, end))) for size, end in zip(split, ends, strict=True)]
    said = VoteHolder(parts, gate).answer(ask(DiscreteLaplaceNoise.for_epsilon(10**6, 4)))
    assert said.value.sum() == 400
    with pytest.raises(InvalidInput, match="needs its person column"):
        VoteHolder([Private(Records(PARTS.private_samples, LABELS))], gate)


def test_a_request_id_does_not_cover_other_queries():
    same = holder()
    same.answer(ask(PermuteAndFlip.for_epsilon(1, 2)))
    with pytest.raises(RequestConflict):
        same.answer(ask(PermuteAndFlip.for_epsilon(1, 2), queries=QUERIES + 1))
    with pytest.raises(RequestConflict):
        same.answer(ask(PermuteAndFlip.for_epsilon(1, 2), names=NAMES[::-1]))


def coordinator(**options):
    asked = Round(30, PermuteAndFlip.for_epsilon(1, 2), LabelReader())
    given = {"public": PARTS.public_samples, "representation": Identity(64), "rounds": [asked], "neighbors": 1,
             "names": range(10), "request": "r"}  # fmt: skip
    return VoteCoordinator(**(given | options))


def test_the_loop_ends_with_labels_and_their_receipt():
    release = drive(coordinator(), local_exchange([holder()]))
    assert release.value.labels.shape == (500,)
    assert release.value.probabilities is None
    assert len(release.receipts) == 1


def test_a_coordinator_refuses_what_makes_no_sense():
    with pytest.raises(InvalidInput, match="neighbors must be at most"):
        coordinator(neighbors=31)
    state = coordinator().begin()
    with pytest.raises(InvalidInput, match="not answered yet"):
        coordinator().result(state)
    with pytest.raises(InvalidInput, match="expects one answer"):
        coordinator().fold(state, [])


def test_a_holder_needs_records():
    with pytest.raises(InvalidInput, match="at least one set"):
        VoteHolder([], Gate(MemoryLedger({"a": Ceiling(1)}), "a"))


@pytest.mark.parametrize("neighbors", [1, 2])
def test_a_crowds_messages_decode_to_the_votes(neighbors):
    """At a huge ε nothing is randomized away: the decoded counts are the exact ones, whatever the mechanism."""
    exact = holder(ceiling=BOTTOMLESS).answer(ask(EXACT, neighbors=neighbors)).value
    for alternative in choose(300, neighbors, 40).alternatives:
        if alternative.name == "discrete Laplace":
            continue  # its noise never vanishes altogether
        gate = Gate(MemoryLedger({"each": Ceiling(40)}), "each", SeededRandomness(2))
        crowd = OneRecordHolders([Private(Records(PARTS.private_samples, LABELS))], gate)
        released = crowd.answer(ask(alternative.mechanism, neighbors=neighbors))
        counts = alternative.mechanism.decode(released.value).counts.reshape(30, 10)
        assert abs(counts - exact).max() < 40, alternative.name


def test_a_crowd_is_of_one_record_holders():
    gate = Gate(MemoryLedger({"a": Ceiling(1, unit=Unit.person("patient", 2))}), "a")
    with pytest.raises(InvalidInput, match="one record"):
        OneRecordHolders([Private(Records(PARTS.private_samples, LABELS))], gate)
    with pytest.raises(InvalidInput, match="at least one holder"):
        OneRecordHolders([], Gate(MemoryLedger({"a": Ceiling(1)}), "a"))


def test_margins_lie_between_a_border_and_a_center():
    public = PARTS.public_samples.astype(np.float32)
    groups = cluster(public, 30)
    values = margins(public, groups, np.arange(30) % 10)
    assert values.min() >= 0
    assert values.max() <= 1
    assert margins(public, groups, np.zeros(30, dtype=int)).tolist() == [1] * 500
    at_center = Clusters(groups.centers, np.arange(30))
    assert np.allclose(margins(groups.centers, at_center, np.arange(30) % 10), 1)


@pytest.mark.parametrize(
    ("epsilon", "delta", "neighbors", "name"),
    [
        (1, 0, 1, "permute-and-flip"),
        (1, 1e-5, 3, "permute-and-flip"),
        (1, 1e-5, 4, "gaussian"),
        (0.1, 1e-5, 2, "permute-and-flip"),
        (0.1, 1e-5, 3, "gaussian"),
        (4, 1e-5, 4, "permute-and-flip"),
        (4, 1e-5, 5, "gaussian"),
        (1, 1e-8, 6, "permute-and-flip"),
        (1, 1e-8, 7, "gaussian"),
    ],
)
def test_the_choice_follows_the_rule_of_the_reference_page(epsilon, delta, neighbors, name):
    """Mathematics 2: Gaussian when kT exceeds about 2.3 (ε = .1), 3.4 (1), 4.5 (4), and 6.3 at δ = 1e-8."""
    from tacit.core.rational import exact

    sensitivity = vote_sensitivity(100, 10, neighbors)
    assert choose_mechanism(sensitivity, 10, exact(epsilon), exact(delta)).name == name


def test_the_number_of_queries_stays_sensible():
    assert suggest_queries(records=10, public=400, classes=10, neighbors=1, gap=12) == 10
    assert suggest_queries(records=10**7, public=400, classes=10, neighbors=1, gap=12) == 80
    assert suggest_queries(records=10**7, public=10**6, classes=10, neighbors=1, gap=12) == 1000
    assert suggest_queries(records=100, public=4, classes=10, neighbors=1, gap=12) == 4


def test_clusters_need_distinct_samples():
    with pytest.raises(InvalidInput, match="3 distinct public samples"):
        cluster(np.array([[0.0], [1.0], [1.0], [2.0]], dtype=np.float32), 4)


# A holder's own cache


def test_encodings_of_records_are_kept_only_where_the_holder_says_so(tmp_path, monkeypatch):
    def run(**settings):
        given = (PARTS.private_samples, PARTS.private_labels)
        return tacit.distill(given, PARTS.public_samples, 1, classes=range(10), seed=3, **settings)

    monkeypatch.chdir(tmp_path)
    plain = run()
    assert not list(tmp_path.iterdir())
    kept = run(private_cache="mine")
    files = sorted((tmp_path / "mine").iterdir())
    assert files
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)
    again = run(private_cache="mine")
    assert sorted((tmp_path / "mine").iterdir()) == files
    for other in (kept, again):
        assert np.array_equal(other.labels, plain.labels)


def test_a_view_that_cannot_be_named_is_computed_and_not_kept(tmp_path):
    """The student of a second round has no plain parameters: a cache must not end a run that was paid for."""
    given = (PARTS.private_samples, PARTS.private_labels)
    settings = {"classes": range(10), "seed": 3, "iterations": 2, "queries": 20}
    cached = tacit.distill(given, PARTS.public_samples, 4, private_cache=tmp_path / "mine", **settings)
    assert np.array_equal(cached.labels, tacit.distill(given, PARTS.public_samples, 4, **settings).labels)


def test_a_cache_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="file: the cache folder cannot be made"):
        tacit.distill(
            (PARTS.private_samples, PARTS.private_labels), PARTS.public_samples, 1, private_cache=tmp_path / "file"
        )
