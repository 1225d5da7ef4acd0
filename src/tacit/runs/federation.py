"""A coordinator's job: its settings file, its run over a Flower grid, and its journal, from which it can resume."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from tacit.core import InvalidInput, TacitError, Trust, Unit
from tacit.core.files import write_file
from tacit.core.options import Options
from tacit.core.samples import column_names
from tacit.datasets.frame import Frame
from tacit.datasets.image_files import ImageFiles
from tacit.datasets.table import require_finite
from tacit.datasets.tables import read_data
from tacit.encoders.kinds import all_numbers
from tacit.federation.coordinator import Journal, RoundPolicy, RoundStatus
from tacit.federation.settings import read_peers, read_settings
from tacit.methods.registry import AUTO, Method, chosen_method
from tacit.methods.rknn.method import require_robust
from tacit.methods.task import Nodes
from tacit.runs.distill import distill
from tacit.runs.folders import new_folder
from tacit.runs.inputs import Data
from tacit.runs.run import Run

__all__ = ["JOB_EXAMPLE", "FederationJob", "JobProgress", "conduct", "read_job", "run_job"]

JOB_EXAMPLE = """\
method = "rknn"
public = "samples.csv"              # unlabeled public samples: .csv or .npz, or a folder of images
classes = ["ill", "well"]           # the same list, in the same order, at every node
epsilon = 1.0                       # spent by each node
records = 1000                      # the public number of records of all nodes together
nodes = 4                           # the number of nodes to wait for
at_least = 3                        # the number of nodes that must answer
deadline = 300                      # seconds for a round
grace = 30                          # seconds to wait for the others once enough have answered
out = "run"                         # the folder of the run
"""
_NEEDS = {
    "masked": ("peers",),
    "shuffle": ("service", "identity"),
    "central": ("service", "identity", "curator_key"),
}


class FederationJob(BaseModel):
    """The settings of a job. Numbers of records and nodes are public; other keys are the method's options."""

    model_config = ConfigDict(extra="allow", frozen=True)

    method: str = AUTO
    public: str
    classes: Annotated[list[str], Field(min_length=2)]
    epsilon: Annotated[float, Field(gt=0)] | None = None
    delta: Annotated[float, Field(ge=0, lt=1)] | None = None
    records: Annotated[int, Field(ge=1)]
    nodes: Annotated[int, Field(ge=1)]
    at_least: Annotated[int, Field(ge=1)]
    deadline: Annotated[float, Field(gt=0)] = 300.0
    grace: Annotated[float, Field(ge=0)] = 30.0
    patience: Annotated[float, Field(ge=0)] = 300.0
    holders: Literal["nodes", "records"] = "nodes"
    trust: Literal["local", "masked", "shuffle", "central"] | None = None
    peers: str | None = None
    service: str | None = None
    service_authority: str | None = None
    identity: str | None = None
    curator_key: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    node_records: Annotated[int, Field(ge=1)] | None = None
    colluding: Annotated[int, Field(ge=0)] | None = None
    person: str | None = None
    records_per_person: Annotated[int, Field(ge=1)] = 1
    adjacency: Literal["replace-one", "add-remove"] = "replace-one"
    data_kind: Literal["images", "text", "mixed", "table", "embedding"] | None = None
    text: list[str] = []
    categories: list[str] = []
    out: str

    @field_validator("holders", mode="before")
    @classmethod
    def _current_name(cls, value: object) -> object:
        if value == "sites":
            raise ValueError("'sites' is called 'nodes' now")
        return value

    @property
    def chosen(self) -> tuple[Method, Options]:
        """The method and its options, from the keys that are not common to all jobs."""
        return chosen_method(self.method, self.model_extra or {})

    @property
    def options(self) -> Options:
        """The options of the method."""
        return self.chosen[1]

    @property
    def recipe(self) -> str:
        """What a resumed job must not change. A description of the samples is left out if there is none."""
        unsaid = {name for name in ("data_kind", "text", "categories") if not getattr(self, name)}
        return self.model_dump_json(exclude={"out", "patience", *unsaid})

    @property
    def described(self) -> bool:
        """Whether the job says that the public table is more than numbers."""
        return self.data_kind in ("text", "mixed") or bool(self.text or self.categories)

    @property
    def terms(self) -> RoundPolicy:
        """When a round ends."""
        together = self.records if self.node_records is None else None
        return RoundPolicy(self.nodes, self.at_least, self.deadline, self.grace, self.patience, self.most, together)

    @property
    def most(self) -> int:
        """The most records that one node may have: an answer with more is rejected."""
        return self.node_records or self.records


def read_job(path: str | Path) -> FederationJob:
    """The settings in a job file; errors name each wrong field, and paths are relative to the file.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "job.toml"
    >>> _ = file.write_text(JOB_EXAMPLE)
    >>> read_job(file).at_least
    3
    """
    path = Path(path)
    found = read_settings(path, FederationJob, "the job ")
    if found.at_least > found.nodes:
        raise InvalidInput(f"{path}: at_least must be at most the {found.nodes} nodes, got {found.at_least}")
    try:
        complete = _with_defaults(found)
        _check_method(complete, named=found.trust is not None)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None
    home = path.absolute().parent
    files = ("public", "out", "peers", "service_authority", "identity")
    absolute = {name: str(home / value) for name in files if (value := getattr(found, name)) is not None}
    return complete.model_copy(update=absolute)


def _with_defaults(job: FederationJob) -> FederationJob:
    """The job with the method that runs, and its trust model."""
    method, options = job.chosen
    return job.model_copy(update={"method": method.name, "trust": job.trust or method.trust_over_nodes(options)})


