"""``tacit federation intake`` and ``tacit federation device``: one message each from very many devices."""

from __future__ import annotations

import csv
import datetime
import io
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from numpy.typing import NDArray
from rich.text import Text

from tacit.cli.screen import console, flowing, show_rows
from tacit.core import InvalidInput
from tacit.core.files import write_file

if TYPE_CHECKING:
    from tacit.federation.intake.question import OpenQuestion

__all__ = ["device_command", "intake_app"]

_MOST_TOKENS = 10**7
# An address with a password in it does not belong into a list of processes.
_STORE = typer.Option(..., envvar="TACIT_INTAKE_STORE", help="sqlite:///file, or postgresql://…")

intake_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help=flowing("""Ask very many devices with one record each; each answers by one small message.

[bold]open[/bold] writes the question, a static file. Any number of [bold]worker[/bold] processes serve it and store
what devices post. [bold]collect[/bold] closes it and shuffles the messages, [bold]decode[/bold] reads them: labels for
the public samples. With --trust shuffle whoever runs workers and collects is the shuffler: it can read nothing, and
must not work together with whoever decodes. [bold]tacit federation device[/bold] answers, to try it."""),
)


@intake_app.command(
    "keys",
    help=flowing("""Make a key pair for the shuffled model: NAME.key stays, NAME.key.pub goes to who opens the question.

Coordinator and shuffler each make one. Devices get the shuffler's public key from their own maker, not from the
coordinator. Example: tacit federation intake keys shuffler"""),
)
def keys_command(name: Path = typer.Argument(..., help="NAME, with its folder.", show_default=False)) -> None:
    """Make a key pair."""
    from tacit.federation.keys import SigningIdentity, public_key

    made = SigningIdentity.new()
    secret, public = Path(f"{name}.key"), Path(f"{name}.key.pub")
    made.write(secret)
    write_file(public, f"{public_key(made.secret).hex()}\n".encode())
    for file in (secret, public):
        console.print(Text.assemble(("made", "bold"), f"  {file}"), soft_wrap=True)


@intake_app.command(
    "open",
    help=flowing("""Write the question about public samples that devices will answer, as one static file.

Its name is its digest, which devices are told by a way that they trust. Workers serve the file; any cache may keep it.
Example: tacit federation intake open public.csv question.tacit --classes no,yes --devices 100000 --epsilon 2 --days 7

For the shuffled model add --trust shuffle --delta 1e-6 --coordinator coordinator.key.pub --shuffler
shuffler.key.pub"""),
)
def open_command(
    public: Path = typer.Argument(..., help="The public samples: a table of numbers.", show_default=False),
    out: Path = typer.Argument(..., help="The file to write.", show_default=False),
    classes: str = typer.Option(..., help="The names of the classes, with commas between them."),
    devices: int = typer.Option(..., help="At least how many devices will answer."),
    epsilon: str = typer.Option(..., help="What an answer costs; with --trust shuffle once it is shuffled."),
    delta: str = typer.Option("0", help="Above 0 with --trust shuffle."),
    trust: str = typer.Option("local", help="local or shuffle."),
    days: float = typer.Option(7.0, help="For how long it is open."),
    most: int | None = typer.Option(None, help="The most messages that are taken; twice --devices if left out."),
    admission: str = typer.Option("open", help="open to everybody, or only with tokens."),
    coordinator: Path | None = typer.Option(None, help="With --trust shuffle: the coordinator's key.pub."),
    shuffler: Path | None = typer.Option(None, help="With --trust shuffle: the shuffler's key.pub."),
    queries: int | None = typer.Option(None, help="How many queries; as many as the devices can label if left out."),
    representation: str = typer.Option("pca", help="How distances are taken: identity, standardized or pca."),
) -> None:
    """Write a question."""
    from tacit.datasets.table import read_classes
    from tacit.federation.intake.coordinator import plan_open_question

    question = plan_open_question(
        _samples(public),
        read_classes(classes),
        devices,
        epsilon,
        delta,
        closes=int(time.time() + days * 86_400),
        trust=trust,
        most=most,
        admission=admission,
        key=b"" if coordinator is None else _public(coordinator),
        shuffler=b"" if shuffler is None else _public(shuffler),
        queries=queries,
        representation=representation,
    )
    write_file(out, question.to_bytes())
    _describe(question)


