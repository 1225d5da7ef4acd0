"""``tacit federation``: coordinator and nodes as separate processes, over TLS."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from tacit.cli.federation_check import check_command
from tacit.cli.federation_demo import federation_demo_command
from tacit.cli.federation_intake import device_command, intake_app
from tacit.cli.federation_node import cancel_command, jobs_command, node_command
from tacit.cli.federation_setup import approve
from tacit.cli.federation_setup import nodes_app as nodes
from tacit.cli.screen import console, flowing, show_claim, show_reading, show_rows, visible
from tacit.core import InvalidInput, listed

if TYPE_CHECKING:
    from tacit.federation.settings import ServiceConfig

__all__ = ["federation_app", "fleet_command"]

federation_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help=flowing("""Distill over a federation: each node keeps its records, policy and ledger.

A coordinator asks, nodes answer through their own gates, over TLS and with registered keys. A node refuses what its
own policy does not allow; nothing a job says can change that.

Start with [bold]tacit federation demo[/bold]: a coordinator and four nodes on this machine."""),
)
federation_app.command("demo", help=flowing(federation_demo_command.__doc__ or ""))(federation_demo_command)
federation_app.command("check", help=flowing(check_command.__doc__ or ""))(check_command)
federation_app.add_typer(nodes, name="nodes")
federation_app.add_typer(intake_app, name="intake")
federation_app.command("device", help=flowing(device_command.__doc__ or ""))(device_command)
federation_app.command(help=flowing(approve.__doc__ or ""))(approve)


def fleet_command(
    folder: Path = typer.Argument(..., help="The coordinator's folder.", show_default=False),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of tables."),
) -> None:
    """Show all nodes: who is admitted, their answers, their refusals by reason, and their payments.

    It is what this coordinator knows from its own jobs. A node's ceiling and its payments to other coordinators are
    known only if its operator lets it state them (tell_budget): the amount shown as paid is the least that it has
    spent. Nothing is asked and nothing is changed.

    Example: tacit federation fleet study
    """
    if not as_json:
        show_reading(folder)
    from tacit.runs.fleet import read_fleet

    found = read_fleet(folder)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
        return
    if not found.nodes:
        console.print(f"no node is listed; add one with `tacit federation nodes add {folder} north.pub`", markup=False)
        return
    rows = [
        (each.name, each.state, f"{each.answered} of {each.asked}", f"{each.lost}",
         ", ".join(f"{count} {reason}" for reason, count in sorted(each.refusals.items())) or "-",
         each.paid or "-", each.told or "-", each.last_answer or "-")
        for each in found.nodes
    ]  # fmt: skip
    columns = ("node", "state", "rounds answered", "lost", "refusals", "paid at least", "budget told", "last answer")
    show_rows(columns, rows, folding=("refusals", "paid at least", "budget told"))
    jobs = [(each.name, each.state, f"{each.rounds}", each.message) for each in found.jobs]
    if jobs:
        show_rows(("job", "state", "rounds", "says"), jobs, folding=("says",))


federation_app.command("node", help=flowing(node_command.__doc__ or ""))(node_command)
federation_app.command("jobs", help=flowing(jobs_command.__doc__ or ""))(jobs_command)
federation_app.command("fleet", help=flowing(fleet_command.__doc__ or ""))(fleet_command)
federation_app.command("cancel", help=flowing(cancel_command.__doc__ or ""))(cancel_command)


@federation_app.command(
    help=flowing("""Make keys, certificates and files to fill in: for a coordinator, or with --node for a node.

At the coordinator: tacit federation init study --host study.example.org. It creates the certificate authority.
Give every node study/authority.pem, and keep study/authority.key to yourself.

At a node: tacit federation init here --node north --address study.example.org:9092 --authority authority.pem. Send
here/north.pub to the coordinator, who admits the node with tacit federation nodes add. The private key stays.

Example: tacit federation init study --host study.example.org

