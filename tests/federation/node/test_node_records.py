"""A node that counts its records where they lie: the same answers, and a refusal of what needs them in memory."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.core.account import Ceiling
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Unit
from tacit.federation.messages import RefusalReason
from tacit.federation.node.node import Node
from tacit.federation.node.records import LoadedArrays, node_records
from tacit.federation.node.refusals import Refused
from tacit.federation.settings import NODE_EXAMPLE, read_node_file
from tacit.ledger.memory import MemoryLedger
from tacit.ledger.policy import Rules
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.methods.pate.wire import TeacherAsk
from tacit.methods.rknn.wire import VoteAsk
from tacit.representations.scaled import Identity

FILE = """
name = "north"
data = "{data}"
label = "outcome"
classes = ["ill", "well"]
policy = "policy.toml"
ledger = "north.ledger"
account = "north"
"""
QUERIES = np.array([[0, 9], [9, 0]], dtype=np.float32)
ASK = VoteAsk(QUERIES, Identity(2), 1, ("ill", "well"), "c0ffee", DiscreteLaplaceNoise.for_epsilon(1, 2), "v", "r-1")


@pytest.fixture
def folder(tmp_path):
    generator = np.random.default_rng(1)
    columns = {name: generator.integers(0, 10, 300) for name in ("age", "dose")}
    outcome = np.where(generator.random(300) < 0.5, "ill", "well")
    table = pa.table({**columns, "outcome": outcome})
    pa.parquet.write_table(table, tmp_path / "all.parquet")
    for number in range(3):
        pa.parquet.write_table(table.slice(100 * number, 100), tmp_path / f"part-{number}.parquet")
    return tmp_path


def node(folder, data, more=""):
    (folder / "node.toml").write_text(FILE.format(data=data) + more)
    records, features = node_records(read_node_file(folder / "node.toml"), None, LoadedArrays())
    rules = Rules(("rknn", "pate"), ("DiscreteLaplaceNoise",), ("v",), participants=1)
    ledger = MemoryLedger({"north": Ceiling(1)})
    return Node("north", ("ill", "well"), records, rules, ledger, "north", features=features, seed=1)


ENGINE = '[engine]\nname = "threads"\nworkers = 2\n'


def test_a_node_with_an_engine_gives_the_same_answer(folder):
    memory, streamed = node(folder, "all.parquet"), node(folder, "part-*.parquet", ENGINE)
    assert memory.features == streamed.features == ("age", "dose")
    assert np.array_equal(memory.answer(ASK).value, streamed.answer(ASK).value)
    assert streamed._clients() == (300, 300)


def test_columns_come_in_the_public_samples_order(folder):
    memory, streamed = node(folder, "all.parquet"), node(folder, "part-*.parquet", ENGINE)
    answers = []
    for each in (memory, streamed):
        ordered = each._in_order(("dose", "age"))
        answers.append(Node(**{**each.__dict__, "records": ordered}).answer(ASK).value)
    assert np.array_equal(*answers)


def test_what_needs_records_in_memory_is_refused_and_not_paid(folder):
    streamed = node(folder, "part-*.parquet", ENGINE)
    before = streamed.ledger.balance("north")
    ask = object.__new__(TeacherAsk)
    with pytest.raises(Refused) as told:
        streamed._check(ask, "answer", None)
    assert told.value.reason is RefusalReason.METHOD
    assert streamed.ledger.balance("north") == before


def test_the_file_is_read_strictly(folder):
    (folder / "node.toml").write_text(NODE_EXAMPLE)
    assert read_node_file(folder / "node.toml").engine.engine.workers == 2
    for more, words in (
        ('[engine]\nname = "sparc"\n', "did you mean spark"),
        ("[engine]\nworkers = 0\n", "workers"),
        ("[engine]\nspeed = 1\n", "is not a setting"),
    ):
        (folder / "node.toml").write_text(FILE.format(data="all.parquet") + more)
        with pytest.raises(InvalidInput, match=words):
            read_node_file(folder / "node.toml")
    (folder / "node.toml").write_text(FILE.format(data="a.csv").replace('"outcome"', '["ill", "well"]') + ENGINE)
    with pytest.raises(InvalidInput, match="one label each"):
        read_node_file(folder / "node.toml")


def test_persons_are_bounded_by_the_account(folder):
    (folder / "node.toml").write_text(FILE.format(data="part-*.parquet") + ENGINE)
    records, _ = node_records(read_node_file(folder / "node.toml"), "age", LoadedArrays())
    ledger = MemoryLedger({"north": Ceiling(1000, unit=Unit.person("age", 1))})
    rules = Rules(("rknn",), ("DiscreteLaplaceNoise",), ("v",), participants=1)
    ask = VoteAsk(
        QUERIES[:, :1], Identity(1), 1, ("ill", "well"), "c0ffee", DiscreteLaplaceNoise.for_epsilon(900, 2), "v", "r-1"
    )
    counts = Node("north", ("ill", "well"), records, rules, ledger, "north", seed=1).answer(ask).value
    assert counts.sum() == 10
