"""Which queries a record votes for: connections more even than "the nearest ones", the safe way and the published ways.

Popular queries drown the others: some get hundreds of votes, some so few that noise decides.

**The safe way** gives every query a height, fitted on public samples so that each would get about as many of
them. A record votes for the k queries with the smallest |x−q|² + h(q)². Its votes depend on itself and on public
numbers alone, exactly as for the plain rule, so the sensitivity is that of the plain rule: nothing more to pay.

**The published ways** (appendix C of the paper that proposed reverse k-NN labels) choose the connections of all
records together: those whose least score is largest ("max-min"), or whose scores' harmonic mean is ("harmonic"),
where the score of a query is the sum of the similarities of its records. The paper says they have the same
privacy guarantee as reverse k-NN. **That is false.** One changed record can move the votes of all the others; see
``published_sensitivity``. They are here to be studied: charged truthfully, their noise is larger than all
votes together, whatever the number of records.
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
# More public samples than this add nothing to what a query's height is fitted on, but cost memory.
MOST_SAMPLES = 10_000
# The published rules are integer programs: this many pairs take seconds to minutes, ten times as many hours.
MOST_PAIRS = 1_000
# How far from the best value a solution may be, relatively: proving the rest takes far longer than finding it.
_GAP = 1e-2


def balanced_offsets(public: Floats, centers: Floats, neighbors: int = 1, evenness: float = 1.0) -> Floats:
    """Heights (s,) under which every query would get about the same number of public samples.

    Both arguments are in the representation's space. ``evenness`` 1 asks for the same number for all, 0.5 for
    halfway between that and what the plain rule gives. The heights' squares are the dual prices of an assignment
    with those numbers as capacities, approached by raising the price of a query that has too many and lowering that
    of one that has too few, in ever smaller steps; the best prices seen are kept. Only public numbers go in.

    It costs no privacy, but a record may vote for a query farther away, whose label is not its own. Measured on one
    split of MNIST: where queries stand for the clusters they are centers of, full evenness gave fewer right labels
    at every ε tried and halfway evenness in 16 of 18 settings, since the queries with few votes stand for few
    samples. Where 400 queries are public samples that count the same and noise is strong (ε = 0.3), halfway
    evenness raised right labels from 85 % to 89 %; without noise it always lowered them. So the plain rule stays the
    default. The fewer public samples a query has, the less of the evenness carries over to the records.

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
    # Prices matter once they are as large as the lead of a sample's nearest query.
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
    """How alike each record and each query are, (n, s): 1/(1 + distance), between 0 and 1.

    >>> similarities(np.array([[3.0, 4.0]]), np.array([[0.0, 0.0], [3.0, 4.0]])).round(4).tolist()
    [[0.1667, 1.0]]
    """
    alike: NDArray[np.float64] = 1 / (1 + np.sqrt(_squared_distances(records, queries)))
    return alike


def published_votes(similarity: NDArray[np.float64], neighbors: int, rule: str) -> Integers:
    """The k queries of each record, (n, k), under a rule of the paper's appendix C; the connections of all at once.

    The problem is as hard as dividing goods fairly (NP-hard), so it is solved as an integer program, to within a
    hundredth of the best value, and for small sets only. As similarities are positive, more connections never hurt,
    and every record has exactly k. The harmonic mean's 1/score is approached from below by tangents.

    Not a choice for real use: read ``published_sensitivity`` first.

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
    # On a common scale the solver's tolerances mean the same for every data set.
    scaled = similarity / similarity.mean()
    chosen = _max_min(scaled, neighbors) if rule == "max-min" else _harmonic(scaled, neighbors)
    return np.sort(np.argsort(-chosen, axis=1, kind="stable")[:, :neighbors], axis=1).astype(np.int64)


def published_sensitivity(queries: int, classes: int, neighbors: int, records: int) -> Sensitivity:
    """How far counts move under a published rule when one of n = ``records`` records is replaced: all of them move.

    The paper claims 2k, as for the plain rule. The truth for k of s queries is

        L1 = max(2k + (n − 1)·2·min(k, s − k), n·k).

    **No more.** Whatever the rule, a record that did not change has k queries before and k after, of which at least
    2k − s are common, and its label stays; the changed one moves at most 2k. A cell moves by n at most, so squares
    add up to at most n·L1. Where the rule finds no connections the counts are empty: all n·k votes go, which is
    less unless s < 2k, and counts as well. In a row, largest rise and largest fall together are at most what the
    records that left or joined it make, one each, so the rows' sum is no more than L1.

    **No less** (k divides s, s ≥ 2k, n ≥ s/k). Let g = s/k. Arrange the queries in g groups of k and the n − 1
    unchanged records in g − 1 groups that are not empty, with two labels that alternate from group to group, so
    that those who join a query and those who leave it never have the same label. A record of group i, which has m_i
    records, has the similarity 1/m_i to the queries of groups i and i + 1 and next to none to others; the changed
    one has similarity 1 to the queries of group g before and of group 1 after, and next to none to others. With k
    connections each, all scores together make at most s, so the least score and the harmonic mean are at most 1,
    and are 1 only if every score is. Before, that forces the changed record to group g, so group g − 1 is not
    needed there, and so on down: group i votes for i. After, the changed record fills group 1, so group i votes for
    i + 1. Every vote of every record has moved: 2kn.

    **What it means.** Discrete Laplace noise has scale 2kn/ε, more than the kn votes of all records, for every
    ε below 2. More records do not help: the noise grows with them. The claimed guarantee, with noise for 2k, would
    really be nε.

    >>> published_sensitivity(queries=10, classes=3, neighbors=1, records=500)
    Sensitivity(l1=1000, l2_squared=500000, linf=500, row_range=1000)
    """
    if records < 1:
        raise InvalidInput(f"records must be at least 1, got {records}")
    own = vote_sensitivity(queries, classes, neighbors).l1
    moved = max(own + (records - 1) * 2 * min(neighbors, queries - neighbors), records * neighbors)
    return Sensitivity(l1=moved, l2_squared=records * moved, linf=records, row_range=moved)


def _squared_distances(records: Floats, queries: Floats) -> NDArray[np.float64]:
    """All squared distances, (n, s), in float64; good for choosing prices, not for deciding votes."""
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
        # Known points are the solution's own once the tangents have closed in, so this ends.
        if (1 / reached).sum() <= bound * (1 + 2 * _GAP) or any(np.allclose(reached, a, rtol=_GAP) for a in points):
            return solution
        points.append(reached)


def _scores(similarity: NDArray[np.float64]) -> Any:  # noqa: ANN401
    """The matrix that makes scores (s,) of connections (n·s,)."""
    from scipy.sparse import csr_array

    count, size = similarity.shape
    column = np.arange(count * size)
    return csr_array((similarity.ravel(), (column % size, column)), shape=(size, count * size))


def _solve(
    shape: tuple[int, int], neighbors: int, cost: NDArray[np.float64], lower: list[tuple[Any, NDArray[np.float64]]]
) -> tuple[NDArray[np.float64], float]:
    """Connections (n, s) of zeros and ones, k per record, and the least cost of the further variables."""
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
