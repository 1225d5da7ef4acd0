"""A picture of the queries with the labels they got."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.experiment.run import Run

__all__ = ["draw_queries"]

SHOWN = 60


def draw_queries(run: Run, public: NDArray[Any], file: Path) -> None:
    """Draw one tile a query where samples are square images, else a map of the public samples.

    A tile is the mean of the public samples in the query's cluster, under the label that was released.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InvalidInput("pictures need matplotlib: pip install 'tacit[report]'") from None

    rows = public.reshape(len(public), -1).astype(np.float64)
    side = math.isqrt(rows.shape[1])
    title = "Queries and the labels they got" + (" (SIMULATION)" if run.guarantee.simulation else "")
    if side * side == rows.shape[1] and side >= 4:
        shown = min(len(run.query_labels), SHOWN)
        columns = 10
        figure = Figure(figsize=(columns * 0.85, math.ceil(shown / columns) * 1.05 + 0.5))
        for index in range(shown):
            axes = figure.add_subplot(math.ceil(shown / columns), columns, index + 1)
            axes.imshow(rows[run.membership == index].mean(axis=0).reshape(side, side), cmap="gray_r")
            axes.set_title(str(run.query_labels[index]), fontsize=10)
            axes.set_axis_off()
    else:
        figure = Figure(figsize=(7, 5.5))
        _draw_map(figure.add_subplot(), run, rows)
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    figure.savefig(file, dpi=110)


def _draw_map(axes: Any, run: Run, rows: NDArray[np.float64]) -> None:  # noqa: ANN401
    """The public samples on their first two principal directions, coloured by label."""
    spread = rows.std(axis=0)
    centred = (rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1)
    if centred.shape[1] == 1:
        centred = np.hstack([centred, np.zeros_like(centred)])
    directions = np.linalg.svd(centred, full_matrices=False)[2][:2]
    places = centred @ directions.T
    for name in run.classes:
        mine = run.labels == name
        axes.scatter(*places[mine].T, s=12, alpha=0.7, label=str(name))
    axes.legend(title="label", fontsize=8)
    axes.set_xlabel("first principal direction of the public samples")
    axes.set_ylabel("second")