@intake_app.command(
    help=flowing("""Run a worker in the foreground: it serves the question and stores what devices post.

Workers keep nothing of their own: start as many as are needed on one store, on one machine (sqlite) or on many
(postgresql). A message is acknowledged when it is on disk. Without a certificate only loopback is served.
Example: tacit federation intake worker question.tacit --store postgresql://intake@db/intake --host 0.0.0.0
--certificate server.pem --key server.key""")
)
def worker(
    file: Path = typer.Argument(..., help="The question.", show_default=False),
    store: str = _STORE,
    host: str = typer.Option("127.0.0.1", help="The address to listen at."),
    port: int = typer.Option(9400, help="The port to listen on; 0 for any that is free."),
    certificate: Path | None = typer.Option(None, help="The server's certificate, for TLS."),
    key: Path | None = typer.Option(None, help="The certificate's key."),
    tokens: Path | None = typer.Option(None, help="The secret that tokens were made with."),
    rate: float = typer.Option(5.0, help="Posts per second of one address, in the long run; 0 for no limit."),
    burst: int = typer.Option(50, help="Posts of one address at once."),
    connections: int = typer.Option(256, help="Connections at a time."),
    per_address: int = typer.Option(32, help="Connections of one address at a time."),
) -> None:
    """Run a worker."""
    from tacit.federation.intake.store import open_intake_store
    from tacit.federation.intake.worker import WorkerLimits, make_worker, serve_worker
    from tacit.federation.processes import log_to

    os.umask(0o077)
    log_to()
    question, limits = _read(file), WorkerLimits(connections, per_address, rate, burst)
    with open_intake_store(store) as opened:
        secret = None if tokens is None else _secret(tokens)
        serve_worker(make_worker(host, port, question, opened, secret, certificate, key, limits), certificate, _say)


@intake_app.command(
    help=flowing("""Make tokens, one per line, for devices that are known: only they can answer, each once.

The secret is made where it is missing; workers need it (--tokens). A token says nothing of a record, and whoever
decodes never sees one. Example: tacit federation intake tokens question.tacit tokens.key --count 1000 --out
tokens.txt""")
)
def tokens(
    file: Path = typer.Argument(..., help="The question.", show_default=False),
    secret: Path = typer.Argument(..., help="The secret's file.", show_default=False),
    count: int = typer.Option(..., help="How many."),
    out: Path = typer.Option(..., help="The file to write."),
) -> None:
    """Make tokens."""
    from tacit.federation.intake.messages import issue_tokens
    from tacit.federation.keys import SigningIdentity

    if not 1 <= count <= _MOST_TOKENS:
        raise InvalidInput(f"--count must be from 1 to {_MOST_TOKENS}, got {count}")
    if not secret.exists():
        SigningIdentity.new().write(secret)
    made = issue_tokens(_secret(secret), _read(file), count)
    write_file(out, "".join(f"{each.hex()}\n" for each in made).encode(), private=True)


@intake_app.command(
    help=flowing("""Close the question, shuffle its messages and write them into one file; then the store forgets them.

Below the question's minimum nothing is written and it stays open. With --trust shuffle this is the shuffler's work and
needs its key. Memory does not grow with the number of messages. Example: tacit federation intake collect
question.tacit messages.tacit --store sqlite:///intake.db --secret shuffler.key""")
)
def collect_command(
    file: Path = typer.Argument(..., help="The question.", show_default=False),
    out: Path = typer.Argument(..., help="The file to write.", show_default=False),
    store: str = _STORE,
    secret: Path | None = typer.Option(None, help="With --trust shuffle: the shuffler's key."),
) -> None:
    """Collect and shuffle."""
    from tacit.federation.intake.mixing import collect_messages
    from tacit.federation.intake.store import open_intake_store

    with open_intake_store(store) as opened:
        done = collect_messages(opened, _read(file), out, None if secret is None else _secret(secret))
    console.print(
        f"{done.messages} messages in {out}, shuffled; {done.unreadable} could not be decrypted", soft_wrap=True
    )


@intake_app.command(
    help=flowing("""Read collected messages: estimated votes, a label for each query and for each public sample.

With --trust shuffle this is the coordinator's work and needs its key. Example: tacit federation intake decode
question.tacit messages.tacit --public public.csv --out labels.csv --secret coordinator.key""")
)
def decode_command(
    file: Path = typer.Argument(..., help="The question.", show_default=False),
    messages: Path = typer.Argument(..., help="What was collected.", show_default=False),
    public: Path = typer.Option(..., help="The public samples that the question was made from."),
    out: Path = typer.Option(..., help="The file to write: a label for each public sample, in order."),
    secret: Path | None = typer.Option(None, help="With --trust shuffle: the coordinator's key."),
) -> None:
    """Decode."""
    from tacit.federation.intake.coordinator import decode_collected, samples_labeled

    question, samples = _read(file), _samples(public)
    found = decode_collected(messages, question, None if secret is None else _secret(secret))
    names = question.ask.class_names
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["label"])
    lines.writerows([names[label]] for label in samples_labeled(question, samples, found.labels))
    write_file(out, text.getvalue().encode())
    console.print(f"{found.in_words}", soft_wrap=True)
    console.print(Text.assemble(("written", "bold"), f"  {out}"), soft_wrap=True)


