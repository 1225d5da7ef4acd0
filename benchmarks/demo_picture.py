"""Writes docs/results/demo-queries.png, the picture in the README: the demo's queries and the labels they got."""

from pathlib import Path

import tacit
from tacit.report.charts import draw_queries

TARGET = Path(__file__).parents[1] / "docs" / "results" / "demo-queries.png"

parts = tacit.digits()
run = tacit.distill((parts.private_samples, parts.private_labels), parts.public_samples, 1.0, classes=range(10))
draw_queries(run, parts.public_samples.reshape(-1, 8, 8), TARGET, dark_ink=True)
print(f"written: {TARGET.name}; {run.guarantee}")
