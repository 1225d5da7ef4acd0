"""PATE as one job: teachers on disjoint records vote through one gate in this process, or each node is a teacher."""

from __future__ import annotations

import warnings
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.pate import diagnosed_epsilon
from tacit.core import Adjacency, Exchange, Integers, Mechanism, Release, Trust, Unit
from tacit.core.errors import InvalidInput, TacitWarning, plural, warn_user
from tacit.mechanisms.description import noise_in_words
from tacit.methods.curated import Answering, CuratedJob
from tacit.methods.pate.coordinator import TeacherCoordinator, TeacherLabels, teacher_requests
from tacit.methods.pate.holder import TeacherHolder, rows_per_teacher
from tacit.methods.pate.options import PATE
from tacit.methods.pate.plan import (
    confident_votes,
    estimated_votes,
    plain_sigma,
    teachers_of,
    tested_votes,
    told_cost,
    vote_noise,
)
from tacit.methods.rknn.method import require_robust
from tacit.methods.rknn.reading import pooling, robustly_added
from tacit.methods.task import Announcement, Job, Nodes, Outcome, Task, taught, untrained
from tacit.private.gate import Gate
from tacit.private.records import Private, Records, combine, inspect, joined

__all__ = ["prepare"]

ESTIMATED = (
    "the estimated epsilon says what this run's labels cost on these records' votes; it is no promise, and the ledger "
    "charged the cost that holds for any votes"
)
SEVERAL_MODELS = "the teachers were trained on records without noise; they stay with their holders and are not covered"
HOLDERS_KNOWN = "which holder has a record or person is public: one is replaced by another of the same holder"


def prepare(task: Task, options: PATE) -> Job:
    """The job that labels public samples by the noisy votes of teachers."""
    task.single_labels("pate")
    nodes = task.nodes
    trust = task.trusting(
        *((Trust.CENTRAL,) if nodes is None else (Trust.LOCAL, Trust.MASKED)),
        default=Trust.CENTRAL if nodes is None else Trust.MASKED,
    )
    if options.robust is not None:
        require_robust(options.robust, trust, None if nodes is None else nodes.holders)
    if nodes is None:
        _require_teachers(task, options)
    asked = task.public if options.queries is None else task.public[: options.queries]
    student = untrained(options.student)
    untrained(options.teacher)
    screen, answers = None, len(asked) // options.rounds
    mechanism: Mechanism[Any, Any]
    if options.rounds > 1:
        if not answers:
            raise InvalidInput(
                f"rounds must be at most the {plural(len(asked), 'query', 'queries')}, got {options.rounds}"
            )
        # Queries are chosen among all public samples; their number is as given.
        asked = task.public
    if options.threshold is not None:
        screen, mechanism = confident_votes(task, options, len(asked))
        answers = mechanism.queries
    elif options.contested is not None:
        mechanism = tested_votes(task, options, len(asked))
    elif options.cost_estimate is not None:
        mechanism = estimated_votes(task, options.cost_estimate, len(asked), partial(plain_sigma, queries=len(asked)))
    else:
        mechanism = vote_noise(task, options, trust, answers * options.rounds, answers)
    if options.diagnostic:
        _require_diagnosed(task, mechanism)
    coordinator = TeacherCoordinator(
        asked, task.classes, mechanism, task.request, screen=screen, answers=answers, rounds=options.rounds,
        choose=partial(_least_sure, task, student),
    )  # fmt: skip
    unit = Unit.whole_holder() if nodes is not None else task.unit
    caveats: tuple[str, ...] = (SEVERAL_MODELS,)
    if nodes is None and task.division is None and task.adjacency is Adjacency.REPLACE_ONE:
        caveats += (HOLDERS_KNOWN,)
    if options.cost_estimate is not None:
        caveats += (ESTIMATED,)
    prices = dict.fromkeys(teacher_requests(task.request, options.rounds), mechanism.spend)
    if screen is not None:
        prices[f"{task.request}-screen"] = screen.spend
    chosen = {
        "queries": len(asked) if options.rounds == 1 else answers * options.rounds,
        "mechanism": type(mechanism).__name__,
        **noise_in_words(mechanism),
        "teachers": teachers_of(task, options),
    }
    lines = [
        ("questions", f"{chosen['teachers']} teachers vote on {chosen['queries']} public samples"),
        ("mechanism", type(mechanism).__name__),
    ]
    if screen is not None:
        said = f"{answers} are answered, first those where {screen.threshold} teachers agree"
        lines.append(("screening", said))
    return CuratedJob(
        task,
        options,
        Announcement(tuple(lines)),
        coordinator,
        trust=trust,
        prices=prices,
        chosen=chosen,
        stage="training the teachers and counting their votes",
        holder=partial(_answering, task, options, mechanism),
        finish=partial(_finished, task, student, mechanism),
        unit=unit,
        caveats=caveats,
        pool=partial(_pooled, options.robust),
    )


