"""What one node of a federation can do to the result, and what it cannot do unnoticed."""

import dataclasses
import math

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tacit.core.errors import InvalidInput, TacitError, TacitWarning, TooFewParticipants
from tacit.core.randomness import SeededRandomness
from tacit.datasets.published import digits
from tacit.federation.coordinator import FAILURE, RoundPolicy, implausible
from tacit.federation.flower.client import InProcessGrid, client_app, contexts
from tacit.federation.flower.server import FlowerExchange
from tacit.federation.flower.summed import FlowerMasked
from tacit.federation.node.node import Node
from tacit.ledger.policy import Rules
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.pate import GNMax, LNMax
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.methods.privatekt.wire import LabelAsk
from tacit.methods.rknn.posterior import Noise
from tacit.methods.rknn.reading import PooledReader, added, robustly_added
from tacit.methods.rknn.wire import VoteAsk
from tacit.representations.scaled import Identity
from tacit.runs.federation import JOB_EXAMPLE, read_job
from tests.federation.federation import federated, masking_nodes, nodes
from tests.local_exchange import local_exchange

SETTINGS = {"classes": range(10), "nodes": 4, "records": 1000, "queries": 12, "request": "r"}
PUBLIC, TRUTH = digits().public_samples, digits().public_labels


def right(run):
    return float(np.mean(run.labels.astype(int) == TRUTH))


class Lying(Node):
    """Pays as an honest node does, and says something else. ``lie`` makes it of what the gate let out."""

    lie = staticmethod(lambda value: value)

    def _answer(self, ask):
        return super()._answer(ask).map(self.lie)


def with_liar(made, lie):
    kind = type("Liar", (Lying,), {"lie": staticmethod(lie)})
    own = {field.name: getattr(made[0], field.name) for field in dataclasses.fields(made[0])}
    return [kind(**own), *made[1:]]


def all_votes_for_seven(table):
    """Within its range: a table of a node with up to 1000 records."""
    lie = np.zeros_like(table)
    lie[:, 7] = 1000 // len(table)
    return lie


def grid_over(made):
    app = client_app(lambda context: made[context.node_config["partition-id"]])
    return InProcessGrid(app, contexts(len(made), [each.name for each in made]))


# Nodes that answer separately


@pytest.mark.parametrize("robust", ["median", "trimmed"])
def test_one_node_of_four_no_longer_decides_under_a_robust_rule(robust):
    def labeled(made, rule):
        return federated(local_exchange(made), PUBLIC, "4", robust=rule, **SETTINGS)

    honest, liars = nodes(4, ceiling=8), with_liar(nodes(4, ceiling=8), all_votes_for_seven)
    with pytest.warns(TacitWarning, match="all labels are the same"):
        plain = labeled(liars, None)
    # One of four turns every label into its own.
    assert set(plain.labels.astype(int)) == {7}
    robustly = labeled(with_liar(nodes(4, ceiling=8), all_votes_for_seven), robust)
    assert right(robustly) > 0.6
    assert right(robustly) > right(labeled(honest, None)) - 0.2
    # It is made of releases: what was paid is the same.
    assert [each.spend for each in robustly.receipts] == [each.spend for each in plain.receipts]
    assert (robustly.recipe["options"]["robust"], plain.recipe["options"]["robust"]) == (robust, None)


def test_a_robust_rule_for_teachers():
    rules = Rules(("pate",), ("DiscreteLaplaceNoise",), ("PATE votes",), 1)

    def lie(table):
        table = np.zeros_like(table)
        table[:, 7] = 1000
        return table

    def taught(robust):
        made = with_liar(nodes(5, rules=rules, ceiling=1000), lie)
        settings = {"classes": range(10), "nodes": 5, "queries": 40, "trust": "local", "request": "r"}
        return federated(local_exchange(made), PUBLIC, 400, method="pate", robust=robust, **settings)

    with pytest.warns(TacitWarning, match="all labels are the same"):
        assert set(taught(None).labels.astype(int)) == {7}
    median = taught("median")
    assert np.mean(median.query_labels.astype(int) == TRUTH[:40]) > 0.7
    assert (median.labels[:40] == median.query_labels).all()


