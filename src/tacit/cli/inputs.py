"""Checks before a run spends anything: its two files, the account, and with ``--dry-run`` everything else."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from tacit.cli.screen import console, show_data, show_plan
from tacit.core import InvalidInput, listed, nearest
from tacit.core.errors import plural
from tacit.methods.registry import method_named

if TYPE_CHECKING:
    from tacit.cli.recipe import Recipe
    from tacit.cli.request import RunRequest
    from tacit.core.options import Options
    from tacit.core.samples import Named
    from tacit.datasets.frame import Frame
    from tacit.datasets.image_files import ImageFiles
    from tacit.datasets.table import Table
    from tacit.engines.source import RecordSource

__all__ = ["RunInputs", "inputs_digest", "read_inputs", "read_source", "rehearse", "require_account"]


@dataclass(frozen=True)
class RunInputs:
    """The content of the two files: samples, labels, owners, and the names of the classes.

    A record source is not read here; it has no labels.
    """

    private: Frame | Table | ImageFiles | RecordSource
    public: Frame | Table | ImageFiles
    labels: NDArray[Any] | Named | None
    classes: NDArray[Any]

    @property
    def samples(self) -> tuple[Any, Any]:
        """Private and public samples, as a run takes them."""
        return _samples(self.private), _samples(self.public)

    @property
    def given(self) -> Any:  # noqa: ANN401
        """The private records as a run takes them: a pair with their labels, or a source."""
        return self.private if self.labels is None else (_samples(self.private), self.labels)

    @property
    def persons(self) -> NDArray[Any] | None:
        """The person or holder of each record, if a column names it and is read here."""
        return getattr(self.private, "persons", None) if self.labels is not None else None


def read_inputs(
    private: Path,
    public: Path,
    label: str | None,
    owner: str | None,
    classes: str | None,
    public_label: str | None = None,
    mixed: bool = False,
) -> RunInputs:
    """Read the private and the public file, which must have the same columns, and the names of the classes.

    ``owner`` is the private file's column that identifies a record's person or holder. Every label must be one of the
    classes, which are read from the labels where they are not declared. Where all public cells are numbers, and the
    table is not declared ``mixed``, private ones must be, too.
    """
    from tacit.core.samples import Named, in_order, match_names
    from tacit.datasets.frame import Frame
    from tacit.datasets.table import Table, class_indices, read_classes
    from tacit.datasets.tables import align, read_data
    from tacit.encoders.kinds import all_numbers

    opened = read_data(public, public_label)
    found = read_data(private, label, owner, labeled=True)
    if found.labels is None:
        raise InvalidInput(f"{private}: name the column or array of the labels with --label")
    if isinstance(opened, Frame) and label is not None and label in opened.columns:
        raise InvalidInput(
            f"{public}: has the label column {label!r}; remove it, public samples are unlabeled. FedMD pretrains on "
            "labels that are named by --public-label"
        )
    if isinstance(opened, Frame) and owner is not None and owner in opened.columns:
        # The person of a public row is neither a feature nor protected.
        console.print(f"[dim]column {listed([owner])} of the public file identifies persons: left out[/dim]")
        opened = opened.take([name for name in opened.columns if name != owner])
    for each in (opened, found):
        if not len(each if not isinstance(each, Table) else each.samples):
            raise InvalidInput(f"{each.source}: the file has no rows")
    if isinstance(found, Frame) and isinstance(opened, Frame):
        surplus = "" if owner else "if one says whose a record is, name it with --unit; "
        match_names(
            found.columns, opened.columns, str(private), str(public), f"{surplus}remove what the public file lacks"
        )
        if not mixed and all_numbers(opened):
            found.numbers()
        found = found.take(opened.columns)
    elif isinstance(found, Table) and isinstance(opened, Table):
        found = align(found, opened)
    assert found.labels is not None
    if isinstance(found.labels, Named):
        # Their names come from the format's own list of labels, not from records.
        declared = found.labels.columns if classes is None else tuple(read_classes(classes))
        sets = in_order(found.labels, declared, str(private), "the classes")
        return RunInputs(found, opened, sets, np.array(declared))
    names = np.unique(found.labels) if classes is None else np.array(read_classes(classes))
    class_indices(found.labels, names, str(private), found.rows, label)
    return RunInputs(found, opened, found.labels, names)


def read_source(private: Path, public: Path, label: str | None, person: str | None, classes: str | None) -> RunInputs:
    """The public file, and the private records as a source, of which no record is read yet."""
    from tacit.datasets.table import read_classes
    from tacit.datasets.tables import read_data
    from tacit.engines.source import RecordSource

    if classes is None:
        raise InvalidInput("--classes must be given with --engine: records are not read to find them")
    source = RecordSource(str(private), label, persons=person)
    return RunInputs(source, read_data(public), None, np.array(read_classes(classes)))


def _samples(found: Any) -> Any:  # noqa: ANN401
    from tacit.datasets.table import Table

    return found.frame if isinstance(found, Table) else found


def inputs_digest(data: Frame | Table | ImageFiles | RecordSource) -> str:
    """A digest of a file's content: it changes with any of its columns, values, labels or persons.

    >>> from tacit.datasets.table import Table
    >>> first, other = (Table("a.csv", ("x",), np.array([[value]])) for value in (1.0, 2.0))
    >>> inputs_digest(first) == inputs_digest(first), inputs_digest(first) == inputs_digest(other)
    (True, False)
    """
    from tacit.datasets.image_files import ImageFiles
    from tacit.datasets.table import Table
    from tacit.engines.source import RecordSource, source_digest

    content = hashlib.sha256()
    if isinstance(data, RecordSource):
        content.update(source_digest(data).encode())
        return content.hexdigest()
    if isinstance(data, ImageFiles):
        for file in data.files:
            content.update(hashlib.sha256(file.read_bytes()).digest())
        arrays: list[Any] = []
    else:
        content.update(repr(data.columns).encode())
        whole = isinstance(data, Table) or isinstance(data.cells, np.ndarray)
        arrays = [data.samples if isinstance(data, Table) else data.cells] if whole else list(data.cells)  # type: ignore[union-attr]
    for array in (*arrays, data.labels, data.persons):
        if array is not None:
            array = np.asarray(array)
            content.update(f"{array.dtype}{array.shape}".encode())
            # Text is an array of objects; its digest is over the characters.
            content.update(repr(array.tolist()).encode() if array.dtype.kind == "O" else array.tobytes())
    return content.hexdigest()


class _Enough(Exception):
    """Raised when the plan is made and the account can pay: here a real run would make its first payment."""


def require_account(recipe: Recipe, settings: Options, resuming: bool) -> None:
    """Refuse an account that is missing, protects a different unit or cannot pay, where one account pays for all."""
    if method_named(recipe.chosen).holders_pay:
        return
    ledger, account = recipe.ledger, recipe.account
    if ledger is None and account is not None:
        raise InvalidInput("an account needs a ledger: give it with --ledger")
    if ledger is not None and account is None:
        raise InvalidInput("name the account that pays with --account")
    if ledger is None or account is None:
        return
    if isinstance(ledger, Path) and not ledger.is_file():
        hint = "open it with 'tacit ledger open'"
        raise InvalidInput(f"{listed([str(ledger)])}: no such ledger; {hint}")
    # Accountants take a while to import: show at once that the command is running.
    with suppress(OSError):
        console.print(Text(f"checking account {listed([account])}", style="dim"), soft_wrap=True)
    from tacit.ledger import opened
    from tacit.runs.payment import look_ahead

    with opened(ledger) as book:
        known = list(book.accounts())
    if account not in known:
        meant = f"; did you mean {listed([close])}?" if (close := nearest(account, known)) else ""
        raise InvalidInput(f"{ledger}: no account {listed([account])!r}; it has {listed(known)}{meant}")
    epsilon = None if resuming else recipe.epsilon
    look_ahead(ledger, account, recipe.protected, recipe.adjacency, epsilon, recipe.slack, settings, recipe.trust)


def rehearse(
    settings: Any,  # noqa: ANN401
    inputs: RunInputs,
    request: RunRequest,
    common: Mapping[str, Any],
    account: str | None,
) -> None:
    """Run everything up to the first payment: nothing is spent, drawn or written."""
    from tacit.ledger.places import occupied
    from tacit.methods.task import Observer
    from tacit.runs.distill import distill

    ledger = common["ledger"]
    # A real run would create the holders' accounts; a dry run creates none.
    there = ledger is not None and (ledger.is_file() if isinstance(ledger, Path) else occupied(ledger))

    def stop(plan: Any) -> None:  # noqa: ANN401
        show_plan(plan)
        raise _Enough

    _, public = inputs.samples
    with closing(request), suppress(_Enough):
        distill(
            inputs.given, public, method=settings, request=request.name,
            observer=Observer(stop, lambda doing: console.print(f"[dim]{doing}[/dim]"), data=show_data),
            **{**common, "ledger": ledger if there else None, "account": common["account"] if there else None},
        )  # fmt: skip
    # The number of records may be private, and this stream may be shared.
    columns = getattr(inputs.public, "columns", None)
    matching = "" if columns is None else f", {plural(len(columns), 'feature column')} in both"
    _say("files", f"both can be read: {len(public)} public samples{matching}")
    epsilon, delta = common["epsilon"], common["delta"]
    asked = "what the method's options say" if epsilon is None else f"epsilon = {epsilon:g}"
    _say("price", asked + ("" if not delta else f", delta = {delta:g}"))
    if there and account is not None:
        from tacit.ledger import opened

        with opened(ledger) as book:
            _say("account", f"{account} can pay; it has {book.balance(account).in_words}")
    elif ledger is not None:
        _say("account", f"the run creates the holders' accounts in {ledger}; their budgets were not checked")
    else:
        _say("account", "none: the budget is for this run only, and later runs do not count it")
    console.print("[bold green]dry run[/bold green]    nothing was spent, and nothing was written")


def _say(title: str, text: str) -> None:
    console.print(Text.assemble((title, "bold"), f"{'':{max(1, 11 - len(title))}}{text}"), soft_wrap=True)
