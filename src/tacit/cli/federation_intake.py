"""``tacit federation intake`` and ``tacit federation device``: one message each from millions of devices."""

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

from tacit.cli.screen import console, flowing, show_reading, show_rows
from tacit.core import InvalidInput
from tacit.core.errors import plural
from tacit.core.files import write_file

if TYPE_CHECKING:
    from tacit.federation.intake.question import OpenQuestion

__all__ = ["device_command", "intake_app"]

_MOST_TOKENS = 10**7
# By a variable, too: a URL with a password must not be visible in the list of processes.
_STORE = typer.Option(..., envvar="TACIT_INTAKE_STORE", help="sqlite:///file, or postgresql://…")

intake_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help=flowing("""Ask millions of devices with one record each; each answers with one small message.

[bold]open[/bold] writes the question, a static file. Any number of [bold]worker[/bold] processes serve it and store
the devices' messages. [bold]collect[/bold] closes the question and shuffles the messages, [bold]decode[/bold] turns
them into labels for the public samples. With --trust shuffle the party that runs workers and collects is the shuffler:
it cannot read a message, and must not collude with the coordinator, who decodes.
[bold]tacit federation device[/bold] answers as a device, to try it."""),
)


@intake_app.command(
    "keys",
    help=flowing("""Make a key pair for --trust shuffle: NAME.key is secret, NAME.key.pub is for opening questions.

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

It is identified by its digest, which devices need from a trusted source. Workers serve it; HTTP caches may store it.
Example: tacit federation intake open public.csv question.tacit --classes no,yes --devices 100000 --epsilon 2 --days 7

In the shuffle model add --trust shuffle --delta 1e-6 --coordinator coordinator.key.pub --shuffler
shuffler.key.pub"""),
)
def open_command(
    public: Path = typer.Argument(..., help="The public samples: a table of numbers.", show_default=False),
    out: Path = typer.Argument(..., help="The file to write.", show_default=False),
    classes: str = typer.Option(..., help="The names of the classes, separated by commas."),
    devices: int = typer.Option(..., help="The least number of devices that will answer."),
    epsilon: str = typer.Option(..., help="The price of an answer; with --trust shuffle the amplified one."),
    delta: str = typer.Option("0", help="Above 0 with --trust shuffle."),
    trust: str = typer.Option("local", help="local or shuffle."),
    days: float = typer.Option(7.0, help="How long the question is open, in days."),
    most: int | None = typer.Option(None, help="The most messages that are accepted; twice --devices if left out."),
    admission: str = typer.Option("open", help="open (to everyone) or tokens (only devices with an issued token)."),
    coordinator: Path | None = typer.Option(None, help="With --trust shuffle: the coordinator's key.pub."),
    shuffler: Path | None = typer.Option(None, help="With --trust shuffle: the shuffler's key.pub."),
    queries: int | None = typer.Option(None, help="Number of queries; as many as the devices can label if left out."),
    representation: str = typer.Option("pca", help="The representation for distances: identity, standardized or pca."),
) -> None:
    """Write a question."""
    show_reading(public)
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
    help=flowing("""Run a worker in the foreground: it serves the question and stores the devices' messages.

Workers have no state: start any number of them on one store, on one machine (sqlite) or on many (postgresql). A message
is acknowledged when it is on disk. Without a certificate only loopback is served.
Example: tacit federation intake worker question.tacit --store postgresql://intake@db/intake --host 0.0.0.0
--certificate server.pem --key server.key""")
)
def worker(
    file: Path = typer.Argument(..., help="The question.", show_default=False),
    store: str = _STORE,
    host: str = typer.Option("127.0.0.1", help="The address to listen at."),
    port: int = typer.Option(9400, help="The port to listen on; 0 for any free port."),
    certificate: Path | None = typer.Option(None, help="The server's certificate, for TLS."),
    key: Path | None = typer.Option(None, help="The certificate's key."),
    tokens: Path | None = typer.Option(None, help="The secret with which tokens were issued."),
    rate: float = typer.Option(5.0, help="Posts per second from one address, on average; 0 for no limit."),
    burst: int = typer.Option(50, help="Posts from one address at once."),
    connections: int = typer.Option(256, help="The most connections at a time."),
    per_address: int = typer.Option(32, help="The most connections from one address at a time."),
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
    help=flowing("""Issue tokens, one per line, to known devices: only they can answer, each once.

The secret is created if it does not exist; workers need it (--tokens). A token does not depend on a record, and the
coordinator never sees one. Example: tacit federation intake tokens question.tacit tokens.key --count 1000 --out
tokens.txt""")
)
def tokens(
    file: Path = typer.Argument(..., help="The question.", show_default=False),
    secret: Path = typer.Argument(..., help="The secret's file.", show_default=False),
    count: int = typer.Option(..., help="How many."),
    out: Path = typer.Option(..., help="The file to write."),
) -> None:
    """Issue tokens."""
    show_reading(file)
    from tacit.federation.intake.messages import issue_tokens
    from tacit.federation.keys import SigningIdentity

    if not 1 <= count <= _MOST_TOKENS:
        raise InvalidInput(f"--count must be from 1 to {_MOST_TOKENS}, got {count}")
    if not secret.exists():
        SigningIdentity.new().write(secret)
    made = issue_tokens(_secret(secret), _read(file), count)
    write_file(out, "".join(f"{each.hex()}\n" for each in made).encode(), private=True)
    console.print(Text.assemble(("written", "bold"), f"  {out}: {plural(count, 'token')}"), soft_wrap=True)