def _check_method(job: FederationJob, named: bool) -> None:
    """Refuse early what the method would refuse later, as far as the settings show it."""
    method, options = job.chosen
    if job.trust not in method.over_nodes:
        raise InvalidInput(f"{method.name} does not work with {job.trust} trust")
    if missing := [name for name in _NEEDS.get(str(job.trust), ()) if getattr(job, name) is None]:
        instead = "" if named else f". It is the default of {method.name}: name another trust, or give this"
        raise InvalidInput(f"{job.trust} trust needs {', '.join(missing)}{instead}")
    if job.colluding is not None and job.trust != "masked":
        raise InvalidInput(f"colluding is for masked trust (secure aggregation), not for {job.trust} trust")
    if job.epsilon is None and getattr(options, "round_epsilon", None) is None:
        raise InvalidInput("epsilon is missing: how much each node spends")
    if (robust := getattr(options, "robust", None)) is not None:
        require_robust(robust, Trust(job.trust), job.holders)


class JobProgress:
    """A job's progress in a file that other processes may read; it is replaced atomically."""

    def __init__(self, journal: Path) -> None:
        self._file = journal / "progress.json"
        self._rounds: dict[int, dict[str, Any]] = {}

    def round(self, status: RoundStatus) -> None:
        """Store the new status of a round."""
        self._rounds[status.number] = asdict(status)
        self.say("running", status.in_words)

    def say(self, state: str, message: str) -> None:
        """Store the job's state and a message."""
        content = {
            "state": state,
            "message": message,
            "process": os.getpid(),
            "rounds": [self._rounds[number] for number in sorted(self._rounds)],
        }
        write_file(self._file, json.dumps(content).encode())


def run_job(
    job: FederationJob,
    exchange: Callable[[str, Journal, Callable[[RoundStatus], None]], Any],
    announce: Callable[[str], None] = lambda _: None,
) -> Run:
    """Run a job over the exchange that ``exchange`` returns for its run, and write the run folder.

    The journal is a folder beside the run folder. A restarted job finds its rounds there and does not ask again for
    stored answers; a job whose run folder exists is complete.
    """
    out = Path(job.out)
    journal = Journal.open(out.with_name(f"{out.name}.journal"), job.recipe)
    progress = JobProgress(journal.folder)
    progress.say("running", "reading the public samples")
    try:
        if out.exists():
            raise InvalidInput(f"{out}: exists already; choose another out")
        run = _distilled(job, exchange(journal.run, journal, progress.round), journal.run)
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


# Read once: nodes get its column names, and the method its rows.
@lru_cache(maxsize=1)
def _public(file: str, described: bool) -> Any:  # noqa: ANN401
    """Rows of numbers with the names of their columns; raw rows for an encoder, which names the columns itself."""
    found = read_data(file)
    if isinstance(found, ImageFiles) or (isinstance(found, Frame) and (described or not all_numbers(found))):
        return found
    return (found.numbers() if isinstance(found, Frame) else require_finite(found)).frame


def _distilled(job: FederationJob, exchange: Any, request: str) -> Run:  # noqa: ANN401
    nodes = Nodes(
        exchange, job.nodes, job.records, job.holders, Fraction(job.at_least, job.nodes),
        colluding=job.colluding, deliver=getattr(exchange, "deliver", None),
    )  # fmt: skip
    unit = None if job.person is None else Unit.person(job.person, job.records_per_person)
    return distill(
        None, _public(job.public, job.described), _exact(job.epsilon), delta=_exact(job.delta), method=job.options,
        data=Data(job.data_kind, text=job.text, categories=job.categories),
        classes=job.classes, unit=unit, adjacency=job.adjacency, trust=job.trust, request=request, exchange=nodes,
    )  # fmt: skip


def _exact(number: float | None) -> str | None:
    """The number as written, not as the nearest float."""
    return None if number is None else str(number)


def conduct(grid: Any, settings: Mapping[str, Any]) -> None:  # noqa: ANN401
    """The work of the Flower server app: run the job that the run's settings name, over Flower's grid."""
    from tacit.federation.collector.client import Address
    from tacit.federation.coordinator import NodeHeads
    from tacit.federation.flower.server import FlowerExchange
    from tacit.federation.flower.summed import Collector, FlowerCollected, FlowerMasked
    from tacit.federation.keys import SigningIdentity

    job = read_job(str(settings["job"]))
    public = _public(job.public, job.described)
    named = not isinstance(public, Frame | ImageFiles)
    terms = replace(job.terms, features=(column_names(public, job.public) or ()) if named else ())
    # Beside the runs, so that later jobs of this coordinator know the payments that nodes have shown.
    heads = NodeHeads(Path(job.out).with_name("nodes.heads"))

    def exchange(run: str, journal: Journal, tell: Callable[[RoundStatus], None]) -> Any:  # noqa: ANN401
        match job.trust:
            case "masked":
                return FlowerMasked(grid, run, terms, read_peers(Path(str(job.peers))), journal, tell, heads)
            case "shuffle" | "central":
                collector = Collector(
                    Address(str(job.service), job.service_authority),
                    SigningIdentity.read(str(job.identity)),
                    None if job.curator_key is None else bytes.fromhex(job.curator_key),
                )
                return FlowerCollected(grid, run, terms, collector, journal, tell, heads)
            case _:
                return FlowerExchange(grid, run, terms, journal, tell, heads)

    run_job(job, exchange)
