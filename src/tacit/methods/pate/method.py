"""PATE as one job: teachers on disjoint records vote through one gate in this process, or each node is a teacher."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.calibrate import screened_sigma
from tacit.accounting.pate import diagnosed_epsilon
from tacit.core import Adjacency, Exchange, Integers, Mechanism, Release, Rule, Trust, Unit
from tacit.core.errors import InvalidInput, TacitWarning, plural, warn_user
from tacit.core.options import Options
from tacit.mechanisms.central.discrete_gaussian import DiscreteGaussianNoise
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.central.pate import ConfidentScreen, GNMax, LNMax
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.mechanisms.central.tested_votes import TestedGNMax, contested_sigma
from tacit.mechanisms.description import noise_in_words
from tacit.mechanisms.masked.distributed_laplace import DistributedLaplace
from tacit.methods.curated import Answering, CuratedJob
from tacit.methods.forecast import Evidence, Expected, noise_unit, voted
from tacit.methods.pate.coordinator import TeacherCoordinator, TeacherLabels, teacher_requests
from tacit.methods.pate.holder import TeacherHolder, rows_per_teacher
from tacit.methods.pate.options import PATE
from tacit.methods.rknn.method import require_robust
from tacit.methods.rknn.reading import pooling, robustly_added
from tacit.methods.task import Announcement, Job, Nodes, Outcome, Task, taught, untrained
from tacit.private.gate import Gate
from tacit.private.records import Private, Records, combine, inspect, joined

__all__ = ["forecast", "prepare", "vote_noise"]

_FEW = (50, 100, 200, 400)
RECORDS_PER_TEACHER = 20
# The noise of the screen relative to that of the answers, as published for handwritten digits: 150 and 40.
SCREEN = Fraction(15, 4)
# The part of ε that the test of contested votes costs: less, and its margin takes more teachers than there are.
TEST = Fraction(1, 4)
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
        screen, votes = _confident(task, options, len(asked))
        mechanism, answers = votes, votes.queries
    elif options.contested is not None:
        mechanism = _tested(task, options, len(asked))
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
        finish=partial(_finished, task, student),
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


def _confident(task: Task, options: PATE, queries: int) -> tuple[ConfidentScreen, GNMax]:
    """Confident-GNMax: the screen and the answers, which together stay within (ε, δ)."""
    if task.nodes is not None:
        raise InvalidInput("over nodes, where each node is one teacher, there is no screen: leave out threshold")
    if task.delta == 0:
        raise InvalidInput("gaussian noise needs delta above 0, for example 1e-6; got 0")
    answers = max(1, queries // 2) if options.answers is None else min(options.answers, queries)
    sigma = screened_sigma(task.budget, task.delta, answers, queries, SCREEN)
    threshold = math.ceil(float(options.threshold or 1) * teachers_of(task, options))
    return ConfidentScreen(SCREEN * sigma, threshold, queries), GNMax(sigma, answers)


def _tested(task: Task, options: PATE, queries: int) -> TestedGNMax:
    """GNMax with less noise where a test finds few queries contested, all of it within (ε, δ)."""
    if task.nodes is not None:
        raise InvalidInput("there is no test over nodes, where each node is one teacher: leave out contested")
    if task.delta == 0:
        raise InvalidInput("a test of the votes needs delta above 0, for example 1e-6; got 0")
    epsilon, delta = (1 - TEST) * task.budget, task.delta / 2
    doubted = max(1, math.ceil((options.contested or 0) * queries))
    made = TestedGNMax(contested_sigma(epsilon, delta, doubted), queries, epsilon, delta, TEST * task.budget)
    teachers = teachers_of(task, options)
    if 2 * made.margin >= teachers or made.sigma >= made.safe.sigma:
        raise InvalidInput(
            f"a test gains nothing here: it takes more than {2 * made.margin} teachers and a noise of "
            f"{float(made.sigma):.3g} below {float(made.safe.sigma):.3g}; there are {teachers} teachers. Leave out "
            "contested"
        )
    return made


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


def teachers_of(task: Task, options: PATE) -> int:
    """The number of teachers: that of the holders, or that among which one holder's records are partitioned."""
    if task.nodes is not None:
        return task.nodes.nodes
    if len(task.parts) > 1:
        return len(task.parts)
    return options.teachers or max(2, task.units // RECORDS_PER_TEACHER)


def vote_noise(task: Task, options: PATE, trust: Trust, queries: int, each: int) -> Mechanism[Any, Any]:
    """The mechanism of one round of ``each`` queries, within (ε, δ) for all ``queries``; a teacher changes 2 votes."""
    moved, now, budget = 2 * queries, 2 * each, task.budget
    if trust is Trust.MASKED and task.nodes is not None:
        if options.mechanism not in ("auto", "laplace"):
            raise InvalidInput(f"secure aggregation (trust masked) has laplace noise only, not {options.mechanism}")
        part = budget * Fraction(now, moved)
        return DistributedLaplace.for_epsilon(
            part,
            now,
            task.nodes.nodes,
            most=1,
            surviving=task.nodes.surviving,
            honest=task.nodes.honest,
            colluding=task.nodes.colluders,
        )
    name = options.mechanism
    if name == "auto":
        name = "laplace" if trust is Trust.LOCAL else "gaussian" if task.delta > 0 else "permute-and-flip"
    if name in ("gaussian", "gnmax"):
        if task.delta == 0:
            raise InvalidInput("gaussian noise needs delta above 0, for example 1e-6; got 0")
        noise = DiscreteGaussianNoise.for_budget(budget, task.delta, moved, True, 1, Rule.PLANNED)
        return DiscreteGaussianNoise(noise.sigma, now, True) if name == "gaussian" else GNMax(noise.sigma, each)
    if name == "lnmax":
        return LNMax(budget / moved, each)
    part = budget * Fraction(now, moved)
    return DiscreteLaplaceNoise.for_epsilon(part, now) if name == "laplace" else PermuteAndFlip.for_epsilon(part, now)


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


def _finished(task: Task, student: Any, released: TeacherLabels) -> Outcome:  # noqa: ANN401
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
    return Outcome(trained, labels, None, arrays)


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


def forecast(task: Task, options: Options, evidence: Evidence) -> Expected:
    """The forecast for the best of a few numbers of queries, or for the given one."""
    assert isinstance(options, PATE)
    classes, records = evidence.classes, task.units * task.unit.records
    teachers = options.teachers or max(2, records // RECORDS_PER_TEACHER)
    taught = evidence.learned(records / teachers)
    tried = []
    for queries in (options.queries,) if options.queries else sorted({min(each, len(task.public)) for each in _FEW}):
        key = ("teachers", task.budget, task.delta, options.mechanism, queries)
        if key not in evidence.found:
            lead = _lead(vote_noise(task, options, Trust.CENTRAL, queries, queries), classes)
            evidence.found[key] = noise_unit(lead, classes)
        noise = evidence.found[key]
        right, deviation = voted(np.ones(1), taught, teachers, noise, classes)
        # Teachers make the same errors on hard samples, so labels are at most as accurate as a good model.
        right = min(right, evidence.reachable())
        certain = max(0.0, (right - 1 / classes) / (1 - 1 / classes))
        student = evidence.learned(queries * certain)
        asked = queries / len(task.public)
        tried.append(
            Expected(asked * right + (1 - asked) * student, 0.02 + deviation / queries**0.5, queries, None, teachers,
                     1.0 + 0.02 * teachers, f"{teachers} teachers, noise of {noise:.3g} votes")
        )  # fmt: skip
    return max(tried, key=lambda each: each.accuracy)


def _lead(mechanism: Any, classes: int) -> float:  # noqa: ANN401
    if hasattr(mechanism, "lead"):
        return float(mechanism.lead(classes, 0.01))
    return float(mechanism.sigma) * 4.25 if hasattr(mechanism, "sigma") else 7.33 / float(mechanism.rate)
