"""One small holder's records in every form that can be streamed, and questions about them."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from tacit.engines.engine import Threads
from tacit.engines.fragments import BLOCK, RecordBlock, reblocked
from tacit.methods.class_sums.holder import SumTable, class_sums
from tacit.methods.class_sums.wire import SumAsk
from tacit.methods.noisy_sgd.holder import GradientTable, record_gradients
from tacit.methods.noisy_sgd.wire import GradientAsk
from tacit.methods.rknn.holder import VoteTable
from tacit.methods.rknn.wire import VoteAsk
from tacit.neighbors import vote_counts
from tacit.private.records import Records
from tacit.representations.scaled import Standardized

CLASSES = ("ill", "well", "unsure")
WIDTH = 4


class TableFragment:
    """A table in memory as a fragment, read in batches of any size."""

    def __init__(self, number, name, table, batch=BLOCK):
        self.number, self.name, self.table, self.batch = number, name, table, batch

    def blocks(self, columns, label, person):
        start = 0
        for rows in reblocked(iter(self.table.to_batches(max_chunksize=self.batch)), BLOCK):
            labels = rows.column(label if label is not None else person)
            yield RecordBlock(
                start, rows.select(list(columns or ())), labels, None if person is None else rows.column(person)
            )
            start += rows.num_rows


def table(rows, seed=0):
    """Records of which some have no number, no class or no person."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(rows, WIDTH)).round(2)
    features[generator.random(rows) < 0.03, 1] = np.nan
    labels = generator.choice([*CLASSES, "something else"], rows, p=[0.4, 0.3, 0.2, 0.1])
    persons = [f"person {each}" for each in generator.integers(0, max(1, rows // 5), rows)]
    columns = {f"f{place}": features[:, place] for place in range(WIDTH)}
    return pa.table({**columns, "label": labels, "who": persons})


def arrays(content):
    """The samples and class places of such a table, as they are in memory."""
    samples = np.column_stack([content.column(f"f{place}").to_numpy() for place in range(WIDTH)])
    places = [CLASSES.index(each) if each in CLASSES else -1 for each in content.column("label").to_pylist()]
    return samples, np.array(places, dtype=np.int64)


PUBLIC = np.random.default_rng(99).normal(size=(60, WIDTH))
SPACE = Standardized.fit(PUBLIC)
VOTES = VoteAsk(SPACE.encode(PUBLIC)[:9], SPACE, 2, CLASSES, "c0ffee", None, "labels", "r-1")
SUMS = SumAsk(SPACE, WIDTH, 100.0, 1000, "l2", 500, CLASSES, "c0ffee", None, "sums", "r-1", centered=True)
WEIGHTS = np.arange(15).reshape(5, 3) * 40 - 200
GRADIENT = GradientAsk(SPACE, 100.0, 300, 150, WEIGHTS, 60_000, "l2", CLASSES, "c0ffee", None, "gradient", "r-1")
TABLES = {"votes": VoteTable(VOTES), "sums": SumTable(SUMS), "gradient": GradientTable(GRADIENT)}


def in_memory(name, content):
    """The same table, counted by the holders of records in memory."""
    samples, labels = arrays(content)
    if name == "sums":
        return class_sums(SUMS, Records(samples, labels))
    if name == "gradient":
        return record_gradients(GRADIENT, [(SPACE.encode(samples), labels)])
    return vote_counts(SPACE.encode(samples), labels, VOTES.queries, VOTES.neighbors, len(CLASSES))


def threads(workers=1):
    return Threads(workers)
