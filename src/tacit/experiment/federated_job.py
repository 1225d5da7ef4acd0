"""A coordinator's job: what its file says, run over the grid it is given, kept so that it can be taken up again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tacit.core.errors import InvalidInput, TacitError
from tacit.core.guarantee import Unit
from tacit.datasets.tables import read_table
from tacit.exchange.journal import Journal
from tacit.exchange.node_file import read_peers
from tacit.exchange.rounds import Terms, Turn
from tacit.exchange.settings_file import read_settings
from tacit.experiment.federated import distill_federated
from tacit.experiment.federated_methods import in_places, learn_federated, teach_federated, transfer_federated
from tacit.experiment.privatekt_result import Transfer
from tacit.experiment.run import Run, new_folder

__all__ = ["JOB_EXAMPLE", "Job", "Progress", "conduct", "read_job", "run_job"]

JOB_EXAMPLE = """\
method = "rknn"
public = "samples.csv"              # unlabeled public samples: .csv or .npz
classes = ["ill", "well"]           # the same list, in the same order, at every node
epsilon = 1.0                       # what each node spends
records = 1000                      # how many records all nodes have, as far as the public knows
nodes = 4                           # how many are waited for
at_least = 3                        # how many must answer
deadline = 300                      # seconds for a round
grace = 30                          # seconds for the others once enough have answered
out = "run"                         # the folder that is written
"""
# Public samples that a round of FedMD is about, where the job does not say.
FEDMD_QUERIES = 100

NEEDS = {
    "masked": ("peers",),
    "shuffle": ("service", "identity"),
    "central": ("service", "identity", "curator_key"),
}
TOGETHER = {
    *(("rknn", trust) for trust in ("local", "masked", "shuffle", "central")),
    ("pate", "local"),
    ("pate", "masked"),
    ("privatekt", "local"),
    ("fedmd", "local"),
}


class Job(BaseModel):
    """What a coordinator's file says. Numbers of records and nodes are public."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: Literal["rknn", "pate", "privatekt", "fedmd"] = "rknn"
    public: str
    classes: Annotated[list[str], Field(min_length=2)]
    epsilon: Annotated[float, Field(gt=0)]
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    records: Annotated[int, Field(ge=1)]
    nodes: Annotated[int, Field(ge=1)]
    at_least: Annotated[int, Field(ge=1)]
    deadline: Annotated[float, Field(gt=0)] = 300.0
    grace: Annotated[float, Field(ge=0)] = 30.0
    patience: Annotated[float, Field(ge=0)] = 300.0
    holders: Literal["sites", "records"] = "sites"
    trust: Literal["local", "masked", "shuffle", "central"] = "local"
    peers: str | None = None
    service: str | None = None
    service_authority: str | None = None
    identity: str | None = None
    curator_key: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    node_records: Annotated[int, Field(ge=1)] | None = None
    rounds: Annotated[int, Field(ge=1)] = 20
    answers: Annotated[int, Field(ge=1)] = 2
    mechanism: str = "auto"
    queries: Annotated[int, Field(ge=1)] | None = None
    neighbors: Annotated[int, Field(ge=1)] = 1
    representation: str = "auto"
    student: str = "logistic"
    spread: Literal["clusters", "graph"] = "clusters"
    person: str | None = None
    records_per_person: Annotated[int, Field(ge=1)] = 1
    adjacency: Literal["replace-one", "add-remove"] = "replace-one"
    out: str

    @property
    def terms(self) -> Terms:
        """When a round is over."""
        return Terms(self.nodes, self.at_least, self.deadline, self.grace, self.patience, self.most)

    @property
    def most(self) -> int:
        """The most records that one node may have: an answer of more is not believed."""
        return self.node_records or self.records


def read_job(path: str | Path) -> Job:
    """What a job file says, or an error that names each wrong field; its paths are relative to it.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "job.toml"
    >>> _ = file.write_text(JOB_EXAMPLE)
    >>> read_job(file).at_least
    3
    """
    path = Path(path)
    found = read_settings(path, Job, "the job ")
    if found.at_least > found.nodes:
        raise InvalidInput(f"{path}: at_least must be at most the {found.nodes} nodes, got {found.at_least}")
    for trust, settings in NEEDS.items():
        if found.trust == trust and (missing := [name for name in settings if getattr(found, name) is None]):
            raise InvalidInput(f"{path}: {trust} trust needs {', '.join(missing)}")
    if (found.method, found.trust) not in TOGETHER:
        raise InvalidInput(f"{path}: {found.method} does not go with {found.trust} trust")
    home = path.absolute().parent
    files = ("public", "out", "peers", "service_authority", "identity")
    absolute = {name: str(home / value) for name in files if (value := getattr(found, name)) is not None}
    return found.model_copy(update=absolute)


