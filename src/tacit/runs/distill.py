"""``distill``, the one entry point: label public samples by private records under DP, and train a student on them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from tacit.accounting.compose import least_total
from tacit.core import Exchange, InvalidInput, Ledger, Number, Receipt, Release, warn_user
from tacit.core.guarantee import ONE_PLACE, Adjacency, Trust, Unit, large_delta, read_terms
from tacit.core.options import Options, to_recipe
from tacit.core.places import LedgerUrl
from tacit.encoders.kinds import Recognized
from tacit.engines.engine import Engine
from tacit.methods.registry import Method, chosen_method, refuse_masked
from tacit.methods.task import Job, Nodes, Observer, Outcome, Task
from tacit.runs.drive import LEARNING, Checkpoint, PublicTiming, RunControl, TimedCoordinator, drive
from tacit.runs.inputs import Data, read_given
from tacit.runs.payment import (
    CLASSES_READ,
    NODES_BOUND_PERSONS,
    SEVERAL_NODES,
    Payers,
    guarantees_from,
    look_ahead,
    paying,
    weakest,
)
from tacit.runs.run import Run
from tacit.runs.shown import shown_arrays
from tacit.runs.streams import read_stream_task, record_source, require_streamable, streaming
from tacit.runs.task import Holders, Terms, read_nodes_task, read_task
from tacit.students.registry import student_name
from tacit.students.wrapped import for_images, with_encoder, with_names

__all__ = ["distill"]

Group = TypeVar("Group", Data, RunControl)
# Fields of a group that have another name as keyword arguments of ``distill``.
FLAT = {"kind": "data_kind"}


def distill(
    private: Any,  # noqa: ANN401
    public: Any,  # noqa: ANN401
    epsilon: Number | None = None,
    *,
    delta: Number | None = None,
    method: str | Options = "auto",
    classes: Iterable[Any] | None = None,
    data: Data | None = None,
    holders: Holders = 1,
    unit: Unit | None = None,
    adjacency: str = "replace-one",
    trust: str | None = None,
    ledger: Ledger | str | Path | LedgerUrl | None = None,
    account: str | None = None,
    exchange: Nodes | None = None,
    engine: Engine | str | None = None,
    seed: int | None = None,
    control: RunControl | None = None,
    **options: Any,  # noqa: ANN401
) -> Run:
    """Label ``public`` samples by the ``private`` records (X, y) under (ε, δ)-DP, and train a student on them.

    ``method`` is a name (``auto``, ``rknn``, ``class_sums``, ``privatekt``, ``fedmd``, ``pate``, ``private_knn``,
    ``noisy_sgd``) with its options as keyword arguments, or an options object such as
    ``tacit.ReverseKNN(queries=200)``. ``epsilon`` is 1 by default; PrivateKT and FedMD, where every holder has its own
    total, have no default.

    The guarantee holds for one record; with ``persons`` (the person of each record) and ``unit=Unit.person(column, m)``
    it holds for one person, of whom at most m records are used. PrivateKT and the predictions of FedMD protect a holder
    with all its records. ``classes`` is public; if it is not given it is read from the private labels, and the
    guarantee says so. In multi-label data (a table of zeros and ones, or lists of classes) labels are decided one by
    one.

    Samples may be arrays, data frames (pandas, polars), Arrow tables, sparse matrices, tensors, texts, image files, or
    the path of a file or a folder of images; tables are matched by the names of their columns. ``private`` may be a
    table or path in which the label, the person and the holder are columns. ``data=tacit.Data(kind, label, text,
    categories, persons, test)`` describes the samples; its fields may also be given as keyword arguments
    (``data_kind`` for ``kind``). Samples that are not numbers are encoded by an encoder fitted to public samples, and
    the student takes samples in their original form.

    ``holders`` is the number of simulated holders among which the records are divided, a ``Partition``, or one owner
    per record; ``private`` may also be a list or mapping of every holder's (X, y). ``trust`` is the trust model:
    ``central`` for a curator, ``local`` or ``shuffle`` for one-record holders. With ``exchange`` nodes answer, there
    are no records in this process, and ``private`` is None.

    A ``tacit.RecordSource``, a pattern of file names, or a file together with ``engine`` is counted in place, batch by
    batch, by ``threads``, ``ray``, ``spark`` or a ``tacit.Engine`` (votes and class sums; ``classes`` must be given).

    ``ledger`` and ``account`` pay; without them the run has its own budget. ``control=tacit.RunControl(request,
    checkpoint, observer)`` names, resumes and observes a run; its fields may also be given as keyword arguments. A
    ``seed`` makes the run a simulation. Doubtful choices raise a ``TacitWarning`` before anything is paid.

    >>> from tacit.datasets.published import digits
    >>> parts = digits()
    >>> run = distill((parts.private_samples, parts.private_labels), parts.public_samples, 1.0, classes=range(10))
    >>> run.labels.shape, run.student.predict(parts.test_samples).shape
    ((500,), (297,))
    >>> print(str(run.guarantee).splitlines()[0])
    Differential privacy: epsilon = 1, delta = 0 (pure).
    """
    data, control = _grouped(Data, "data", data, options), _grouped(RunControl, "control", control, options)
    chosen, settings = chosen_method(method, options)
    delta, observer = chosen.delta if delta is None else delta, control.observer or Observer()
    read_terms(epsilon, delta, adjacency, trust)
    if unit is not None and not isinstance(unit, Unit):
        raise InvalidInput(f"unit must be a tacit.Unit, such as tacit.Unit.person('patient', 3), got {unit!r}")
    if control.checkpoint is not None and ledger is None and seed is None and exchange is None:
        raise InvalidInput("a run that can be resumed needs a ledger file, or its payments would be lost")
    source = None
    if exchange is None:
        source = record_source(private, data, engine)
    elif engine is not None:
        raise InvalidInput("leave out engine: over nodes, each node names its own engine in its settings")
    if source is not None:
        require_streamable(chosen, settings, data, holders, trust)
        data = replace(data, label=None, persons=source.persons)
    decides = (chosen.name, to_recipe(settings), epsilon, delta, seed)
    kept = Checkpoint.open(control.checkpoint, decides, control.request)
    if exchange is not None:
        _require_nothing_here(private, data.persons, ledger, account, data.test, seed)
    elif ledger is not None and account is not None and not chosen.holders_pay and kept.fresh:
        protected = unit or (Unit() if data.persons is None else Unit.person("person", 1))
        look_ahead(ledger, account, protected, adjacency, epsilon, delta, settings, trust)
    terms = Terms(
        epsilon, delta, classes, _named_unit(unit, data.persons), adjacency, trust, kept.request or uuid.uuid4().hex,
        seed, getattr(settings, "max_labels", None) is not None, observer,
    )  # fmt: skip
    payers: Payers = []
    timing = PublicTiming()
    with streaming(source, engine) as stream:
        given = read_given(
            private if stream is None else None, public, data, holders, exchange is not None,
            getattr(settings, "photographs", False), observer,
        )  # fmt: skip
        if stream is not None:
            task, features = read_stream_task(stream, given, terms)
        elif exchange is not None:
            task, features = read_nodes_task(exchange, given, terms, chosen)
        else:
            task, features = read_task(given, terms)
        task = replace(task, resumed=kept.rounds, own_budget=ledger is None)
        job = _prepared(chosen, settings, task, given.recognized)
        if (nodes := task.nodes) is not None:
            release = _asked(job, lambda: job.over(nodes), kept, observer, timing)
        else:
            with paying(ledger, account, job.accounts(), job.unit, task.adjacency, seed is not None) as payers:
                release = _asked(job, lambda: job.exchange(payers), kept, observer, timing)
    if not release.receipts:
        raise InvalidInput("no holder answered, so no student can be trained")
    observer.stage("training the student")
    claims = _claims(job, task, release.receipts, payers, classes is None)
    return _finished(chosen.name, job, task, given.recognized, given.raw[1], features, release, claims, timing)


def _grouped(kind: type[Group], name: str, given: Group | None, options: dict[str, Any]) -> Group:
    """The group of parameters, given as an object or by its fields, which are then removed from ``options``."""
    if given is not None and not isinstance(given, kind):
        raise InvalidInput(f"{name} must be a tacit.{kind.__name__}, got {type(given).__name__}")
    beside = {each.name: FLAT.get(each.name, each.name) for each in fields(kind)}
    flat = {field: options.pop(flat) for field, flat in beside.items() if flat in options}
    if given is None:
        return kind(**flat)
    for field in flat:
        raise InvalidInput(
            f"{beside[field]} is given both by itself and in {name}: give it in tacit.{kind.__name__} only"
        )
    return given


def _prepared(chosen: Method, settings: Options, task: Task, recognized: Recognized) -> Job:
    """The method's job; its doubts are warnings to the user before anything is paid."""
    if task.nodes is None:
        refuse_masked(chosen, task.trust)
    blocks = {} if recognized.encoder is None else recognized.encoder.blocks
    job: Job = chosen.load_prepare()(replace(task, kind=recognized.kind, blocks=blocks), settings)
    for doubt in (*job.doubts, *_large_delta(job, task)):
        warn_user(doubt)
    return job