def _require_teachers(task: Task, options: PATE) -> None:
    """Refuse if one record could change several teachers, or if the number of teachers would reveal that of records."""
    if task.division not in (None, "even"):
        raise InvalidInput(
            f"records are partitioned among teachers by {task.division}: one changed label would move other records "
            "between teachers. Partition them evenly, or give the records of each holder"
        )
    alone = len(task.parts) == 1
    if task.unit.holder and (task.division is not None or alone):
        raise InvalidInput(
            "a whole holder is protected only if each holder is one teacher: give the records of each holder. If the "
            "records of one holder are partitioned among teachers, a changed holder changes several of them"
        )
    if task.unit.holder and task.adjacency is not Adjacency.REPLACE_ONE:
        raise InvalidInput(
            "under add-remove the number of holders is private, but it is the number of teachers: use replace-one"
        )
    if task.adjacency is not Adjacency.REPLACE_ONE and task.division is None and not alone:
        raise InvalidInput(
            "under add-remove an added record may be of a new holder, and the number of holders is the number of "
            "teachers, which is public: use replace-one, or leave out holders and give teachers"
        )
    if options.teachers is not None and not alone:
        raise InvalidInput(f"each of the {len(task.parts)} holders is one teacher: leave out teachers, or holders")
    if task.adjacency is not Adjacency.REPLACE_ONE and options.teachers is None and alone:
        raise InvalidInput("give teachers: under add-remove the number of records is private")


def _require_diagnosed(task: Task, mechanism: Any) -> None:  # noqa: ANN401
    """Refuse the diagnostic if the data-dependent ε is not known, or the votes are not in this process."""
    if task.nodes is not None:
        raise InvalidInput("the diagnostic needs the votes, which the coordinator of nodes does not have; leave it out")
    if task.delta == 0 or mechanism.noise_law is None:
        raise InvalidInput("the diagnostic needs a delta above 0 and laplace or gaussian votes")


def _least_sure(task: Task, student: Any, rows: Integers, labels: Integers, count: int) -> Integers:  # noqa: ANN401
    """The samples about which a student trained on the labels so far is least certain; post-processing."""
    from sklearn.base import clone

    samples = task.public.reshape(len(task.public), -1)
    with warnings.catch_warnings():
        # Warnings about this temporary student are not for the user; the final one warns itself.
        warnings.simplefilter("ignore", TacitWarning)
        trained = taught(clone(student), samples[rows], task.classes[labels], np.ones(len(rows)))
    left = np.setdiff1d(np.arange(len(samples)), rows)
    if not hasattr(trained, "predict_proba"):
        return left[:count]
    chances = np.sort(trained.predict_proba(samples[left]), axis=1)
    lead = chances[:, -1] - chances[:, -2] if chances.shape[1] > 1 else np.zeros(len(left))
    return left[np.argsort(lead, kind="stable")[:count]]


def _answering(task: Task, options: PATE, mechanism: Mechanism[Any, Any], gate: Gate) -> Answering:
    """The teachers of all holders behind one gate."""
    holder = TeacherHolder(_shards(task, options), gate, lambda: copied_estimator(options.teacher))
    shown: list[NDArray[Any]] = []

    def answer(ask: Any) -> Release[Any]:  # noqa: ANN401
        released = holder.answer(ask)
        if options.diagnostic and ask.mechanism.releases == "counts":
            shown.append(holder.exact_votes(ask))
            _diagnose(mechanism, task.delta, np.concatenate(shown))
        return released

    return answer


def _diagnose(mechanism: Any, delta: Fraction, votes: NDArray[Any]) -> None:  # noqa: ANN401
    """Show the data-dependent ε on the operator's screen."""
    law = mechanism.noise_law
    found = diagnosed_epsilon(votes, law.kind, law.scale, float(delta))
    warn_user(
        f"diagnostic, private and not stored: the data-dependent epsilon of {len(votes)} answers is about {found:.3g} "
        f"at delta = {float(delta):g}. The charge and the guarantee do not depend on votes"
    )


def _shards(task: Task, options: PATE) -> list[Private[Records]]:
    """Disjoint records for each teacher: those of each holder, or a random partition of one holder's."""
    if task.division is None:
        return list(task.parts)
    whole, count = combine(task.parts, joined), teachers_of(task, options)
    rows = inspect([whole], lambda own: rows_per_teacher(own[0], count, task.adjacency, task.randomness))
    return [whole.map(partial(_taken, mine)) for mine in rows]


def _pooled(robust: str | None, nodes: Nodes) -> Exchange[Any, Any]:
    """The nodes' votes, added by the coordinator or combined by a robust rule."""
    if robust is None:
        return nodes.exchange
    return pooling(nodes.exchange, lambda tables: robustly_added(robust, tables).counts)


def _finished(task: Task, student: Any, mechanism: Any, released: TeacherLabels) -> Outcome:  # noqa: ANN401
    """A student trained on the labeled samples, which labels the others."""
    samples = task.public.reshape(len(task.public), -1)
    # Samples that did not pass the screen are not used for training, unless none passed.
    kept = released.passed if released.passed.any() else ~released.passed
    known, rows = task.classes[released.labels], released.rows
    trained = taught(student, samples[rows[kept]], known[kept], np.ones(int(kept.sum())))
    labels = np.asarray(trained.predict(samples), dtype=task.classes.dtype)
    labels[rows[kept]] = known[kept]
    arrays = {
        "queries": samples[rows].astype(np.float32),
        "query_labels": known,
        "answered": rows,
        "passed": released.passed,
    }
    if released.votes is not None:
        arrays["votes"] = released.votes
    # Two numbers more than labels are an estimate.
    metrics = told_cost(mechanism, released.more) if released.more else {}
    return Outcome(trained, labels, None, arrays, metrics)


def copied_estimator(teacher: Any) -> Any:  # noqa: ANN401
    """A separate untrained model for every teacher; a shared one would be trained again by each.

    >>> from sklearn.naive_bayes import GaussianNB
    >>> model = GaussianNB()
    >>> copied_estimator(model) is model
    False
    """
    from sklearn.base import clone

    return untrained(teacher) if isinstance(teacher, str) else clone(teacher)


def _taken(rows: Integers, records: Records) -> Records:
    return records.take(rows)