class Progress:
    """How far a job is, in a file that others may watch: whole at every moment."""

    def __init__(self, journal: Path) -> None:
        self._file = journal / "progress.json"
        self._turns: dict[int, dict[str, Any]] = {}

    def turn(self, turn: Turn) -> None:
        """A round has moved on."""
        self._turns[turn.number] = asdict(turn)
        self.say("running", turn.in_words)

    def say(self, state: str, message: str) -> None:
        """What the job is at."""
        content = {
            "state": state,
            "message": message,
            "process": os.getpid(),
            "turns": [self._turns[number] for number in sorted(self._turns)],
        }
        draft = self._file.with_suffix(".draft")
        draft.write_text(json.dumps(content), encoding="utf-8")
        draft.replace(self._file)


def run_job(
    job: Job,
    exchange: Callable[[str, Journal, Callable[[Turn], None]], Any],
    announce: Callable[[str], None] = lambda _: None,
) -> Run | Transfer:
    """Run a job over the exchange that is made for its run, and write the run folder.

    The journal lies beside the run folder. A job that comes back finds its rounds there and asks nobody again for
    what was answered; one whose run folder is written is over.
    """
    out = Path(job.out)
    journal = Journal.open(out.with_name(f"{out.name}.journal"), job.model_dump_json(exclude={"out", "patience"}))
    progress = Progress(journal.folder)
    progress.say("running", "reading the public samples")
    try:
        if out.exists():
            raise InvalidInput(f"{out}: exists already; choose another out")
        run = METHODS[job.method](job, exchange(journal.run, journal, progress.turn), journal.run)
        with new_folder(out) as partial:
            run.write(partial)
    except TacitError as error:
        progress.say("failed", str(error))
        raise
    except Exception as error:
        progress.say("failed", f"{type(error).__name__}: {error}")
        raise
    announce(f"written {out}")
    progress.say("done", f"written {out}")
    return run


def _rknn(job: Job, exchange: Any, request: str) -> Run:  # noqa: ANN401
    unit = None if job.person is None else Unit.person(job.person, job.records_per_person)
    return distill_federated(
        exchange, read_table(job.public).samples, str(job.epsilon), classes=job.classes, nodes=job.nodes,
        records=job.records, delta=str(job.delta), holders=job.holders, mechanism=job.mechanism, queries=job.queries,
        neighbors=job.neighbors, representation=job.representation, student=job.student, spread=job.spread, unit=unit,
        adjacency=job.adjacency, trust=job.trust, surviving=Fraction(job.at_least, job.nodes), request=request,
    )  # fmt: skip


def _pate(job: Job, exchange: Any, request: str) -> Run:  # noqa: ANN401
    return teach_federated(
        exchange, read_table(job.public).samples, str(job.epsilon), classes=job.classes, nodes=job.nodes,
        queries=job.queries, trust=job.trust, surviving=Fraction(job.at_least, job.nodes), student=job.student,
        request=request,
    )  # fmt: skip


def _privatekt(job: Job, exchange: Any, request: str) -> Transfer:  # noqa: ANN401
    return transfer_federated(
        in_places(exchange), read_table(job.public).samples, str(job.epsilon), classes=job.classes, nodes=job.nodes,
        delta=str(job.delta), rounds=job.rounds, answers=job.answers, model=job.student, request=request,
    )  # fmt: skip


def _fedmd(job: Job, exchange: Any, request: str) -> Run:  # noqa: ANN401
    return learn_federated(
        exchange, read_table(job.public).samples, str(job.epsilon), classes=job.classes, rounds=job.rounds,
        queries=job.queries or FEDMD_QUERIES, delta=str(job.delta), student=job.student, request=request,
        mechanism="subset-selection" if job.mechanism == "auto" else job.mechanism, deliver=exchange.deliver,
    )  # fmt: skip


METHODS: Mapping[str, Callable[[Job, Any, str], Run | Transfer]] = {
    "rknn": _rknn,
    "pate": _pate,
    "privatekt": _privatekt,
    "fedmd": _fedmd,
}


def conduct(grid: Any, settings: Mapping[str, Any]) -> None:  # noqa: ANN401
    """The server app's whole work: the job that the run's settings name, over Flower's grid."""
    from tacit.exchange.flower_collected import Collector, FlowerCollected
    from tacit.exchange.flower_masked import FlowerMasked
    from tacit.exchange.flower_server import FlowerExchange
    from tacit.exchange.identity import Identity
    from tacit.exchange.post.caller import Address

    job = read_job(str(settings["job"]))

    def exchange(run: str, journal: Journal, tell: Callable[[Turn], None]) -> Any:  # noqa: ANN401
        match job.trust:
            case "masked":
                return FlowerMasked(grid, run, job.terms, read_peers(Path(str(job.peers))), journal, tell)
            case "shuffle" | "central":
                collector = Collector(
                    Address(str(job.service), job.service_authority),
                    Identity.read(str(job.identity)),
                    None if job.curator_key is None else bytes.fromhex(job.curator_key),
                )
                return FlowerCollected(grid, run, job.terms, collector, journal, tell)
            case _:
                return FlowerExchange(grid, run, job.terms, journal, tell)

    run_job(job, exchange)