At a shuffler or a curator: tacit federation init mixing --service shuffler --host mix.example.org --coordinator
coordinator.id --peers peers.toml. It creates its own certificate authority, whose certificate goes to the nodes.""")
)
def init(
    folder: Path = typer.Argument(..., help="The folder to create.", show_default=False),
    host: list[str] = typer.Option([], help="A name or address under which nodes reach the coordinator; repeatable."),
    node: str | None = typer.Option(None, help="Create a node of this name."),
    address: str | None = typer.Option(None, help="With --node: the coordinator's host:port."),
    authority: Path | None = typer.Option(None, help="With --node: the coordinator's authority.pem."),
    service: str | None = typer.Option(None, help="Create a shuffler or a curator."),
    port: int = typer.Option(9300, help="With --service: the port it listens on."),
    listen: str | None = typer.Option(None, help="With --service: the address it listens at, if not that of --host."),
    coordinator: Path | None = typer.Option(None, help="With --service: the coordinator's coordinator.id."),
    peers: Path | None = typer.Option(None, help="With --service: a file with the .id lines of all nodes."),
) -> None:
    """Make keys, certificates and files to fill in."""
    console.print("[dim]making keys and files to fill in[/dim]")
    from tacit.cli.federation_setup import new_coordinator, new_node, new_service

    _require_flower()
    if service is not None:
        if node is not None or coordinator is None or peers is None:
            raise InvalidInput("--service needs --coordinator and --peers: who may ask it, and who may submit")
        made = new_service(folder, service, host, port, coordinator, peers, listen)
    elif node is None:
        made = new_coordinator(folder, host)
    else:
        if address is None or authority is None:
            raise InvalidInput("--node needs --address and --authority: where the coordinator is, and whom to trust")
        made = new_node(folder, node, address, authority)
    for file in made:
        console.print(Text.assemble(("made", "bold"), f"  {file}"), soft_wrap=True)


@federation_app.command(
    help=flowing("""Run a job: serve the nodes, ask them, label the public samples and train a student.

The nodes are those that the folder lists (tacit federation nodes list); no others are admitted. Start a coordinator
that was killed again with the same command: it resumes, and no node pays twice. A folder has one coordinator.

Example: tacit federation coordinator study --job study/job.toml --host 0.0.0.0 --port 9092""")
)
def coordinator(
    folder: Path = typer.Argument(..., help="The coordinator's folder.", show_default=False),
    job: Path | None = typer.Option(None, help="The job file; the folder's job.toml if left out."),
    host: str = typer.Option("127.0.0.1", help="The address to listen on; 0.0.0.0 for all."),
    port: int = typer.Option(9092, help="The port to listen on."),
) -> None:
    """Run a job."""
    show_reading(folder)
    from tacit.cli.federation_watch import linked, reminded_coordinator, require_valid, submitted, watched
    from tacit.federation.processes import Processes, ended_by_signals
    from tacit.runs.federation import read_job
    from tacit.runs.run import load

    _require_flower()
    if not (folder / "authority.pem").is_file():
        raise InvalidInput(f"{folder}: not a coordinator's folder; make one with `tacit federation init {folder}`")
    file = job or folder / "job.toml"
    work = read_job(file)
    if Path(work.out).exists():
        raise InvalidInput(f"{work.out}: exists already; choose another out in {file}")
    if not list((folder / "nodes").glob("*.pub")):
        raise InvalidInput(f"{folder / 'nodes'}: has no node's public key, so no node could connect")
    certificates = [folder / "authority.pem", folder / "coordinator.pem"]
    require_valid(certificates, f"renew it with `tacit federation nodes renew {folder}`")
    reminder = reminded_coordinator(certificates)
    shown: list[str] = []

    def show(found: dict[str, Any]) -> None:
        reminder.look()
        if found["message"] not in shown:
            shown.append(found["message"])
            console.print(visible(found["message"]), soft_wrap=True, highlight=False, markup=False)

    state = folder / "state"
    again = "; start it again to resume the job, and nobody pays twice"
    with (
        ended_by_signals(again),
        Processes(state) as processes,
        linked(processes, folder, state, host, port) as control,
    ):
        console.print(f"serving nodes at {host}:{port}; logs are in {state}")
        reminder.look()
        since = time.time()
        submitted(control, file)
        watched(work, processes, show, since)
    show_claim(load(work.out).guarantee)
    console.print(Text.assemble(("written", "bold"), f"  {work.out}"), soft_wrap=True)


@federation_app.command(
    help=flowing("""Run a shuffler in the foreground: it permutes what nodes submit, and can read none of it.