@intake_app.command(
    "collect",
    help=flowing("""Close the question, shuffle its messages into one file, and delete them from the store.

Below the question's minimum nothing is written and it stays open. With --trust shuffle this is the shuffler's work and
needs its key. Memory does not grow with the number of messages. Example: tacit federation intake collect
question.tacit messages.tacit --store sqlite:///intake.db --secret shuffler.key"""),
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
        f"{plural(done.messages, 'message')} in {out}, shuffled; {done.unreadable} could not be decrypted",
        soft_wrap=True,
    )


@intake_app.command(
    "decode",
    help=flowing("""Read collected messages: estimated votes, a label for each query and for each public sample.

With --trust shuffle this is the coordinator's work and needs its key. Example: tacit federation intake decode
question.tacit messages.tacit --public public.csv --out labels.csv --secret coordinator.key"""),
)
def decode_command(
    file: Path = typer.Argument(..., help="The question.", show_default=False),
    messages: Path = typer.Argument(..., help="The collected messages.", show_default=False),
    public: Path = typer.Option(..., help="The public samples that the question was made from."),
    out: Path = typer.Option(..., help="The file to write: a label for each public sample, in order."),
    secret: Path | None = typer.Option(None, help="With --trust shuffle: the coordinator's key."),
) -> None:
    """Decode."""
    show_reading(file)
    from tacit.federation.intake.coordinator import decode_collected, label_samples

    question, samples = _read(file), _samples(public)
    found = decode_collected(messages, question, None if secret is None else _secret(secret))
    names = question.ask.class_names
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["label"])
    lines.writerows([names[label]] for label in label_samples(question, samples, found.labels))
    write_file(out, text.getvalue().encode())
    console.print(f"{found.in_words}", soft_wrap=True)
    console.print(Text.assemble(("written", "bold"), f"  {out}"), soft_wrap=True)


@intake_app.command(
    "status", help=flowing("""Show how many messages a store has accepted and refused. Nothing is changed.

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
    show_rows(("question", "accepted", "at most", "state"), rows)
    if found["dropped"]:
        show_rows(("refused", "messages"), [(reason, str(count)) for reason, count in found["dropped"].items()])


def device_command(
    url: str = typer.Argument(..., help="The intake's address.", show_default=False),
    folder: Path = typer.Option(..., help="The folder of the device's ledger."),
    digest: str = typer.Option(..., help="The question's digest, from a source that you trust."),
    features: str = typer.Option(..., help="The record's features: numbers separated by commas."),
    label: str = typer.Option(..., help="The record's class."),
    epsilon: str = typer.Option(..., help="The budget for all questions together."),
    question: str = typer.Option(..., help="The largest epsilon of one question."),
    local: str = typer.Option(..., help="The largest epsilon of a message that is not shuffled."),
    delta: str = typer.Option("0", help="The budget's delta; above 0 for shuffled questions."),
    purpose: list[str] = typer.Option(["reverse k-NN labels"], help="An allowed purpose; repeatable."),
    shuffler: Path | None = typer.Option(None, help="The key.pub of the shuffler that you trust."),
    authority: Path | None = typer.Option(None, help="The authority's certificate; the system's if left out."),
    token: str | None = typer.Option(None, help="The issued token, if the question requires one."),
    attempts: int = typer.Option(3, help="How often an unavailable worker is called."),
) -> None:
    """Answer the open question as a device with one record: pay its own ledger, then post one message.

    Called again it posts the same bytes and pays nothing. The question is compared with the digest and with the limits
    given here before anything is paid. Example: tacit federation device https://devices.example.org
    --folder me --digest 3f2a… --features 1.5,0.2 --label yes --epsilon 4 --question 2 --local 2
    """
    import numpy as np

    from tacit.federation.intake.device import Device, DevicePolicy, IntakeAddress, fetch_question, post_message

    try:
        sample = np.array([float(each) for each in features.split(",")])
        handed = None if token is None else bytes.fromhex(token)
    except ValueError:
        raise InvalidInput("--features must be numbers separated by commas, and --token hexadecimal") from None
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
    # Flushed, because whoever started the worker waits for this line.
    typer.echo(words)
    sys.stdout.flush()