@intake_app.command(
    "status", help=flowing("""What a store has taken and dropped, in numbers. Reading changes nothing.

Example: tacit federation intake status --store sqlite:///intake.db""")
)  # fmt: skip
def status_command(store: str = _STORE) -> None:
    """Show counts."""
    from tacit.federation.intake.store import open_intake_store

    with open_intake_store(store) as opened:
        found = opened.status()
    rows = [
        (each["question"][:16], str(each["taken"]), str(each["most"]), "closed" if each["closed"] else "open")
        for each in found["questions"]
    ]
    show_rows(("question", "taken", "at most", "state"), rows)
    if found["dropped"]:
        show_rows(("dropped", "messages"), [(reason, str(count)) for reason, count in found["dropped"].items()])


def device_command(
    url: str = typer.Argument(..., help="The intake's address.", show_default=False),
    folder: Path = typer.Option(..., help="Where the device keeps its ledger."),
    digest: str = typer.Option(..., help="The question's digest, from where you trust it."),
    features: str = typer.Option(..., help="The record's numbers, with commas between them."),
    label: str = typer.Option(..., help="The record's class."),
    epsilon: str = typer.Option(..., help="The budget for all questions together."),
    question: str = typer.Option(..., help="The largest epsilon of one question."),
    local: str = typer.Option(..., help="The largest epsilon of a message that is not shuffled."),
    delta: str = typer.Option("0", help="The budget's delta; above 0 for shuffled questions."),
    purpose: list[str] = typer.Option(["reverse k-NN labels"], help="A purpose that is allowed; repeatable."),
    shuffler: Path | None = typer.Option(None, help="The key.pub of the shuffler that is trusted."),
    authority: Path | None = typer.Option(None, help="The authority's certificate; the system's if left out."),
    token: str | None = typer.Option(None, help="The token that was handed out, if the question asks for one."),
    attempts: int = typer.Option(3, help="How often a worker that is not there is called."),
) -> None:
    """Answer the open question as a device with one record: pay its own ledger, then post one message.

    Asked again it posts the same bytes and pays nothing. What the intake sends is compared with the digest and with the
    limits that are given here, before anything is paid. Example: tacit federation device https://devices.example.org
    --folder me --digest 3f2a… --features 1.5,0.2 --label yes --epsilon 4 --question 2 --local 2
    """
    import numpy as np

    from tacit.federation.intake.device import Device, DevicePolicy, IntakeAddress, fetch_question, post_message

    try:
        sample = np.array([float(each) for each in features.split(",")])
        handed = None if token is None else bytes.fromhex(token)
    except ValueError:
        raise InvalidInput("--features must be numbers with commas between them, and --token hexadecimal") from None
    policy = DevicePolicy(
        epsilon, question, local, purpose, delta, None if shuffler is None else _public(shuffler)
    )  # fmt: skip
    address = IntakeAddress(url, authority)
    body = Device(folder, sample, label, policy).answer(fetch_question(address, policy.largest, digest), digest, handed)
    post_message(address, body, attempts, pause=1.0)
    console.print(f"the intake has the message of {len(body)} bytes", soft_wrap=True)


def _read(file: Path) -> OpenQuestion:
    from tacit.federation.intake.question import LARGEST_QUESTION, OpenQuestion

    try:
        with file.open("rb") as source:
            return OpenQuestion.read(source.read(LARGEST_QUESTION + 1))
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be read ({error.strerror})") from None


def _describe(question: OpenQuestion) -> None:
    from tacit.federation.intake.messages import message_bytes

    ends = datetime.datetime.fromtimestamp(question.closes, datetime.UTC).isoformat(" ", "minutes")
    mechanism = question.mechanism
    rows = [
        ("digest", question.digest),
        ("queries", str(len(question.ask.queries))),
        ("mechanism", f"{mechanism.name}, local epsilon {float(mechanism.epsilon):.6g}"),
        ("messages", f"{message_bytes(question)} bytes each, {question.minimum} at least, {question.most} at most"),
        ("closes", f"{ends} (UTC)"),
    ]
    for name, words in rows:
        console.print(Text.assemble((f"{name:<10}", "bold"), words), soft_wrap=True)


def _samples(file: Path) -> NDArray[Any]:
    from tacit.datasets.frame import Frame
    from tacit.datasets.table import Table
    from tacit.datasets.tables import read_data

    found = read_data(file)
    table = found.numbers() if isinstance(found, Frame) else found
    if not isinstance(table, Table):
        raise InvalidInput(f"{file}: the public samples must be a table of numbers")
    return table.samples


def _public(file: Path) -> bytes:
    try:
        found = bytes.fromhex(file.read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        found = b""
    if len(found) != 32:
        raise InvalidInput(f"{file}: not a public key; it is one line of 64 hexadecimal digits")
    return found


def _secret(file: Path) -> bytes:
    from tacit.federation.collector.curator import read_secret

    return read_secret(file)


def _say(words: str) -> None:
    # At once, because who started the worker waits for it.
    typer.echo(words)
    sys.stdout.flush()
