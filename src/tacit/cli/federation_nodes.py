"""``tacit federation nodes``: who belongs to a federation, and keys and certificates that can be renewed; and
``tacit federation approve``, by which a person at a node decides which jobs it answers.
"""

from __future__ import annotations

from pathlib import Path

import typer
from rich.text import Text

from tacit.cli.federation_watch import running
from tacit.cli.screen import console, flowing, show_rows
from tacit.core.errors import InvalidInput

__all__ = ["app", "approve"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help=flowing("""Who belongs to a federation, and its keys and certificates.

The list in the coordinator's folder is what the coordinator lets in, from its next start on: nobody else, and nobody
who was removed."""),
)
SERVERS = ("coordinator", "shuffler", "curator")
FOLDER = typer.Argument(..., help="The coordinator's folder.", show_default=False)


@app.command("list", help=flowing("Show who is let in, who was removed, and until when the certificates are valid."))
def list_nodes(folder: Path = FOLDER) -> None:
    """Show who is let in."""
    from tacit.federation.certificates import read_validity
    from tacit.federation.members import members, removed_members
    from tacit.federation.node.files import read_peers

    here, gone = members(folder), removed_members(folder)
    peers = read_peers(folder / "peers.toml") if (folder / "peers.toml").exists() else {}
    rows = [
        (each.name, "let in", f"{each.since}", "yes" if each.name in peers else "no", each.fingerprint) for each in here
    ]
    rows += [(each.name, "removed", f"{each.since}", "-", each.fingerprint) for each in gone]
    if rows:
        show_rows(("node", "state", "since", "in peers.toml", "key"), rows, folding=("key",))
    else:
        _say(f"no node is listed; add one with `tacit federation nodes add {folder} north.pub`")
    for name in ("authority.pem", "coordinator.pem"):
        found = read_validity(folder / name)
        _say(f"{name} is valid until {found.ends:%Y-%m-%d}")
        if (trouble := found.trouble()) is not None:
            _warn(f"{trouble}; renew it with `tacit federation nodes renew {folder}{_authority(name)}`")


@app.command(
    help=flowing("""Let a node in, under the name of its file.

Example: tacit federation nodes add hub north.pub --identity north.id""")
)
def add(
    folder: Path = FOLDER,
    public: Path = typer.Argument(..., help="The node's .pub file.", show_default=False),
    identity: Path | None = typer.Option(None, help="The node's .id file; its line goes into the folder's peers.toml."),
) -> None:
    """Let a node in."""
    from tacit.federation.members import add_member

    member = add_member(folder, public, identity)
    _say(f"{member.name} is let in {_when(folder)}; its key is {member.fingerprint}")


@app.command(
    help=flowing("""Let a node in no more. Its key is kept in nodes/removed, and is not let in again.

Example: tacit federation nodes remove hub north""")
)
def remove(
    folder: Path = FOLDER,
    name: str = typer.Argument(..., help="The node's name.", show_default=False),
) -> None:
    """Let a node in no more."""
    from tacit.federation.members import remove_member

    member = remove_member(folder, name)
    _say(f"{member.name} is not let in any more {_when(folder)}")
    _say(f"a shuffler or a curator has a list of its own: its operator takes {member.name} out of its file")


@app.command(
    help=flowing("""Renew certificates or a key.

In a coordinator's, a shuffler's or a curator's folder: its certificate, for the same key and names; with --authority
that of the authority before, which all nodes then need a copy of before the old one expires. It needs authority.key.

In a node's folder: a new key, whose .pub file goes to the coordinator. The old key is kept beside it.

With --key, at the coordinator: take a node's new key in place of its old one.""")
)
def renew(
    folder: Path = typer.Argument(..., help="A coordinator's, a service's or a node's folder.", show_default=False),
    key: Path | None = typer.Option(None, help="At the coordinator: the new .pub file of a node."),
    authority: bool = typer.Option(False, "--authority", help="Renew the authority's certificate, too."),
) -> None:
    """Renew certificates or a key."""
    from tacit.federation.certificates import renew_authority, renew_node_key, renew_server_certificate
    from tacit.federation.members import add_member
    from tacit.federation.node.files import read_node_file

    if key is not None:
        member = add_member(folder, key, renewed=True)
        _say(f"{member.name} is let in with its new key {_when(folder)}: {member.fingerprint}")
        return
    if (folder / "node.toml").is_file():
        link = read_node_file(folder / "node.toml").link
        if link is None or authority:
            raise InvalidInput(f"{folder}: a node renews the key that its section [link] names, and nothing else")
        public = renew_node_key(link.key)
        _say(f"made a new key. Send {public} to the coordinator, who takes it with `tacit federation nodes renew`")
        _say(f"until then the coordinator knows the old key only, which is in {link.key.with_suffix('.key.old')}")
        return
    servers = [name for name in SERVERS if (folder / f"{name}.pem").is_file()]
    if not servers:
        raise InvalidInput(f"{folder}: neither a coordinator's, a service's nor a node's folder")
    if authority:
        _renewed(renew_authority(folder))
        _say("give everybody who has a copy of authority.pem the new one; the old one is good until it expires")
    for name in servers:
        _renewed(renew_server_certificate(folder, name))
    _say("start it again to use the new certificate")


def _renewed(file: Path) -> None:
    from tacit.federation.certificates import read_validity

    found = read_validity(file)
    console.print(Text.assemble(("renewed", "bold"), f"  {file}, valid until {found.ends:%Y-%m-%d}"), soft_wrap=True)
    if (trouble := found.trouble()) is not None:
        _warn(f"{trouble}: no longer than its authority; renew that, too, with --authority")


def _authority(name: str) -> str:
    return " --authority" if name == "authority.pem" else ""


def _when(folder: Path) -> str:
    if running(folder):
        return "from the coordinator's next start on; it runs now, with the list that it was started with"
    return "from the coordinator's next start on"


def _say(words: str) -> None:
    console.print(words, soft_wrap=True, highlight=False, markup=False)


def _warn(words: str) -> None:
    console.print(Text.assemble(("warning", "bold yellow"), f"  {words}"), soft_wrap=True)


def approve(
    file: Path = typer.Argument(..., help="The node's file.", show_default=False),
    job: str | None = typer.Argument(None, help="The job's id, or the beginning of it; all jobs if left out."),
    decline: bool = typer.Option(False, "--decline", help="Decline the job; a job that was approved, too."),
) -> None:
    """List the jobs that were asked for, or approve or decline one of them.

    With approval = true in its policy a node answers no job before a person has approved it. What is approved is one
    run, method, mechanism and purpose, at up to the price that is shown for one answer; how many answers there may be
    is for the policy's limits to say. Whoever asked is answered when the question comes again.

    Example: tacit federation approve here/node.toml, then tacit federation approve here/node.toml 3f2a
    """
    from tacit.federation.node.approvals import APPROVED, DECLINED, Approvals
    from tacit.federation.node.files import read_node_file

    approvals = Approvals(read_node_file(file).state / "approvals")
    if job is not None:
        decided = approvals.decide(job, DECLINED if decline else APPROVED)
        console.print(Text.assemble((decided.state, "bold"), f"  {decided.id}  {decided.purpose}, {decided.price}"))
        return
    rows = [
        (each.id, each.state, each.at, each.method, each.purpose, each.mechanism, each.price, each.run)
        for each in approvals.jobs()
    ]
    if not rows:
        console.print("no job was asked for")
        return
    columns = ("job", "state", "asked at", "method", "purpose", "mechanism", "one answer", "run")
    show_rows(columns, rows, folding=("purpose", "mechanism", "run"))
