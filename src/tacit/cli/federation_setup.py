"""The members of a federation: ``tacit federation init``, ``nodes`` and ``approve``.

``init`` writes keys, certificates, and files to fill in. ``nodes`` lists, adds and removes members, and renews keys and
certificates. With ``approve`` the operator of a node decides which jobs it answers.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.text import Text

from tacit.cli.federation_watch import running
from tacit.cli.screen import console, flowing, show_reading, show_rows
from tacit.core import InvalidInput, listed
from tacit.core.files import is_there

__all__ = ["approve", "listening_address", "new_coordinator", "new_node", "new_service", "nodes_app"]

_POLICY = """\
[accounts."{name}"]
epsilon = 1.0               # the most that may ever be spent; no job can raise it
delta = 0.0
# unit = {{ column = "patient", records = 3 }}   # protects persons instead of records

"""


def new_coordinator(folder: Path, hosts: Sequence[str]) -> list[Path]:
    """Create a coordinator's folder: authority, certificate for its names, example job, folder for nodes' keys."""
    from tacit.federation.certificates import make_authority, make_server_certificate
    from tacit.runs.federation import JOB_EXAMPLE

    _make(folder)
    make_authority(folder)
    make_server_certificate(folder, "coordinator", [*hosts, "127.0.0.1", "localhost"])
    (folder / "nodes").mkdir(exist_ok=True)
    _identify(folder, "coordinator")
    job = folder / "job.toml"
    if not job.exists():
        job.write_text(JOB_EXAMPLE, encoding="utf-8")
    return [folder / name for name in ("authority.pem", "coordinator.pem", "coordinator.id", "job.toml", "nodes")]


def listening_address(hosts: Sequence[str]) -> str:
    """The address at which a service with these names listens: one that is named, otherwise all.

    >>> listening_address(["127.0.0.1"]), listening_address(["mix.example.org"])
    ('127.0.0.1', '0.0.0.0')
    """
    from ipaddress import ip_address

    from tacit.federation.certificates import on_loopback

    if all(map(on_loopback, hosts)):
        return hosts[0] if len(hosts) == 1 and hosts[0] != "localhost" else "127.0.0.1"
    try:
        (only,) = hosts
        return str(ip_address(only))
    except ValueError:
        # A name says how others reach the service, not which of its addresses this machine should listen at.
        return "0.0.0.0"  # noqa: S104


def new_service(
    folder: Path,
    kind: str,
    hosts: Sequence[str],
    port: int,
    coordinator: Path,
    nodes: Path,
    listen: str | None = None,
) -> list[Path]:
    """Create a shuffler's or a curator's folder with its own authority, so that no coordinator can impersonate it.

    ``coordinator`` is the coordinator's ``coordinator.id``, ``nodes`` a file with those of all nodes. A curator also
    gets a key that tables are encrypted for, and a policy for its own ledger. ``listen`` is the address at which it
    listens, if it is not one of ``hosts``.
    """
    from tacit.federation.certificates import make_authority, make_server_certificate
    from tacit.federation.keys import SigningIdentity, public_key
    from tacit.federation.settings import read_peers

    if kind not in ("shuffler", "curator"):
        raise InvalidInput(f"a service is a shuffler or a curator, got {kind!r}")
    asking, handing = read_peers(coordinator), read_peers(nodes)
    if list(asking) != ["coordinator"]:
        raise InvalidInput(f"{coordinator}: must contain the coordinator's identity only")
    _make(folder)
    make_authority(folder)
    make_server_certificate(folder, kind, [*hosts, "127.0.0.1", "localhost"])
    host = listen or listening_address(hosts)
    lines = [f'host = "{host}"', f"port = {port}", f'certificate = "{kind}.pem"', f'key = "{kind}.key"']
    lines += [f'state = "{kind}.db"', f'coordinator = "{asking["coordinator"].hex()}"']
    made = [folder / "authority.pem", folder / f"{kind}.toml"]
    if kind == "curator":
        sealing = SigningIdentity.new()
        sealing.write(folder / "sealing.key")
        (folder / "curator.key.pub").write_text(public_key(sealing.secret).hex() + "\n", encoding="ascii")
        (folder / "policy.toml").write_text(_POLICY.format(name="curator"), encoding="utf-8")
        lines += ['sealing = "sealing.key"', 'ledger = "curator.ledger"', 'account = "curator"']
        lines += ["node_records = 10000000   # the most records that one node may have: larger counts are clipped"]
        made += [folder / "curator.key.pub", folder / "policy.toml"]
    lines += ["[nodes]", *(f'"{name}" = "{key.hex()}"' for name, key in handing.items())]
    (folder / f"{kind}.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return made


def new_node(folder: Path, name: str, address: str, authority: Path) -> list[Path]:
    """A node's folder: its own key, the authority's certificate, and its node and policy files to fill in."""
    from tacit.federation.certificates import make_node_key
    from tacit.federation.settings import NODE_EXAMPLE, NODE_NAME
    from tacit.ledger.policy_file import RULES_EXAMPLE

    if not re.fullmatch(NODE_NAME, name):
        raise InvalidInput(f"a node's name has letters, digits, spaces and . _ - and at most 64 of them, got {name!r}")
    if not re.fullmatch(r"\S+:\d{1,5}", address):
        raise InvalidInput(
            f"--address must be the coordinator's host:port, for example study.example.org:9092, got {address!r}"
        )
    if not authority.is_file():
        raise InvalidInput(f"{authority}: no such file; copy authority.pem from the coordinator's folder")
    if b"-----BEGIN CERTIFICATE-----" not in authority.read_bytes():
        raise InvalidInput(f"{authority}: not a certificate; copy authority.pem from the coordinator's folder")
    for file in (folder / "node.toml", folder / "policy.toml"):
        # Existing files may be filled in already, and a policy decides what the ledger allows.
        if file.exists() and not (folder / f"{name}.key").exists():
            raise InvalidInput(f"{file}: exists already; choose another folder")
    _make(folder)
    make_node_key(folder, name)
    _identify(folder, name)
    if authority.absolute() != (folder / "authority.pem").absolute():
        shutil.copyfile(authority, folder / "authority.pem")
    text = NODE_EXAMPLE.replace("north", name).replace("coordinator.example.org:9092", address)
    (folder / "node.toml").write_text(text, encoding="utf-8")
    (folder / "policy.toml").write_text(_POLICY.format(name=name) + RULES_EXAMPLE, encoding="utf-8")
    return [folder / f"{name}.pub", folder / f"{name}.id", folder / "node.toml", folder / "policy.toml"]


def _identify(folder: Path, name: str) -> None:
    """A signing key of one member, and a line with its public half.

    The lines of all nodes together are everybody's peers.toml.
    """
    from tacit.federation.keys import SigningIdentity

    identity = SigningIdentity.new()
    identity.write(folder / f"{name}.identity")
    (folder / f"{name}.id").write_text(f'"{name}" = "{identity.public.hex()}"\n', encoding="ascii")


def _make(folder: Path) -> None:
    if is_there(folder / "run.json"):
        # What is in a run folder may be published, and keys may not.
        raise InvalidInput(f"{listed([str(folder)])}: a run folder, which may be published: choose another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"{folder}: cannot be made ({error.strerror})") from None


nodes_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help=flowing("""The members of a federation, their keys and certificates.