Its operator must not collude with the coordinator. Example: tacit federation shuffler mixing/shuffler.toml""")
)
def shuffler(file: Path = typer.Argument(..., help="The shuffler's file.", show_default=False)) -> None:
    """Run a shuffler."""
    # First: its file may be wrong, and the service takes seconds to load.
    config = _read_service(file)
    from tacit.federation.collector.batches import open_shuffler
    from tacit.federation.collector.service import serve

    serve(config, open_shuffler(*config.store), _say)


@federation_app.command(
    help=flowing("""Run a curator in the foreground: it is trusted with the nodes' counts, and releases noisy sums only.

Its ledger is made from policy.toml beside its file at the first start. Example: tacit federation curator
trusted/curator.toml""")
)
def curator(file: Path = typer.Argument(..., help="The curator's file.", show_default=False)) -> None:
    """Run a curator."""
    config = _read_service(file)
    from tacit.federation.collector.curator import Curator, open_curator, read_secret
    from tacit.federation.collector.service import serve
    from tacit.ledger import opened
    from tacit.ledger.places import occupied
    from tacit.ledger.policy import NO_LIMITS, read_limits, read_policy

    if config.sealing is None or config.ledger is None or config.account is None:
        raise InvalidInput(f"{file}: a curator needs its sealing key, its ledger and its account")
    rules = file.absolute().parent / "policy.toml"
    policy = None if occupied(config.ledger) else read_policy(rules)
    limits = read_limits(rules) if rules.exists() else NO_LIMITS
    with opened(config.ledger, policy) as ledger:
        made = Curator(read_secret(config.sealing), ledger, config.account, records=config.node_records, limits=limits)
        serve(config, open_curator(*config.store, made), _say)


@federation_app.command(
    help=flowing("""Show a node's spent and remaining budget, or the progress of a job. Nothing is changed.

Example: tacit federation status here/node.toml, or tacit federation status study/job.toml""")
)
def status(file: Path = typer.Argument(..., help="A node's file or a job file.", show_default=False)) -> None:
    """Show the state of a node or a job."""
    show_reading(file)
    from tacit.cli.federation_watch import progress_of
    from tacit.core.toml import read_toml
    from tacit.federation.settings import read_node_file
    from tacit.ledger import opened
    from tacit.runs.federation import read_job

    if "ledger" in read_toml(file):
        settings = read_node_file(file)
        with opened(settings.ledger) as book:
            words = book.balance(settings.account).in_words
        console.print(Text.assemble((settings.name, "bold"), f"  {words}"), soft_wrap=True)
        return
    found = progress_of(read_job(file))
    if found is None:
        console.print("the job has not begun")
        return
    console.print(Text.assemble((str(found["state"]), "bold"), f"  {found['message']}"), soft_wrap=True)
    rows = [
        (
            str(status["number"] + 1),
            str(len(status["asked"])),
            str(len(status["answered"])),
            ", ".join(status["dropped"]) or "-",
        )
        for status in found["rounds"]
    ]
    if rows:
        show_rows(("round", "asked", "answered", "lost"), rows, folding=("lost",))


def _read_service(file: Path) -> ServiceConfig:
    """Read a service's file before serving: its files are readable by its operator only, and its log has times."""
    # The first line on stdout says where it serves.
    typer.echo(f"reading {listed([str(file)])}", err=True)
    from tacit.federation.processes import log_to
    from tacit.federation.settings import read_service_config

    config = read_service_config(file)
    os.umask(0o077)
    log_to()
    return config


def _say(words: str) -> None:
    # Flushed, because whoever started the service waits for this line.
    typer.echo(words)
    sys.stdout.flush()


def _require_flower() -> None:
    from tacit.federation.flower.processes import require_version

    require_version()
