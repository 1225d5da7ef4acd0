"""``tacit federation demo``: a coordinator and four nodes on this machine, one of which is killed during the round."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tacit.cli.screen import console, show_claim

if TYPE_CHECKING:
    from tacit.federation.collector.client import Address
    from tacit.federation.processes import Processes
    from tacit.federation.settings import NodeFile

__all__ = ["federation_demo_command"]

_NAMES = ("east", "north", "south", "west")
KILLED = "west"
# How often the removal of a folder is retried, and the seconds between two attempts.
REMOVALS, _PAUSE = 20, 0.3
_MECHANISMS = {"local": "DiscreteLaplaceNoise", "masked": "DistributedLaplace", "shuffle": "Shuffled"}
_POLICY = """\
[accounts.{name}]
epsilon = {ceiling}
delta = 2e-5

[allow]
methods = ["rknn"]
mechanisms = ["{mechanism}"]
purposes = ["reverse k-NN labels"]
participants = 3
"""
NODE = """\
name = "{name}"
data = "records.npz"
label = "y"
classes = {classes}
policy = "policy.toml"
ledger = "{name}.ledger"
account = "{name}"
pace = 1.0
identity = "{name}.identity"
peers = "../study/peers.toml"
{shuffler}
[link]
address = "{address}"
authority = "authority.pem"
key = "{name}.key"
"""
JOB = """\
method = "rknn"
public = "public.npz"
classes = {classes}
epsilon = {epsilon}
records = 1000
nodes = 4
at_least = 3
node_records = 250
deadline = 600
grace = 5
patience = 600
out = "run"
"""
_SETTINGS = {
    "local": 'trust = "local"\n',
    "masked": 'trust = "masked"\npeers = "peers.toml"\n',
    "shuffle": 'trust = "shuffle"\ndelta = 1e-5\nmechanism = "one message"\nqueries = 12\n'
    'identity = "coordinator.identity"\nservice = "{service}"\nservice_authority = "../mixing/authority.pem"\n',
}


def federation_demo_command(
    epsilon: float = typer.Option(1.0, help="The budget that each node spends: smaller is more private."),
    trust: str = typer.Option("shuffle", help="shuffle (with a shuffler), masked (secure aggregation), or local."),
    kill: bool = typer.Option(True, help="Kill one node in the middle of the round."),
    folder: Path | None = typer.Option(None, help="Keep everything in this new folder instead of a temporary one."),
) -> None:
    """Run a federation on this machine: certificates, a coordinator, a shuffler and four nodes, over TLS.

    Each node is a separate process with a quarter of 1,000 private digits and its own policy and ledger. The
    coordinator labels 500 public digits from their answers. Messages are encrypted for the coordinator and reach it
    through the shuffler only, which permutes them and can read none. During the round one node is killed: the round
    continues with the other three. Everything is cleaned up at the end.

    Example: tacit federation demo --trust masked
    """
    from tacit.core import InvalidInput, positive
    from tacit.core.errors import not_one_of

    positive(epsilon, "epsilon")
    if trust not in _MECHANISMS:
        raise not_one_of("trust", _MECHANISMS, trust)
    if folder is not None and folder.exists():
        raise InvalidInput(f"{folder}: exists already; choose another folder")
    # Flower takes a while to be imported.
    console.print("[dim]a coordinator and four nodes on this machine[/dim]")
    from tacit.federation.flower.processes import require_version
    from tacit.federation.processes import ended_by_signals

    require_version()
    place = _passing_folder() if folder is None else nullcontext(str(folder))
    cleaned = "; all processes are ended" + (", and nothing is left" if folder is None else "")
    with ended_by_signals(cleaned), place as home:
        _run(Path(home), epsilon, trust, kill)


@contextmanager
def _passing_folder() -> Iterator[str]:
    """A folder that is removed afterwards, with every process in it: one still running would write again."""
    from tacit.federation.processes import end_within

    home = tempfile.mkdtemp(prefix="tacit-federation-")
    try:
        yield home
    finally:
        for _ in range(REMOVALS):
            lively = end_within(home)
            shutil.rmtree(home, ignore_errors=True)
            time.sleep(_PAUSE)
            if not lively and not Path(home).exists():
                break


def _run(home: Path, epsilon: float, trust: str, kill: bool) -> None:
    from tacit.cli.federation_watch import linked, submitted, watched
    from tacit.federation.collector.client import Address
    from tacit.federation.processes import Processes, free_port
    from tacit.runs.federation import read_job

    study, port = home / "study", free_port()
    console.print("[bold]making[/bold]     an authority, a certificate, and a key, a policy and a ledger for each node")
    mixing = free_port()
    files = _files(home, study, f"127.0.0.1:{port}", f"https://127.0.0.1:{mixing}", epsilon, trust)
    job = read_job(study / "job.toml")
    program = [sys.executable, "-c", "from tacit.cli import main; main()"]
    with Processes(home / "logs") as processes:
        if trust == "shuffle":
            console.print(f"[bold]starting[/bold]   the shuffler at 127.0.0.1:{mixing}, over TLS of its own")
            command = [*program, "federation", "shuffler", str(home / "mixing" / "shuffler.toml")]
            processes.start("shuffler", command, dict(os.environ))
        console.print(f"[bold]starting[/bold]   the coordinator at 127.0.0.1:{port}, over TLS")
        with linked(processes, study, study / "state", "127.0.0.1", port) as control:
            console.print(f"[bold]starting[/bold]   nodes {', '.join(_NAMES)}; only registered keys are admitted")
            for name, (file, _) in files.items():
                processes.start(name, [*program, "federation", "node", str(file)], dict(os.environ))
            began = time.time()
            submitted(control, study / "job.toml")
            shuffler = Address(f"https://127.0.0.1:{mixing}", home / "mixing" / "authority.pem", timeout=5)
            state = _State(files, processes, kill, shuffler if trust == "shuffle" else None)
            with Live(state.table(), console=console, refresh_per_second=4, transient=False) as live:

                def show(found: dict[str, Any]) -> None:
                    state.take(found)
                    live.update(state.table())

                watched(job, processes, show, began, patience=600.0)
                live.update(state.table())
        _result(Path(job.out))


def _files(
    home: Path, study: Path, address: str, service: str, epsilon: float, trust: str
) -> dict[str, tuple[Path, NodeFile]]:
    from urllib.parse import urlsplit

    from tacit.cli.federation_setup import new_coordinator, new_node, new_service
    from tacit.datasets.published import digits
    from tacit.federation.node.node import prepare_ledger
    from tacit.federation.settings import read_node_file

    parts = digits()
    classes = [str(name) for name in parts.classes]
    new_coordinator(study, [])
    np.savez(study / "public.npz", X=parts.public_samples)
    job = JOB.format(classes=classes, epsilon=epsilon) + _SETTINGS[trust].format(service=service)
    (study / "job.toml").write_text(job.replace("'", '"'), encoding="utf-8")
    link = f'\n[shuffler]\naddress = "{service}"\nauthority = "../mixing/authority.pem"\n' if trust == "shuffle" else ""
    found = {}
    for name, rows in zip(_NAMES, np.array_split(np.arange(len(parts.private_labels)), len(_NAMES)), strict=True):
        own = home / name
        new_node(own, name, address, study / "authority.pem")
        (study / "nodes" / f"{name}.pub").write_bytes((own / f"{name}.pub").read_bytes())
        np.savez(own / "records.npz", X=parts.private_samples[rows], y=parts.private_labels[rows])
        policy = _POLICY.format(name=name, ceiling=2 * epsilon, mechanism=_MECHANISMS[trust])
        (own / "policy.toml").write_text(policy, encoding="utf-8")
        text = NODE.format(name=name, address=address, classes=classes, shuffler=link).replace("'", '"')
        (own / "node.toml").write_text(text, encoding="utf-8")
        settings = read_node_file(own / "node.toml")
        prepare_ledger(settings)
        found[name] = (own / "node.toml", settings)
    peers = "".join((home / name / f"{name}.id").read_text(encoding="ascii") for name in _NAMES)
    (study / "peers.toml").write_text(peers, encoding="ascii")
    if trust == "shuffle":
        new_service(
            home / "mixing", "shuffler", [], urlsplit(service).port or 0, study / "coordinator.id", study / "peers.toml"
        )
    return found


class _State:
    """The screen's content: each node, its state in this round, and its remaining budget."""

    def __init__(
        self, files: dict[str, tuple[Path, NodeFile]], processes: Processes, kill: bool, shuffler: Address | None
    ) -> None:
        self._shuffler = shuffler
        self._files = files
        self._processes = processes
        self._kill = kill
        self._message = "waiting for the coordinator and the nodes"
        self._round: dict[str, Any] = {"number": 0, "asked": [], "answered": [], "dropped": {}}
        self._began = time.monotonic()

    def take(self, found: dict[str, Any]) -> None:
        """Read the job's progress; in the middle of the first round kill one node."""
        self._message = found["message"]
        if not found["rounds"]:
            return
        self._round = found["rounds"][-1]
        if self._kill and KILLED in self._round["asked"] and KILLED not in self._round["answered"]:
            self._kill = False
            self._processes.kill(KILLED)

    def table(self) -> Table:
        """The nodes as they are now."""
        status = self._round
        heard = len(status["answered"]) + len(status["dropped"])
        shuffled = self._shuffled()
        table = Table(
            "node", "process", "this round", "ε left of its own ledger",
            title=f"round {status['number'] + 1} · {len(status['asked'])} questions sent · {heard} settled · "
            f"{shuffled}{time.monotonic() - self._began:.0f} s",
            caption=Text(self._message),
        )  # fmt: skip
        for name in _NAMES:
            alive = self._processes.alive(name)
            process = Text("running", "green") if alive else Text("killed", "red")
            table.add_row(name, process, self._did(name), self._left(name))
        return table

    def _shuffled(self) -> str:
        """The shuffler's own counts of nodes and batches."""
        from tacit.core import TacitError
        from tacit.federation.collector.client import read_status

        if self._shuffler is None:
            return ""
        try:
            batches = read_status(self._shuffler)["batches"]
        except TacitError:
            return ""
        came, went = (sum(each[name] for each in batches) for name in ("nodes", "collected"))
        return f"shuffler: {came} submissions in, {went} batches out · "

    def _did(self, name: str) -> str:
        if name in self._round["answered"]:
            return "answered"
        return str(self._round["dropped"].get(name, "asked" if name in self._round["asked"] else "-"))

    def _left(self, name: str) -> str:
        from tacit.core import decimal
        from tacit.ledger import opened

        settings = self._files[name][1]
        with opened(settings.ledger) as book:
            balance = book.balance(settings.account)
        return f"{balance.remaining_shown} of {decimal(balance.ceiling.epsilon)}"


def _result(out: Path) -> None:
    from tacit.datasets.published import digits
    from tacit.runs.baselines import accuracy
    from tacit.runs.run import load

    parts, run = digits(), load(out)
    labels = accuracy(run.labels.astype(int), parts.public_labels)
    test = accuracy(run.student.predict(parts.test_samples).astype(int), parts.test_labels)
    console.print(
        f"[bold]result[/bold]     {run.recipe['answered']} of {run.recipe['nodes']} nodes answered; "
        f"{100 * labels:.1f} % of the public labels are right, the student is right on {100 * test:.1f} % of the test"
    )
    show_claim(run.guarantee)