def test_a_robust_rule_needs_tables_that_can_be_compared():
    for trust in ("masked", "shuffle", "central"):
        with pytest.raises(InvalidInput, match="local trust"):
            federated(None, PUBLIC, robust="median", trust=trust, **SETTINGS)
    with pytest.raises(InvalidInput, match="robust needs local trust"):
        federated(None, PUBLIC, robust="median", holders="records", **SETTINGS)
    with pytest.raises(InvalidInput, match="robust must be one of median, trimmed"):
        federated(None, PUBLIC, robust="mode", **SETTINGS)
    with pytest.raises(InvalidInput, match="local trust"):
        federated(None, PUBLIC, 1, method="pate", trust="masked", robust="median", **SETTINGS)
    with pytest.raises(InvalidInput, match="at least 3 nodes, got 2"):
        robustly_added("median", [np.zeros((1, 2), dtype=np.int64)] * 2)
    with pytest.raises(InvalidInput, match="different shapes"):
        robustly_added("median", [np.zeros((1, each), dtype=np.int64) for each in (1, 2, 2)])
    with pytest.raises(InvalidInput, match="robust must be"):
        robustly_added("mean", [])


def test_a_job_names_its_robust_rule(tmp_path):
    file = tmp_path / "job.toml"
    file.write_text(JOB_EXAMPLE + 'robust = "median"\n')
    assert read_job(file).options.robust == "median"
    for more in ('holders = "records"', 'trust = "masked"\npeers = "p"', 'method = "privatekt"', 'method = "fedmd"'):
        text = JOB_EXAMPLE.replace('method = "rknn"\n', "") if "method" in more else JOB_EXAMPLE
        file.write_text(text + f'robust = "trimmed"\n{more}\n')
        why = "unknown option 'robust'" if "method" in more else "robust needs"
        with pytest.raises(InvalidInput, match=f"{file.name}: {why}"):
            read_job(file)
    file.write_text(JOB_EXAMPLE)
    assert (read_job(file).terms.records, read_job(file).terms.all_records) == (1000, 1000)
    file.write_text(JOB_EXAMPLE + "node_records = 300\n")
    assert (read_job(file).terms.records, read_job(file).terms.all_records) == (300, None)


@pytest.mark.parametrize("rule", ["median", "trimmed"])
@pytest.mark.parametrize("count", [3, 4, 5, 9])
def test_a_minority_moves_a_cell_no_further_than_to_what_another_says(rule, count):
    rng = np.random.default_rng(3)
    honest = [rng.integers(0, 50, size=(4, 3)) for _ in range(count - 1)]
    for lie in (10**6, -(10**6)):
        found = robustly_added(rule, [*honest, np.full((4, 3), lie)]).counts
        assert (found >= count * np.min(honest, axis=0) - 1).all()
        assert (found <= count * np.max(honest, axis=0) + 1).all()


def test_equal_tables_are_added_up_as_they_are_and_noise_is_told_truly():
    table = np.arange(6).reshape(2, 3)
    for rule in ("median", "trimmed"):
        assert np.array_equal(robustly_added(rule, [table] * 5).counts, added([table] * 5).counts)
    reader = PooledReader(Noise("laplace", 1.0), 2.0)
    sure, less = (
        reader(each([np.array([[9, 4]])] * 5))[1][0, 0] for each in (added, lambda t: robustly_added("median", t))
    )
    assert less < sure
    # The stated variance is about that of the median of many noises.
    drawn = np.random.default_rng(1).normal(size=(4000, 101))
    found = np.array(
        [robustly_added("median", [np.rint(1000 * row)[:, None].astype(np.int64) for row in drawn.T]).counts]
    )
    ratio = found.var() / (101 * 10**6)
    assert 0.85 < ratio / robustly_added("median", [table] * 101).inflation < 1.15


# A table is bounded by what a node can have


def test_a_table_with_more_votes_than_a_node_has_records_is_dropped_and_named():
    def lie(table):
        more = np.zeros_like(table)
        more[:, 7] = 250
        return more

    terms = RoundPolicy(expected=4, at_least=3, deadline=5, grace=0.5, patience=0.5, records=250)
    exchange = FlowerExchange(grid_over(with_liar(nodes(4), lie)), "r", terms)
    run = federated(exchange, PUBLIC, "1", **SETTINGS)
    (turn,) = exchange.rounds
    assert turn.answered == ["site 1", "site 2", "site 3"]
    assert "its counts total 3000, and they can total from 0 to 250 and noise of" in turn.dropped["site 0"]
    assert right(run) > 0.4
    alone = dataclasses.replace(terms, at_least=4)
    with pytest.raises(TooFewParticipants, match="its counts total 3000"):
        federated(FlowerExchange(grid_over(with_liar(nodes(4), lie)), "r", alone), PUBLIC, "1", **SETTINGS)


# Sums under masks

SHARES = DistributedLaplace.for_epsilon(1, 2, 5, most=1000)
MASKED = VoteAsk(np.zeros((10, 2), dtype=np.float32), Identity(2), 1, ("a", "b"), "", SHARES, "votes", "r-1")


