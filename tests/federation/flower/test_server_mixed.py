"""A mixed table over nodes: what one process learns from it, a federation of raw rows learns, too."""

import csv

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tacit.core.errors import TooFewParticipants
from tacit.encoders.kinds import recognize
from tacit.federation.coordinator import RoundPolicy
from tacit.federation.flower.client import InProcessGrid, client_app, contexts
from tacit.federation.flower.server import FlowerExchange
from tacit.federation.node.node import open_node, prepare_ledger
from tacit.federation.settings import read_node_file
from tacit.runs.distill import distill
from tacit.runs.federation import conduct, read_job
from tacit.runs.run import load
from tests.federation.federation import federated
from tests.federation.mixed import CLASSES, SITES, mixed_nodes, patients, rows_of
from tests.local_exchange import local_exchange

PUBLIC, TRUE = patients(120, seed=1)
PRIVATE, LABELS = patients(180, seed=2)
NAMES = np.array(CLASSES)
TERMS = RoundPolicy(expected=3, at_least=3, deadline=10, grace=0.3, patience=0.3, records=180)
KINDS = {
    # With the second epsilon noise is practically 0.
    "votes": (8, 200, {"method": "rknn", "queries": 10}),
    "sums": (8, 10**4, {"method": "class_sums", "components": 6}),
}


def over(nodes, exchange="local"):
    if exchange == "local":
        return local_exchange(nodes)
    app = client_app(lambda context: nodes[context.node_config["partition-id"]])
    return FlowerExchange(InProcessGrid(app, contexts(3, SITES)), "r", TERMS)