The coordinator admits the nodes that its folder lists, from its next start on, and no others."""),
)
SERVERS = ("coordinator", "shuffler", "curator")
FOLDER = typer.Argument(..., help="The coordinator's folder.", show_default=False)


@nodes_app.command(
    "list",
    help=flowing("""Show which nodes are admitted or removed, and how long the certificates are valid.

Example: tacit federation nodes list study"""),
)
def list_nodes(folder: Path = FOLDER) -> None:
    """Show which nodes are admitted."""
    show_reading(folder)
    from tacit.federation.certificates import read_validity
    from tacit.federation.members import members, removed_members
    from tacit.federation.settings import read_peers

    here, gone = members(folder), removed_members(folder)
    peers = read_peers(folder / "peers.toml") if (folder / "peers.toml").exists() else {}
    rows = [
        (each.name, "admitted", f"{each.since}", "yes" if each.name in peers else "no", each.fingerprint)
        for each in here
    ]
    rows += [(each.name, "removed", f"{each.since}", "-", each.fingerprint) for each in gone]
    if rows:
        show_rows(("node", "state", "since", "in peers.toml", "key"), rows, folding=("key",))
    else:
        _say(f"no node is listed; add one with `tacit federation nodes add {folder} north.pub`")
    for name in ("authority.pem", "coordinator.pem"):
        found = read_validity(folder / name)
        _say(f"{name} is valid until {found.ends:%Y-%m-%d}")
        if (problem := found.problem()) is not None:
            _warn(f"{problem}; renew it with `tacit federation nodes renew {folder}{_authority(name)}`")


@nodes_app.command(
    help=flowing("""Admit a node, under the name of its file.