def _large_delta(job: Job, task: Task) -> tuple[str, ...]:
    """The warning about a δ of 1/n or more; it depends on n, so it is for the operator alone.

    Accounts of nodes are theirs: there what is allowed decides, and here what will be spent, which may be none of it.
    """
    count = _protected(job, task)
    # Totals may take seconds, and are at most what is allowed.
    if task.delta * count < 1:
        return ()
    if task.nodes is None:
        spent = (least_total(list(each.prices.values()), task.delta).delta for each in job.accounts())
        if all(each * count < 1 for each in spent):
            return ()
    return (large_delta(job.unit),)


def _protected(job: Job, task: Task) -> int:
    """How many units there are that the guarantee is about."""
    if not job.unit.holder:
        return task.units
    return len(task.holders) if task.nodes is None else task.nodes.nodes


def _finished(
    method: str,
    job: Job,
    task: Task,
    recognized: Recognized,
    raw: Any,  # noqa: ANN401
    features: tuple[str, ...] | None,
    release: Release[Any],
    claims: Mapping[str, Any],
    timing: PublicTiming,
) -> Run:
    """The run, computed from releases: all of it is post-processing."""
    # Where holders learn, they do so here once more from their records, and their time is private.
    with nullcontext() if job.holders_learn else timing.of(LEARNING):
        outcome: Outcome = release.map(job.finish).value
    encoder, models = recognized.encoder, outcome.holder_models
    recipe = {
        "method": method,
        "trust": str(job.trust),
        # What was asked for; what was spent may be a little less.
        "asked": {"delta": float(task.delta)} | ({} if task.epsilon is None else {"epsilon": float(task.epsilon)}),
        **job.recipe,
        **outcome.recipe,
        "student": student_name(outcome.student),
        "public_samples": len(task.public),
        "features": int(task.public[0].size),
        "data_kind": recognized.kind,
        **({} if encoder is None else {"encoding": list(encoder.lines)}),
        "randomness": _randomness(task.seed, release.receipts),
    } | ({} if task.nodes is None else _answered(task.nodes, release.receipts))
    student = for_images(outcome.student) if task.public.ndim > 2 else outcome.student
    named = task.public.ndim == 2 and encoder is None
    return Run(
        student=with_names(student, features) if named else with_encoder(student, encoder),
        labels=outcome.labels,
        probabilities=outcome.probabilities,
        classes=task.classes,
        guarantee=weakest(claims),
        guarantees=dict(claims),
        receipts=release.receipts,
        recipe=recipe,
        metrics=dict(outcome.metrics),
        arrays={**outcome.arrays, **shown_arrays(outcome, student, task.public, task.classes, raw)},
        features=features if encoder is None else encoder.names,
        holder_models=None if models is None else models.taking(features, encoder),
        encoder=encoder,
        timing=timing.seconds(),
    )


