"""``tacit federation check``: check a node's, a job's or a service's file, one line per check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.text import Text

from tacit.cli.screen import console, show_reading
from tacit.core import InvalidInput, TacitError
from tacit.core.errors import plural
from tacit.core.toml import read_toml

__all__ = ["CheckFinding", "check_command", "check_findings"]

_MARKS = {"fine": ("ok", "green"), "soon": ("warning", "bold yellow"), "wrong": ("failed", "bold red")}


@dataclass(frozen=True)
class CheckFinding:
    """One check: its subject, whether it is ``fine``, wrong ``soon`` or ``wrong``, and what was found."""

    what: str
    state: str
    words: str


def check_command(
    file: Path = typer.Argument(..., help="A node's, a job's or a service's file.", show_default=False),
) -> None:
    """Test a node's, a job's, a shuffler's or a curator's file before it is used. Nothing is changed, spent or sent.

    It looks at the files that it names, the policy, the ledger, keys and certificates with the time they have left,
    the clock, and whether the coordinator and the services can be reached and authenticated. One line per check;
    exit code 1 if one failed.

    Example: tacit federation check here/node.toml
    """
    show_reading(file)
    failed = 0
    for found in check_findings(file):
        word, style = _MARKS[found.state]
        failed += found.state == "wrong"
        console.print(Text.assemble((f"{word:8}", style), f"{found.what}: {found.words}"), soft_wrap=True)
    if failed:
        raise TacitError(f"{failed} check{'' if failed == 1 else 's'} failed")


def check_findings(file: Path) -> Iterator[CheckFinding]:
    """The checks of a file one after the other; a file that cannot be read at all is wrong use."""
    found = read_toml(file)
    if "out" in found:
        yield from _job(file)
    elif "coordinator" in found:
        yield from _service(file)
    else:
        yield from _node(file)


def _tried(what: str, look: Callable[[], str]) -> CheckFinding:
    """A check that returns what it found, or raises what is wrong."""
    try:
        return CheckFinding(what, "fine", look())
    except TacitError as error:
        return CheckFinding(what, "wrong", str(error))
    except OSError as error:
        return CheckFinding(what, "wrong", f"{error.filename}: {error.strerror}")


def _node(file: Path) -> Iterator[CheckFinding]:
    from tacit.federation.keys import SigningIdentity
    from tacit.federation.members import read_key
    from tacit.federation.settings import read_node_file, read_peers
    from tacit.ledger import opened
    from tacit.ledger.places import occupied
    from tacit.ledger.policy import read_policy, read_rules

    try:
        settings = read_node_file(file)
    except InvalidInput as error:
        yield CheckFinding("node file", "wrong", str(error))
        return
    yield CheckFinding("node file", "fine", f"node {settings.name}")
    yield _readable("records", settings.data)
    if settings.public is not None:
        yield _readable("public samples", settings.public)

    def policy() -> str:
        ceilings, rules = read_policy(settings.policy), read_rules(settings.policy)
        if settings.account not in ceilings:
            raise InvalidInput(f"{settings.policy}: has no account {settings.account!r}, from which this node pays")
        return f"allows {', '.join(rules.methods)} with {', '.join(rules.mechanisms)}"

    def ledger() -> str:
        if not occupied(settings.ledger):
            return "is created from the policy at the first start"
        with opened(settings.ledger) as book:
            return book.balance(settings.account).in_words

    yield _tried("policy", policy)
    yield _tried("ledger", ledger)
    identity, peers = settings.identity, settings.peers
    if identity is not None:
        yield _secret("identity", identity, lambda: f"signs as {SigningIdentity.read(identity).public.hex()[:16]}…")
    if peers is not None:

        def known() -> str:
            found = read_peers(peers)
            if identity is not None and found.get(settings.name) != SigningIdentity.read(identity).public:
                raise InvalidInput(f"{peers}: has no identity for {settings.name}, or not this node's own")
            return f"knows {plural(len(found), 'node')}"

        yield _tried("peers", known)
    if settings.link is None:
        yield CheckFinding("link", "wrong", f"{file}: has no section [link], so there is no coordinator to connect to")
    else:
        link = settings.link
        yield _secret("key", link.key)
        public = link.key.with_suffix(".pub")
        if public.exists():
            yield _tried("public key", lambda: f"{public.name} can be registered ({read_key(public).curve.name})")
        yield from _certificate("authority", link.authority)
        yield from _reached("coordinator", link.address, link.authority)
    for name, service in (("shuffler", settings.shuffler), ("curator", settings.curator)):
        if service is not None:
            if service.authority is not None:
                yield from _certificate(f"{name}'s authority", service.authority)
            yield from _reached(name, service.address, service.authority)


def _job(file: Path) -> Iterator[CheckFinding]:
    from tacit.federation.keys import SigningIdentity
    from tacit.federation.members import members
    from tacit.federation.settings import read_peers
    from tacit.runs.federation import read_job

    try:
        job = read_job(file)
    except InvalidInput as error:
        yield CheckFinding("job file", "wrong", str(error))
        return
    yield CheckFinding("job file", "fine", f"{job.method} with {job.trust} trust")
    yield _readable("public samples", Path(job.public))
    if Path(job.out).exists():
        yield CheckFinding("run folder", "wrong", f"{job.out}: exists already; choose another out")
    folder = file.absolute().parent
    if (folder / "authority.pem").is_file():
        for name in ("authority", "coordinator"):
            yield from _certificate(name, folder / f"{name}.pem")
        yield _secret("key", folder / "coordinator.key")

        def listed() -> str:
            found = [each.name for each in members(folder)]
            if len(found) < job.at_least:
                raise InvalidInput(f"{len(found)} nodes are listed, and at least {job.at_least} must answer")
            return f"{', '.join(found[:10])} are admitted; the job waits for {job.nodes}"

        yield _tried("nodes", listed)
    peers, identity = job.peers, job.identity
    if peers is not None:
        yield _tried("peers", lambda: f"knows {plural(len(read_peers(Path(peers))), 'node')}")
    if identity is not None:
        yield _secret(
            "identity", Path(identity), lambda: f"signs as {SigningIdentity.read(identity).public.hex()[:16]}…"
        )
    if job.service is not None:
        authority = None if job.service_authority is None else Path(job.service_authority)
        if authority is not None:
            yield from _certificate("service's authority", authority)
        yield from _reached("service", job.service, authority)


def _service(file: Path) -> Iterator[CheckFinding]:
    from tacit.federation.settings import read_service_config
    from tacit.ledger import opened
    from tacit.ledger.places import occupied
    from tacit.ledger.policy import read_limits

    try:
        config = read_service_config(file)
    except InvalidInput as error:
        yield CheckFinding("service file", "wrong", str(error))
        return
    yield CheckFinding(
        "service file", "fine", f"listens at {config.host}:{config.port} for {plural(len(config.nodes), 'node')}"
    )
    for what, secret in (("key", config.key), ("sealing key", config.sealing)):
        if secret is not None:
            yield _secret(what, secret)
    if config.certificate is not None:
        yield from _certificate("certificate", config.certificate)
    ledger, account = config.ledger, config.account
    rules = file.absolute().parent / "policy.toml"
    if ledger is not None and rules.exists():

        def limited() -> str:
            return (
                "limits what a question, a purpose or a day may cost" if read_limits(rules).any else "has no [limits]"
            )

        yield _tried("policy", limited)
    if ledger is not None and account is not None:

        def balance() -> str:
            if not occupied(ledger):
                return "is created from the policy at the first start"
            with opened(ledger) as book:
                return book.balance(account).in_words

        yield _tried("ledger", balance)


def _readable(what: str, file: Path) -> CheckFinding:
    def look() -> str:
        if file.is_dir():
            return f"{file} is a folder with {sum(1 for _ in file.iterdir())} entries"
        with file.open("rb") as opened:
            opened.read(1)
        return f"{file} can be read"

    return _tried(what, look)


def _secret(what: str, file: Path, use: Callable[[], str] | None = None) -> CheckFinding:
    def look() -> str:
        with file.open("rb") as opened:
            opened.read(1)
        if file.stat().st_mode & 0o077:
            raise InvalidInput(f"{file}: others can read it; `chmod 600` it")
        return f"{file} is readable by its owner only" if use is None else use()

    return _tried(what, look)


def _certificate(what: str, file: Path) -> Iterator[CheckFinding]:
    from tacit.federation.certificates import read_validity

    try:
        found = read_validity(file)
    except InvalidInput as error:
        yield CheckFinding(what, "wrong", str(error))
        return
    problem = found.problem()
    if problem is None:
        yield CheckFinding(what, "fine", f"valid until {found.ends:%Y-%m-%d}")
    else:
        yield CheckFinding(what, "wrong" if found.expired() or found.early() else "soon", problem)


def _reached(what: str, address: str, authority: Path | None) -> Iterator[CheckFinding]:
    from tacit.federation.collector.client import clock_problem, reach

    try:
        found = reach(address, authority)
    except InvalidInput as error:
        yield CheckFinding(what, "wrong", str(error))
        return
    if found.problem is not None:
        yield CheckFinding(what, "wrong", found.problem)
    else:
        yield CheckFinding(what, "fine", f"{address} answers{' and is authenticated' if found.trusted else ''}")
    if found.validity is not None and (problem := found.validity.problem()) is not None:
        yield CheckFinding(f"{what}'s certificate", "soon", problem)
    if found.ahead is not None:
        problem = clock_problem(found.ahead)
        words = problem or f"within {max(1.0, abs(found.ahead)):.0f} s of the server's"
        yield CheckFinding("clock", "wrong" if problem else "fine", words)