def totalling(total):
    table = np.zeros((10, 2), dtype=np.int64)
    table[0, 0] = total
    return table


def test_a_total_out_of_range_is_seen_and_one_within_it_cannot_be():
    """0 to 5,000 are possible; a single node moved 15 to 915 and to -31,060."""
    assert implausible(MASKED, totalling(15), 1000, holders=5) is None
    assert implausible(MASKED, totalling(915), 1000, holders=5) is None
    found = implausible(MASKED, totalling(-31_060), 1000, holders=5)
    assert found.startswith("its counts total -31060, and they can total from 0 to 5000 and noise of")
    assert implausible(MASKED, totalling(5500), 1000, holders=5) is not None
    # What is known of all nodes together is a closer bound.
    assert implausible(MASKED, totalling(915), 1000, holders=5, all_records=500) is not None
    wrong = totalling(2000)
    wrong[1, 1] = -1990
    assert implausible(MASKED, wrong, 1000, holders=5).startswith("it has a count of -1990")


def lying_masked(shift):
    made, peers = masking_nodes(5, seed=None, ceiling=2)

    def lie(masked):
        moved = masked.copy()
        moved.ravel()[0] += np.array(shift % 2**16).astype(moved.dtype)
        return moved

    terms = RoundPolicy(expected=5, at_least=4, deadline=5, grace=0.3, patience=0.3, records=1000)
    exchange = FlowerMasked(grid_over(with_liar(made, lie)), "r", terms, peers)
    return federated(exchange, PUBLIC, "1", trust="masked", **(SETTINGS | {"nodes": 5, "request": "r"}))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_masked_sum_out_of_range_ends_the_run_in_words():
    with pytest.raises(
        TacitError, match=r"cannot be right: its counts total -\d{5}.*one of site 0.*nobody can see"
    ) as ended:
        lying_masked(-31_060)
    assert not isinstance(ended.value, InvalidInput)
    # Within the range nobody sees it: that is what the documents say of masks.
    assert lying_masked(900).recipe["answered"] == 5


# How far noise goes


def test_noise_reaches_no_further_than_was_said():
    """Chernoff's bound is checked at a probability that samples can see."""
    rng, failure = SeededRandomness(5), 0.05
    for mechanism, cells, holders in (
        (DiscreteLaplaceNoise(3, 2), 1, 1),
        (DiscreteLaplaceNoise(3, 2), 4, 1),
        (DiscreteLaplaceNoise("1/3", 2), 30, 1),
        (DiscreteGaussianNoise(4, 2, True), 10, 1),
        (DistributedLaplace(3, 2, 5, 4, 3, 10), 10, 5),
    ):
        reach = mechanism.noise_reach(cells, holders, failure)
        sums = mechanism.sample(np.zeros((2000, cells), dtype=np.int64), rng).sum(axis=1)
        assert np.mean(abs(sums) > reach) <= failure
        assert reach < 12 * sums.std()


def test_the_bound_on_the_moment_generating_function_holds():
    for scale in (0.3, 1.0, 3.0, 40.0):
        for part in np.linspace(0.01, 1 / math.sqrt(2), 40):
            rate = part / scale
            discrete = (math.cosh(1 / scale) - 1) / (math.cosh(1 / scale) - math.cosh(rate))
            assert discrete <= 1 / (1 - part**2) * (1 + 1e-12)
            assert 1 / (1 - part**2) <= math.exp(2 * part**2) * (1 + 1e-12)


def test_only_noisy_counts_are_judged():
    labels = VoteAsk(MASKED.queries, Identity(2), 1, ("a", "b"), "", PermuteAndFlip.for_epsilon(1, 2), "votes", "r-1")
    assert implausible(labels, np.zeros(10, dtype=np.int64), 1000) is None
    assert implausible(LabelAsk(np.zeros((1, 2)), None, None, (), "p", "r"), np.zeros(1, dtype=np.int64), 10) is None
    published = dataclasses.replace(MASKED, voting_rule="max-min")
    assert implausible(published, totalling(10**9), 1000) is None
    assert "not a table" in implausible(MASKED, np.zeros((2, 2), dtype=np.int64), 1000)
    laplace = DiscreteLaplaceNoise(3, 2).noise_reach(10, 1, FAILURE)
    assert LNMax("1/3", 4).noise_reach(10, 1, FAILURE) == laplace
    assert GNMax(4, 4).noise_reach(10, 1, FAILURE) > 0
    assert PermuteAndFlip(1, 2).noise_reach(1, 1, FAILURE) is None
