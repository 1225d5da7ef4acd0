"""The rules by which a record chooses its queries: the nearest, a balanced rule, and two published rules.

By the nearest rule some queries get hundreds of votes, and others so few that noise decides.

**The balanced rule** gives every query an offset h, fitted on public samples so that queries would get about equal
numbers of them. A record votes for the k queries with the smallest |x−q|² + h(q)². Its votes depend on itself and on
public numbers alone, so the sensitivity is that of the nearest rule.

**The published rules** (appendix C of the paper that proposed reverse k-NN labels) choose the queries of all records
together, to maximize the smallest score ("max-min") or the harmonic mean of the scores ("harmonic"), where the score of
a query is the sum of the similarities of its records. The paper claims the same privacy guarantee as for reverse k-NN.
**That is false.** One changed record can change the votes of all the others; see ``published_sensitivity``. They are
here for study: with the true sensitivity, their noise is larger than all votes together, for any number of records.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import Floats, Integers, InvalidInput, Sensitivity, vote_sensitivity

__all__ = [
    "NEAREST",
    "PUBLISHED",
    "VOTING_RULES",
    "balanced_offsets",
    "published_sensitivity",
    "published_votes",
    "similarities",
]

NEAREST = "nearest"
PUBLISHED = ("max-min", "harmonic")
VOTING_RULES = (NEAREST, *PUBLISHED)

_ROUNDS, HALF_LIFE = 200, 10
# The most public samples for fitting offsets; more only cost memory.
MOST_SAMPLES = 10_000
# The published rules are integer programs: this many pairs take seconds to minutes, ten times as many take hours.
MOST_PAIRS = 1_000
# The relative gap of a solution to the optimum; proving optimality takes far longer.
_GAP = 1e-2


def balanced_offsets(public: Floats, centers: Floats, neighbors: int = 1, evenness: float = 1.0) -> Floats:
    """Offsets (s,) with which every query would get about the same number of public samples.

    Both arguments are in the representation's space. ``evenness`` 1 means equal numbers, 0.5 halfway between these and
    those of the nearest rule. The squared offsets are the dual prices of an assignment with these numbers as
    capacities, found by raising the price of a query with too many samples and lowering that of one with too few, in
    decreasing steps; the best prices are returned. Only public numbers are used.

    It costs no privacy, but a record may vote for a query farther away with another label. Measured on one split of
    MNIST: with cluster centers as queries, full evenness gave fewer right labels at every ε tried, and halfway evenness
    in 16 of 18 settings, since queries with few votes label few samples. With 400 public samples as queries and strong
    noise (ε = 0.3), halfway evenness increased the right labels from 85 % to 89 %; without noise it always decreased
    them. So the nearest rule is the default. The fewer public samples a query has, the less even the records are.

    >>> public = np.array([[0.0], [0.1], [0.2], [1.0]], dtype=np.float32)
    >>> centers = np.array([[0.1], [1.0]], dtype=np.float32)
    >>> from tacit.neighbors import nearest_queries
    >>> nearest_queries(public, centers, 1, query_offsets=balanced_offsets(public, centers)).ravel().tolist()
    [0, 0, 1, 1]
    """
    if not 0 < evenness <= 1:
        raise InvalidInput(f"evenness must be above 0 and at most 1, got {evenness}")
    if not 1 <= neighbors <= len(centers):
        raise InvalidInput(f"neighbors must be in [1, {len(centers)}], the number of queries, got {neighbors}")
    if neighbors == len(centers):
        return np.zeros(len(centers), dtype=np.float32)
    samples = public[:: -(-len(public) // MOST_SAMPLES)]
    distance = _squared_distances(samples, centers)
    first, second = np.partition(distance, 1, axis=1)[:, :2].T
    # Prices have an effect from about the difference between a sample's two nearest queries on.
    step = float(np.median(second - first)) or float(distance.mean()) or 1.0
    price, best, least = np.zeros(len(centers)), np.zeros(len(centers)), np.inf
    wanted = None
    for number in range(_ROUNDS):
        chosen = np.argpartition(distance + price, neighbors - 1, axis=1)[:, :neighbors]
        count = np.bincount(chosen.ravel(), minlength=len(centers))
        if wanted is None:
            wanted = evenness * count.mean() + (1 - evenness) * count
        missed = float(abs(count - wanted).sum())
        if missed < least:
            best, least = price.copy(), missed
        price += step / (1 + number / HALF_LIFE) * np.log((count + 0.5) / (wanted + 0.5))
    query_offsets: Floats = np.sqrt(best - best.min()).astype(np.float32)
    return query_offsets


def similarities(records: Floats, queries: Floats) -> NDArray[np.float64]:
    """The similarity of each record and each query, (n, s): 1/(1 + distance), between 0 and 1.

    >>> similarities(np.array([[3.0, 4.0]]), np.array([[0.0, 0.0], [3.0, 4.0]])).round(4).tolist()
    [[0.1667, 1.0]]
    """
    alike: NDArray[np.float64] = 1 / (1 + np.sqrt(_squared_distances(records, queries)))
    return alike


def published_votes(similarity: NDArray[np.float64], neighbors: int, rule: str) -> Integers:
    """The k queries of each record, (n, k), by a rule of the paper's appendix C, for all records together.

    The problem is NP-hard (fair division of goods), so it is solved as an integer program, to within one percent of the
    optimum, and for small sets only. As similarities are positive, more connections never hurt, and every record has
    exactly k. For the harmonic mean, 1/score is approximated from below by tangents.

    Not for real use: see ``published_sensitivity``.

    >>> similarity = np.array([[1.0, 0.9], [1.0, 0.5], [1.0, 0.2]])
    >>> published_votes(similarity, 1, "max-min").ravel().tolist()
    [1, 1, 0]
    """
    count, size = similarity.shape
    if rule not in PUBLISHED:
        raise InvalidInput(f"rule must be one of {', '.join(PUBLISHED)}, got {rule!r}")
    if not 1 <= neighbors <= size:
        raise InvalidInput(f"neighbors must be in [1, {size}], the number of queries, got {neighbors}")
    if not (np.isfinite(similarity).all() and (similarity > 0).all()):
        raise InvalidInput("similarities must be above 0 and finite")
    if count * neighbors < size:
        raise InvalidInput(
            f"{rule} votes need at least one record for each of the {size} queries; with fewer a score is 0"
        )
    if count * size > MOST_PAIRS:
        raise InvalidInput(f"{rule} votes are for at most {MOST_PAIRS} pairs of a record and a query")
    # Scaled, so that the solver's tolerances are the same for every data set.
    scaled = similarity / similarity.mean()
    chosen = _max_min(scaled, neighbors) if rule == "max-min" else _harmonic(scaled, neighbors)
    return np.sort(np.argsort(-chosen, axis=1, kind="stable")[:, :neighbors], axis=1).astype(np.int64)


def published_sensitivity(queries: int, classes: int, neighbors: int, records: int) -> Sensitivity:
    """The sensitivity of counts under a published rule when one of n = ``records`` records is replaced.

    The paper claims 2k, as for the nearest rule. The true value for k of s queries is

        L1 = max(2k + (n − 1)·2·min(k, s − k), n·k).

    **Upper bound.** For any rule, an unchanged record has k queries before and k after, of which at least 2k − s are
    common, and the same label; the changed record changes at most 2k votes. A cell changes by at most n, so the squares
    sum to at most n·L1. If the rule finds no connections the counts are empty: all n·k votes vanish, which is less
    unless s < 2k, and is included. In a row, the largest rise and the largest fall together are at most the number of
    records that leave or join it, so the sum over rows is at most L1.

    **Lower bound** (k divides s, s ≥ 2k, n ≥ s/k). Let g = s/k. Arrange the queries in g groups of k and the n − 1
    unchanged records in g − 1 groups that are not empty, with two labels that alternate from group to group, so that
    those that join a query and those that leave it never have the same label. A record of group i, which has m_i
    records, has similarity 1/m_i to the queries of groups i and i + 1 and almost 0 to others; the changed record has
    similarity 1 to the queries of group g before and of group 1 after, and almost 0 to others. With k connections each,
    all scores sum to at most s, so the smallest score and the harmonic mean are at most 1, and are 1 only if every
    score is 1. Before, this forces the changed record to group g, so group g − 1 is not needed there, and so on: group
    i votes for i. After, the changed record fills group 1, so group i votes for i + 1. Every vote of every record has
    changed: 2kn.

    **Consequence.** Discrete Laplace noise has scale 2kn/ε, more than the kn votes of all records for every ε below 2.
    More records do not help, since the noise grows with them. The noise that the paper claims, for 2k, would really
    cost nε.

    >>> published_sensitivity(queries=10, classes=3, neighbors=1, records=500)
    Sensitivity(l1=1000, l2_squared=500000, linf=500, row_range=1000)
    """
    if records < 1:
        raise InvalidInput(f"records must be at least 1, got {records}")
    own = vote_sensitivity(queries, classes, neighbors).l1
    moved = max(own + (records - 1) * 2 * min(neighbors, queries - neighbors), records * neighbors)
    return Sensitivity(l1=moved, l2_squared=records * moved, linf=records, row_range=moved)


def _squared_distances(records: Floats, queries: Floats) -> NDArray[np.float64]:
    """All squared distances, (n, s), in float64; for prices, not exact enough for votes."""
    left, right = records.astype(np.float64), queries.astype(np.float64)
    squares = (left**2).sum(axis=1)[:, None] - 2 * left @ right.T + (right**2).sum(axis=1)
    clipped: NDArray[np.float64] = np.maximum(squares, 0)
    return clipped


def _max_min(similarity: NDArray[np.float64], neighbors: int) -> NDArray[np.float64]:
    """Maximize t where every score is at least t."""
    from scipy.sparse import csr_array, hstack

    size = similarity.shape[1]
    least = hstack([_scores(similarity), csr_array(-np.ones((size, 1)))])
    solution, _ = _solve(similarity.shape, neighbors, -np.ones(1), [(least, np.zeros(size))])
    return solution


def _harmonic(similarity: NDArray[np.float64], neighbors: int) -> NDArray[np.float64]:
    """Minimize Σ u where u is at least every tangent of 1/score: 1/a at a, with slope −1/a²."""
    from scipy.sparse import eye_array, hstack

    size = similarity.shape[1]
    score = _scores(similarity)
    points = [np.full(size, similarity.sum() / size * share) for share in (0.01, 0.1, 1)]
    while True:
        cuts = [(hstack([score * (1 / a**2)[:, None], eye_array(size)]).tocsr(), 2 / a) for a in points]
        solution, bound = _solve(similarity.shape, neighbors, np.ones(size), cuts)
        reached = np.maximum((solution * similarity).sum(axis=0), 1e-9)
        # The tangents converge to the solution's own points, so this ends.
        if (1 / reached).sum() <= bound * (1 + 2 * _GAP) or any(np.allclose(reached, a, rtol=_GAP) for a in points):
            return solution
        points.append(reached)


def _scores(similarity: NDArray[np.float64]) -> Any:  # noqa: ANN401
    """The matrix from connections (n·s,) to scores (s,)."""
    from scipy.sparse import csr_array

    count, size = similarity.shape
    column = np.arange(count * size)
    return csr_array((similarity.ravel(), (column % size, column)), shape=(size, count * size))


def _solve(
    shape: tuple[int, int], neighbors: int, cost: NDArray[np.float64], lower: list[tuple[Any, NDArray[np.float64]]]
) -> tuple[NDArray[np.float64], float]:
    """Connections (n, s) of zeros and ones, k per record, and the least cost of the additional variables."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    count, size = shape
    edges, extra = count * size, len(cost)
    row = np.repeat(np.arange(count), size)
    degree = csr_array((np.ones(edges), (row, np.arange(edges))), shape=(count, edges + extra))
    constraints = [LinearConstraint(degree, neighbors, neighbors)]
    constraints += [LinearConstraint(matrix.tocsr(), bound, np.inf) for matrix, bound in lower]
    result = milp(
        np.concatenate([np.zeros(edges), cost]),
        constraints=constraints,
        integrality=np.repeat([1, 0], [edges, extra]),
        bounds=Bounds(np.zeros(edges + extra), np.repeat([1.0, np.inf], [edges, extra])),
        options={"mip_rel_gap": _GAP},
    )
    if result.x is None:
        raise InvalidInput(f"the votes could not be computed: {result.message}")
    return result.x[:edges].reshape(shape), float(result.fun)