def asked(nodes, public, epsilon, exchange="local", **more):
    return federated(
        over(nodes, exchange), public, epsilon, nodes=3, records=180, classes=CLASSES, request="r", trust="local",
        **more,
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_raw_rows_at_nodes_are_the_same_as_numbers_at_nodes(kind):
    epsilon, _, options = KINDS[kind]
    encoder = recognize(PUBLIC, minilm=False).encoder
    raw, flower = (
        asked(mixed_nodes(PRIVATE, LABELS), PUBLIC, epsilon, each, **options) for each in ("local", "flower")
    )
    numbers = asked(mixed_nodes(PRIVATE, LABELS, encode=encoder.encode), encoder.encode(PUBLIC), epsilon, **options)
    for other in (flower, numbers):
        assert (raw.labels == other.labels).all()
        assert raw.guarantee == other.guarantee


@pytest.mark.filterwarnings("ignore::tacit.TacitWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_without_noise_nodes_learn_what_one_process_learns(kind):
    """Texts are left out: in one process they have MiniLM's features, too, where it is installed."""
    _, epsilon, options = KINDS[kind]
    private, public = (each.take(("age", "ward", "seen")) for each in (PRIVATE, PUBLIC))
    over_nodes = asked(mixed_nodes(private, LABELS), public, epsilon, **options)
    here = distill((private, NAMES[LABELS]), public, epsilon, classes=CLASSES, seed=1, **options)
    assert (over_nodes.labels == here.labels).all()
    assert np.mean(here.labels == NAMES[TRUE]) > 0.9
    assert (over_nodes.student.predict(private) == here.student.predict(private)).all()


@pytest.mark.filterwarnings("ignore::tacit.TacitWarning")
def test_the_default_adds_up_raw_rows_and_its_student_takes_them(tmp_path):
    run = asked(mixed_nodes(PRIVATE, LABELS), PUBLIC, 40, delta="1e-5", student="auto")
    said = run.recipe["released"][0]
    assert (run.recipe["chosen"], said["what"], said["answers"], run.recipe["method"]) == ("sums", "sums", 3, "auto")
    assert np.mean(run.labels == NAMES[TRUE]) > 0.9
    run.save(tmp_path / "run")
    assert (load(tmp_path / "run").student.predict(PUBLIC) == run.student.predict(PUBLIC)).all()
    assert np.mean(run.student.predict(PRIVATE) == NAMES[LABELS]) > 0.9


FILE = """
name = "{name}"
data = "{name}.csv"
label = "outcome"
classes = ["ill", "well"]
kind = "mixed"
policy = "policy.toml"
ledger = "{name}.ledger"
account = "{name}"
pace = 0.0
"""
POLICY = """
[allow]
methods = ["rknn"]
mechanisms = ["DiscreteLaplaceNoise"]
purposes = ["reverse k-NN labels"]
participants = 2
"""
JOB = """
method = "rknn"
public = "samples.csv"
classes = ["ill", "well"]
epsilon = 8.0
records = 180
nodes = 3
at_least = 3
deadline = 10
grace = 0.3
patience = 0.3
queries = 10
out = "run"
"""


def written(file, table, labels=None):
    head = [*table.columns, *([] if labels is None else ["outcome"])]
    columns = [table.column(name).tolist() for name in table.columns]
    columns += [] if labels is None else [NAMES[labels].tolist()]
    with file.open("w", newline="") as opened:
        csv.writer(opened).writerows([head, *zip(*columns, strict=True)])


@pytest.fixture
def folder(tmp_path):
    accounts = "".join(f"[accounts.{name}]\nepsilon = 8.0\n" for name in SITES)
    (tmp_path / "policy.toml").write_text(accounts + POLICY)
    for place, name in enumerate(SITES):
        mine = slice(place, None, 3)
        written(tmp_path / f"{name}.csv", rows_of(PRIVATE, mine), LABELS[mine])
        (tmp_path / f"{name}.toml").write_text(FILE.format(name=name))
    written(tmp_path / "samples.csv", PUBLIC)
    (tmp_path / "job.toml").write_text(JOB)
    return tmp_path


def opened(folder):
    files = [read_node_file(folder / f"{name}.toml") for name in SITES]
    for file in files:
        prepare_ledger(file)
    return [open_node(file) for file in files]


def test_a_job_over_files_of_raw_rows_saves_a_student_of_raw_rows(folder):
    nodes = opened(folder)
    app = client_app(lambda context: nodes[context.node_config["partition-id"]])
    conduct(InProcessGrid(app, contexts(3, SITES)), {"job": str(folder / "job.toml")})
    run = load(folder / "run")
    assert np.mean(run.labels == NAMES[TRUE]) > 0.9
    assert np.mean(run.student.predict(PRIVATE) == NAMES[LABELS]) > 0.9
    # A student takes the columns by name, in any order, in the file's own form.
    assert (run.student.predict(folder / "samples.csv") == run.student.predict(PUBLIC)).all()
    assert run.features == PUBLIC.columns
    assert run.recipe["encoding"]
    assert [node.ledger.balance(node.account).payments for node in nodes] == [1, 1, 1]


def test_a_node_without_a_column_refuses_and_nobody_pays_for_it(folder):
    file = folder / "south.csv"
    written(file, rows_of(PRIVATE, slice(1, None, 3)).take(("age", "ward", "note")), LABELS[1::3])
    nodes = opened(folder)
    app = client_app(lambda context: nodes[context.node_config["partition-id"]])
    with pytest.raises(TooFewParticipants, match="south refused: its records do not have the columns"):
        conduct(InProcessGrid(app, contexts(3, SITES)), {"job": str(folder / "job.toml")})
    assert nodes[1].ledger.balance("south").payments == 0


def test_a_job_can_say_what_the_public_table_is(folder):
    assert not read_job(folder / "job.toml").described
    plain = read_job(folder / "job.toml").recipe
    assert "data_kind" not in plain
    (folder / "job.toml").write_text(JOB + 'data_kind = "mixed"\ntext = ["note"]\ncategories = ["ward"]\n')
    job = read_job(folder / "job.toml")
    assert job.described
    assert job.recipe != plain