Example: tacit federation nodes add study north.pub --identity north.id""")
)
def add(
    folder: Path = FOLDER,
    public: Path = typer.Argument(..., help="The node's .pub file.", show_default=False),
    identity: Path | None = typer.Option(None, help="The node's .id file; its line goes into the folder's peers.toml."),
) -> None:
    """Admit a node."""
    show_reading(public)
    from tacit.federation.members import add_member

    member = add_member(folder, public, identity)
    _say(f"{member.name} is admitted {_when(folder)}; its key is {member.fingerprint}")


@nodes_app.command(
    help=flowing("""Remove a node. Its key is kept in nodes/removed, and is not admitted again.

Example: tacit federation nodes remove study north""")
)
def remove(
    folder: Path = FOLDER,
    name: str = typer.Argument(..., help="The node's name.", show_default=False),
) -> None:
    """Remove a node."""
    show_reading(folder)
    from tacit.federation.members import remove_member

    member = remove_member(folder, name)
    _say(f"{member.name} is no longer admitted {_when(folder)}")
    _say(f"shufflers and curators have their own lists: their operators remove {member.name} from their files")


@nodes_app.command(
    help=flowing("""Renew certificates or a key.

In a coordinator's, a shuffler's or a curator's folder: its certificate, for the same key and names; with --authority
first the authority's own, which all nodes then need a copy of before the old one expires. It needs authority.key.

In a node's folder: a new key, whose .pub file goes to the coordinator. The old key is kept beside it.

With --key, at the coordinator: replace a node's old key by its new one.

Example: tacit federation nodes renew study --key north.pub""")
)
def renew(
    folder: Path = typer.Argument(..., help="A coordinator's, a service's or a node's folder.", show_default=False),
    key: Path | None = typer.Option(None, help="At the coordinator: the new .pub file of a node."),
    authority: bool = typer.Option(False, "--authority", help="Renew the authority's certificate, too."),
) -> None:
    """Renew certificates or a key."""
    show_reading(folder)
    from tacit.federation.certificates import renew_authority, renew_node_key, renew_server_certificate
    from tacit.federation.members import add_member
    from tacit.federation.settings import read_node_file

    if key is not None:
        member = add_member(folder, key, renewed=True)
        _say(f"{member.name} is admitted with its new key {_when(folder)}: {member.fingerprint}")
        return
    if (folder / "node.toml").is_file():
        link = read_node_file(folder / "node.toml").link
        if link is None or authority:
            raise InvalidInput(f"{folder}: a node's folder has only the key of its section [link] to renew")
        public = renew_node_key(link.key)
        _say(f"made a new key. Send {public} to the coordinator, who takes it with `tacit federation nodes renew`")
        _say(f"until then the coordinator admits the old key only, which is in {link.key.with_suffix('.key.old')}")
        return
    servers = [name for name in SERVERS if (folder / f"{name}.pem").is_file()]
    if not servers:
        raise InvalidInput(f"{folder}: neither a coordinator's, a service's nor a node's folder")
    if authority:
        _renewed(renew_authority(folder))
        _say("send the new authority.pem to everyone with a copy; the old one is valid until it expires")
    for name in servers:
        _renewed(renew_server_certificate(folder, name))
    _say("start it again to use the new certificate")


def _renewed(file: Path) -> None:
    from tacit.federation.certificates import read_validity

    found = read_validity(file)
    console.print(Text.assemble(("renewed", "bold"), f"  {file}, valid until {found.ends:%Y-%m-%d}"), soft_wrap=True)
    if (problem := found.problem()) is not None:
        _warn(f"{problem}, as its authority does; renew that, too, with --authority")


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
    decline: bool = typer.Option(False, "--decline", help="Decline the job, even if it was approved before."),
) -> None:
    """List the jobs that need approval, or approve or decline one of them.

    With approval = true in its policy a node answers no job before a person has approved it. An approval is for one
    run, method, mechanism and purpose, at up to the cost per answer that is shown; the policy's limits decide how many
    answers there may be. The job gets its answer when it asks again.

    Example: tacit federation approve here/node.toml, then tacit federation approve here/node.toml 3f2a
    """
    show_reading(file)
    from tacit.federation.node.refusals import APPROVED, DECLINED, Approvals
    from tacit.federation.settings import read_node_file

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
        console.print("no job has asked for approval")
        return
    columns = ("job", "state", "asked at", "method", "purpose", "mechanism", "one answer", "run")
    show_rows(columns, rows, folding=("purpose", "mechanism", "run"))
