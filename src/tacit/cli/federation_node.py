"""``tacit federation node``, ``jobs`` and ``cancel``: run a node, list its jobs, cancel a job."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from tacit.cli.screen import console, show_error, show_reading, show_rows
from tacit.core import InvalidInput, TacitError

if TYPE_CHECKING:
    from tacit.federation.flower.processes import NodeConnection
    from tacit.federation.node.service import NodeService
    from tacit.federation.processes import Processes, Reminder

__all__ = ["cancel_command", "jobs_command", "node_command"]

_PAUSE = 0.2
# Seconds for Flower's processes to send the last response.
_SENDING = 15.0
_FILE = typer.Argument(..., help="The node's file.", show_default=False)


def node_command(file: Path = _FILE) -> None:
    """Run a node in the foreground, until it is stopped.

    It reads its records once and answers one question after another. The ledger is created from the policy at the first
    start; later changes of the policy are applied. The state folder beside the node file has the logs: service.jsonl
    with events and refusals, and node.log with Flower's own lines. service.json has the address of /health, /ready and
    /metrics. Warnings about a certificate that expires within 30 days or is not trusted, and about a wrong clock, are
    printed and logged.

    With SIGTERM or Ctrl-C it finishes the running question and exits with code 0; a second signal ends it at once.

    Example: tacit federation node here/node.toml
    """
    show_reading(file)
    from tacit.cli.federation_watch import reminded_node, require_valid
    from tacit.federation.flower.processes import NodeConnection, require_version, supernode_command
    from tacit.federation.node.node import prepare_ledger
    from tacit.federation.node.queue import JobQueue, queue_file
    from tacit.federation.node.service import SOCKET, NodeService, budgets
    from tacit.federation.node.telemetry import NodeMetrics, NodeWeb, log_events, read_token, tell
    from tacit.federation.processes import Processes, ended_by_signals, free_port, only_process
    from tacit.federation.settings import read_node_file
    from tacit.version import __version__

    require_version()
    settings = read_node_file(file)
    if settings.link is None:
        raise InvalidInput(f"{file}: has no section [link], so there is no coordinator to connect to")
    require_valid([settings.link.authority], "get the coordinator's new authority.pem")
    # All files of a node are readable by its operator only.
    os.umask(0o077)
    state, serving = settings.state, settings.service
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    once = only_process(
        state / "node.lock", f"the node {settings.name} is already running; only one process may use its ledger"
    )
    again = "; the ledger stays as it is, and the node can be started again at any time"
    with (
        once,
        ended_by_signals(again),
        closing(JobQueue(queue_file(settings.state), serving.waiting)) as queue,
        Processes(state) as processes,
    ):
        prepare_ledger(settings, lambda said: console.print(said, soft_wrap=True))
        log_events(state / "service.jsonl")
        metrics = NodeMetrics(settings.name, queue.waiting, lambda: budgets(settings))
        service = NodeService(file.absolute(), queue, metrics)
        # Errors in the data are found here, where its owner reads them.
        service.load()
        token = read_token(serving.token or state / "metrics.token")
        command = supernode_command(settings.link, state, state / SOCKET, free_port())
        connection = NodeConnection(processes, command, state, lambda what: tell("error", what=what))
        web = NodeWeb(metrics, token, lambda: service.ready and connection.connected)
        address = web.start(serving.host, serving.port)
        (state / "service.json").write_text(json.dumps({"address": address, "process": os.getpid()}), encoding="utf-8")
        service.start(state)
        connection.start()
        tell("started", node=settings.name, version=__version__, address=address, waiting=queue.waiting())
        console.print(f"node [bold]{settings.name}[/bold] connects to {settings.link.address}; its log is in {state}")
        with _signals() as came:
            _serve(service, connection, reminded_node(settings.link), came, state)
            tell("draining", signal=came[0])
            # Said at once: whoever sees nothing happen sends a second signal, which is the one that ends an answer.
            console.print(
                f"{came[0]}: stops when a running question is answered and sent, after {serving.drain:g} seconds "
                "in any case; a second signal ends it at once",
                soft_wrap=True,
            )
            service.drain()
            over = _ended_well(service, processes, came, serving.drain)
        service.close()
        tell("ended", state="idle" if over else "at work")
        if over:
            console.print("ended; no question is unfinished")
    if not over:
        _leave(f"a second {came[-1]}" if len(came) > 1 else "", serving.drain)


def _leave(signaled: str, seconds: float) -> None:
    """End this process at once, in the middle of a question: Python would wait for the threads that count."""
    cut = "in the middle of a question; started again, the node resumes it, and nothing is paid twice"
    if signaled:
        show_error(f"ended by {signaled} {cut}")
    else:
        console.print(f"ended after {seconds:g} seconds {cut}")
    sys.stdout.flush()
    os._exit(1 if signaled else 0)


def _serve(service: NodeService, connection: NodeConnection, reminder: Reminder, came: list[str], state: Path) -> None:
    """Look after everything until a signal comes."""
    while not came:
        connection.look()
        if not service.alive:
            raise TacitError(f"the node cannot answer any more. Its log says why: {state / 'service.jsonl'}")
        reminder.look()
        time.sleep(_PAUSE)


def _ended_well(service: NodeService, processes: Processes, came: list[str], seconds: float) -> bool:
    """Wait until the last answer is sent, or for a second signal; returns whether it was sent."""
    end = time.monotonic() + seconds
    while not service.idle(_PAUSE):
        if len(came) > 1 or time.monotonic() >= end:
            processes.kill("node")
            return False
        time.sleep(_PAUSE)
    end = time.monotonic() + _SENDING
    while processes.at_work("node") > 1 and time.monotonic() < end and len(came) < 2:
        time.sleep(_PAUSE)
    # Flower checks for replies every half second.
    time.sleep(0.0 if len(came) > 1 else 2.0)
    return True


@contextmanager
def _signals() -> Iterator[list[str]]:
    """The names of the termination signals received in the meantime."""
    came: list[str] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(signal.Signals(number).name)

    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {each: signal.getsignal(each) for each in ends if signal.getsignal(each) is not signal.SIG_IGN}
    for each in before:
        signal.signal(each, note)
    try:
        yield came
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def jobs_command(
    file: Path = _FILE,
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """List a node's jobs: how many questions of each are waiting, answered or refused, and what was paid.

    A job is one run of a coordinator. Example: tacit federation jobs here/node.toml
    """
    if not as_json:
        show_reading(file)
    from tacit.federation.node.queue import JobQueue, queue_file
    from tacit.federation.settings import read_node_file

    place = queue_file(read_node_file(file).state)
    found = []
    if place.exists():
        with closing(JobQueue(place)) as queue:
            found = queue.jobs()
    if as_json:
        typer.echo(json.dumps([vars(each) for each in found], indent=2))
        return
    if not found:
        console.print("no job has been received yet")
        return
    rows = [
        (each.id, each.came, "canceled" if each.canceled else "-",
         ", ".join(f"{count} {state}" for state, count in each.states.items()), "; ".join(each.paid) or "-", each.run)
        for each in found
    ]  # fmt: skip
    show_rows(("job", "received", "canceled", "questions", "paid", "run"), rows, folding=("questions", "paid", "run"))


def cancel_command(
    file: Path = _FILE,
    job: str = typer.Argument(..., help="The job's id, or the beginning of it.", show_default=False),
) -> None:
    """Cancel a job at a node: none of its questions is answered any more.

    Waiting questions are refused, and a running one stops at its next step. Payments stay, and are shown. The
    coordinator can ask again in a new run: the policy and approvals decide what it may ask at all.

    Example: tacit federation cancel here/node.toml 3f2a
    """
    show_reading(file)
    from tacit.federation.node.queue import JobQueue, queue_file
    from tacit.federation.settings import read_node_file

    place = queue_file(read_node_file(file).state)
    if not place.exists():
        raise InvalidInput(f"{place}: this node has received no job yet")
    with closing(JobQueue(place)) as queue:
        report = queue.cancel(job)
    console.print(Text.assemble(("canceled", "bold"), f"  {report.id}: {report.in_words}"), soft_wrap=True)
