"""How much faster the vectorized exact samplers are than OpenDP's, side by side in one process.

Both add integer noise of the same law to a table of 5,000 × 10 zeros, both from a cryptographic generator. The two
take turns within every round, so that a busy machine slows both. Selecting a label in each of the rows is compared
with OpenDP's pure noisy max, which has the law of permute-and-flip and takes one row per call; it runs on fewer rows
and is scaled up. What a first call spends on building tables is measured apart.
Run: python benchmarks/noise.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace, make_noisy_max
from opendp.measures import max_divergence
from opendp.metrics import l1_distance, l2_distance, linf_distance
from opendp.mod import enable_features

from tacit.core import SystemRandomness
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.selection import PermuteAndFlip

SHAPE = (5000, 10)
ROWS = 200


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def row(name: str, ours: Callable[[], object], theirs: Callable[[], object], factor: float, rounds: int) -> None:
    first = seconds(ours)
    theirs()
    times = np.array([(seconds(ours), factor * seconds(theirs)) for _ in range(rounds)]) * 1e3
    ratios = times[:, 1] / times[:, 0]
    (mean, other), (spread, others) = times.mean(axis=0), times.std(axis=0, ddof=1)
    print(
        f"| {name} | {first * 1e3:.0f} | {mean:.1f} ± {spread:.1f} | {other:.0f} ± {others:.0f} | "
        f"{ratios.mean():.0f} ± {ratios.std(ddof=1):.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    enable_features("contrib")
    domain = vector_domain(atom_domain(T="i64"))
    randomness = SystemRandomness()
    table = np.zeros(SHAPE, dtype=np.int64)
    cells = table.ravel().tolist()

    print(f"a table of {SHAPE[0]} × {SHAPE[1]}, {rounds} rounds, milliseconds, mean ± standard deviation\n")
    print("| noise | first call | Tacit | OpenDP | times faster |")
    print("|---|---|---|---|---|")
    for scale in ("0.5", "2", "20", "1000", "1e7"):
        laplace = DiscreteLaplaceNoise(scale, 1)
        other = make_laplace(domain, l1_distance(T="i64"), scale=float(scale))
        row(
            f"discrete Laplace, b = {scale}",
            lambda laplace=laplace: laplace.sample(table, randomness),
            lambda other=other: other(cells),
            1,
            rounds,
        )
    for sigma in ("0.5", "5.275910", "40", "1e7"):
        gaussian = DiscreteGaussianNoise(sigma, 2, unit_steps=True)
        other = make_gaussian(domain, l2_distance(T="f64"), scale=float(sigma))
        row(
            f"discrete Gaussian, σ = {sigma}",
            lambda gaussian=gaussian: gaussian.sample(table, randomness),
            lambda other=other: other(cells),
            1,
            rounds,
        )
    labels = PermuteAndFlip(Fraction(1, 2), 2)
    noisy_max = make_noisy_max(domain, linf_distance(T="i64"), max_divergence(), scale=2.0)
    one = [0] * SHAPE[1]
    row(
        "permute-and-flip, rate 1/2",
        lambda: labels.sample(table, randomness),
        lambda: [noisy_max(one) for _ in range(ROWS)],
        SHAPE[0] / ROWS,
        rounds,
    )


if __name__ == "__main__":
    main()