def _asked(
    job: Job, made: Callable[[], Exchange[Any, Any]], kept: Checkpoint, observer: Observer, timing: PublicTiming
) -> Release[Any]:
    # The plan is shown first: holders that are created here may pay at once, as for NFDP's subset.
    observer.plan(job.plan)
    coordinator: Any = TimedCoordinator(job.coordinator, timing)
    release: Release[Any] = drive(coordinator, kept.around(made(), job.holders_learn))
    return release


def _claims(job: Job, task: Task, receipts: Sequence[Receipt], payers: Payers, classes_read: bool) -> dict[str, Any]:
    """The guarantee of every account, from its receipts, with the caveats that it depends on."""
    exposures = job.exposures()
    if exposures:
        said = [each.with_caveat(CLASSES_READ) if classes_read else each for each in exposures]
        return {account: each for (_, account), each in zip(payers, said, strict=True)}
    caveats = list(job.caveats)
    if task.nodes is not None:
        caveats.insert(0, SEVERAL_NODES)
        if job.unit.column is not None:
            caveats.append(NODES_BOUND_PERSONS)
    elif job.trust is not Trust.CENTRAL:
        caveats.append(ONE_PLACE)
    if classes_read:
        caveats.append(CLASSES_READ)
    found = guarantees_from(
        receipts, delta=task.delta, unit=job.unit, adjacency=task.adjacency, trust=job.trust, caveats=tuple(caveats)
    )
    # Under add/remove adjacency the number of records is private, and a caveat must not depend on it.
    if task.adjacency is not Adjacency.REPLACE_ONE:
        return dict(found)
    count = _protected(job, task)
    return {
        account: each.with_caveat(large_delta(job.unit)) if each.delta * count >= 1 else each
        for account, each in found.items()
    }


def _named_unit(unit: Unit | None, persons: object) -> Unit | None:
    """A column of persons given by name also names the unit."""
    return Unit.person(persons, 1) if unit is None and isinstance(persons, str) else unit


def _randomness(seed: int | None, receipts: Sequence[Receipt]) -> str:
    """The source of the noise; seeds of nodes are known by their receipts only."""
    if seed is not None:
        return f"seed {seed} (simulation)"
    return "seeds of the nodes (simulation)" if any(receipt.simulated for receipt in receipts) else "system"


def _answered(nodes: Nodes, receipts: Sequence[Receipt]) -> dict[str, Any]:
    return {
        "nodes": nodes.nodes,
        "holders": nodes.holders,
        "answered": len({receipt.account for receipt in receipts}),
    }


def _require_nothing_here(*given: object) -> None:
    """Refuse records, accounts and seeds of this process: each node has its own."""
    names = ("private", "persons", "ledger", "account", "test", "seed")
    for name, value in zip(names, given, strict=True):
        if value is not None:
            raise InvalidInput(f"leave out {name}: over nodes each node has its own")
