"""The lines of a leaderboard: every method on the same parts of a data set, in the same representation.

No setting is chosen on private records or on the test part: each is a method's own default, which follows from public
samples, releases and the number of records, or a rule that does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from experiments.leaderboard_encoded import mapped, seen
from experiments.leaderboard_layers import two_layers
from experiments.leaderboard_neighbors import neighbors
from experiments.leaderboard_parts import HOLDER, LABEL, Line
from experiments.leaderboard_shards import components, confident, parties, pate, spread, transferred
from experiments.leaderboard_summed import summed
from experiments.leaderboard_voted import voted

__all__ = ["LINES", "OPACUS"]

RULE = (
    "teachers: one per 10 records (per number of classes, if that is larger), 500 at most; queries: as many as noise "
    "of an eighth of the teachers allows, one per class at least, each central in a cluster of public samples"
)
REHEARSED = "rehearsed on public samples with made-up labels"
OPACUS = "32 units, 10 epochs and at least 100 steps, samples of 500; by Opacus"
PARTIES = "the paper's 10 parties"
FEW = (
    "as few neighbors as make votes on 1,000 queries five deviations of the noise; at least the root of the sampled "
    "records, at most a tenth of them and one class's share"
)
TEN = f"{PARTIES}, even; one round, two samples per class"
LINES: Mapping[str, Line] = {
    "rknn": Line("rknn", voted, delta=0.0),
    "class_sums": Line("class_sums", summed),
    "noisy_sgd": Line("noisy_sgd", seen, chosen=REHEARSED),
    "noisy_sgd on the map": Line("noisy_sgd", mapped, chosen=REHEARSED, applies="images"),
    "noisy_sgd two layers": Line("noisy_sgd", partial(two_layers, "hidden"), chosen=OPACUS),
    "noisy_sgd fine-tuned": Line("noisy_sgd", partial(two_layers, "finetuned"), chosen=OPACUS),
    "private_knn": Line("private_knn", neighbors, chosen=FEW),
    "auto": Line("auto"),
    "auto pure": Line("auto", delta=0.0),
    "pate lnmax": Line("pate", partial(pate, "lnmax"), delta=0.0, samples=spread, chosen=RULE),
    "pate gnmax": Line("pate", partial(pate, "gnmax"), samples=spread, chosen=RULE),
    "pate confident": Line(
        "pate", confident, samples=spread, chosen="GNMax's rule; half of twice as many queries, threshold 50 %"
    ),
    "privatekt": Line(
        "privatekt", transferred, delta=0.0, samples=components, protects=HOLDER,
        chosen="as many holders as PATE has teachers, even; 10 rounds of 2 samples, each holder asked once",
    ),
    "fedmd rknn": Line("fedmd", partial(parties, "rknn"), delta=0.0, samples=components, chosen=PARTIES),
    "fedmd response": Line(
        "fedmd", partial(parties, "response"), delta=0.0, samples=components, protects=HOLDER, chosen=TEN
    ),
    "fedmd ldp": Line("fedmd", partial(parties, "ldp"), samples=components, protects=HOLDER, chosen=TEN),
    "label_dp": Line("label_dp", delta=0.0, protects=LABEL, chosen="none; for orientation only"),
}  # fmt: skip
