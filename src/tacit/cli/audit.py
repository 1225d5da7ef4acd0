"""``tacit audit``: compare a mechanism's claimed privacy loss with a lower bound from samples."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from tacit.cli.screen import console, counting, show_rows
from tacit.core import InvalidInput, listed, positive, probability

if TYPE_CHECKING:
    from tacit.audit.auditor import Finding
    from tacit.audit.mutants import Mutant
    from tacit.mechanisms.auditing import Check

__all__ = ["audit_command"]

PROTOCOL = "protocol"


def audit_command(
    mechanism: str | None = typer.Argument(
        None, help="A mechanism or a mutant of the lists above, or 'all'.", show_default=False
    ),
    epsilon: float = typer.Option(1.0, help="The mechanism's claimed ε, which must not be exceeded."),
    delta: float = typer.Option(
        0.01, help="The δ of mechanisms that need one; samples cannot test a much smaller one."
    ),
    samples: int = typer.Option(1_000_000, min=100, help="Draws of each input; slow mechanisms get fewer."),
    confidence: float = typer.Option(
        0.999,
        help="Confidence of the whole table: the probability that any true claim in it fails is at most 1 − this.",
    ),
    mutants: bool = typer.Option(
        False,
        "--mutants",
        help="Also audit the mechanism's mutants (deliberately broken copies): the audit must catch them all.",
    ),
    questions: int = typer.Option(50, min=1, help="For 'protocol': hostile questions per request and account kind."),
) -> None:
    """Estimate a mechanism's privacy loss from samples, and compare it with its claim.

    A mechanism runs many times on two inputs that differ in one record.
    Half of the runs look for an event that is frequent on one input and rare
    on the other; the rest bound its two probabilities (Clopper and Pearson),
    which proves a lower bound on ε. Above the claim, the claim is false, and
    the exit code is 1. Below it nothing is proven: an audit finds mistakes, it
    cannot show that there are none. Where counts are estimated, their error in
    standard deviations (z) is tested for bias.

    Central mechanisms:
    permute-and-flip, exponential-mechanism, discrete-laplace,
    discrete-gaussian, rounded-gaussian, distributed-gaussian, pate-lnmax,
    pate-gnmax, pate-confidence, pate-tested, pate-estimated, private-knn,
    private-knn-replaced, private-knn-filtered, private-knn-screen

    Local mechanisms:
    bits-symmetric (SUE), bits-asymmetric (OUE), generalized-response (GRR), subset-selection,
    collision, linear-hashing, separation, concatenation-published,
    concatenation-corrected, local-laplace, privatekt-answers

    Shuffled messages, secret subsets, and the whole path from records to labels:
    shuffled-response, flooded-messages, nfdp-subset, nfdp-with-replacement,
    nfdp-stratified, gate, gate-retried

    All messages that a server sees in whole runs of a protocol:
    masked-sum, masked-packets, shuffled-counts, shuffled-order

    All that a coordinator sees besides the released values ('tacit audit protocol'):
    nodes, a shuffler and a curator on data sets that differ in one record get
    the same hostile questions; kinds and sizes of replies, charges, counts and
    reply times must be equal

    Mutants, each with one mistake made on purpose:
    laplace-half-noise, gaussian-half-noise, rounded-gaussian-half-noise,
    gnmax-half-noise, lnmax-one-cell, rounded-shares, one-way-sensitivity, leaked-count,
    truncated-tail, reused-noise, local-sensitivity, drawn-with-replacement, underpriced-subset,
    redrawn-subset, half-the-bits, one-answer-more, reused-hash-seed,
    product-of-one-message, no-flood, not-shuffled, wrong-adjacency,
    redrawn-answer, half-a-share, masks-left-out, order-kept

    Example: tacit audit permute-and-flip --epsilon 1

    Example: tacit audit all --mutants

    Example: tacit audit protocol --questions 200
    """
    if mechanism == PROTOCOL:
        return _audit_protocol(questions)
    if mechanism is not None:
        console.print("[dim]drawing samples[/dim]")
    from tacit.audit.auditor import audit as compare

    budget, failure = positive(epsilon, "epsilon"), probability(delta, "delta")
    if not 0 < failure < 0.5:
        raise InvalidInput(f"delta must be in (0, 0.5), got {delta}")
    if not 0.5 <= confidence < 1:
        raise InvalidInput(f"confidence must be in [0.5, 1), got {confidence}")
    checks, broken = _chosen(mechanism, mutants, budget, failure)
    rows = [*checks, *(each.check(budget, failure) for each in broken)]
    findings: list[Finding] = []
    # The confidence is that of the whole table: the error is split equally among the rows.
    each_confidence = 1 - (1 - confidence) / len(rows)
    with counting(len(rows), "drawing samples") as tell:
        for check in rows:
            findings.append(compare(check, samples, each_confidence))
            tell(len(findings))
    own, seeded = findings[: len(checks)], list(zip(broken, findings[len(checks) :], strict=True))
    console.print(f"ε = {epsilon:g}, confidence {confidence:g} for the whole table", style="bold")
    _show("mechanism", own, holds="holds", fails="FAILS")
    if seeded:
        console.print("Broken on purpose: each must be caught.", style="bold")
        _show("mutant", [finding for _, finding in seeded], holds="ESCAPED", fails="caught")
        for mutant in broken:
            console.print(Text.assemble((mutant.name, "bold"), f" ({mutant.mechanism}): {mutant.flaw}"))
    _conclude([finding for finding in own if not finding.passed], [each for each, found in seeded if found.passed])


def _chosen(
    mechanism: str | None, mutants: bool, epsilon: Fraction, delta: Fraction
) -> tuple[list[Check], list[Mutant]]:
    """What is audited under this name, and the mutants that must be caught beside it."""
    from tacit.audit.auditor import AUDITABLE, PROTOCOLS, runnable
    from tacit.audit.mutants import MUTANTS
    from tacit.core import nearest

    if mechanism is None:
        raise InvalidInput(f"say what to audit, for example 'tacit audit permute-and-flip': {_known()}")
    if mechanism in MUTANTS:
        if mutants:
            raise InvalidInput(f"{mechanism} is a mutant itself: leave out --mutants, or name a mechanism")
        return [MUTANTS[mechanism].check(epsilon, delta)], []
    if mechanism != "all" and mechanism not in AUDITABLE:
        near = nearest(mechanism, ["all", PROTOCOL, *AUDITABLE, *MUTANTS])
        guess = f" (did you mean {near}?)" if near else ""
        raise InvalidInput(f"unknown mechanism {mechanism!r}{guess}: {_known(listed)}; 'tacit audit' lists all")
    names = [name for name in AUDITABLE if runnable(name)] if mechanism == "all" else [mechanism]
    if len(left := set(PROTOCOLS) - set(names)) and mechanism == "all":
        console.print(f"left out, since they need tacit[federated]: {', '.join(sorted(left))}")
    checks = [check for name in names for check in AUDITABLE[name](epsilon, delta)]
    return checks, [each for each in MUTANTS.values() if mutants and each.mechanism in names]


def _known(shown: Callable[[Sequence[str]], str] = ", ".join) -> str:
    from tacit.audit.auditor import AUDITABLE
    from tacit.audit.mutants import MUTANTS

    return (
        f"choose one of {shown(sorted(AUDITABLE))}, or all of them: all, or a mutant: {shown(list(MUTANTS))}, "
        f"or what a coordinator sees besides releases: {PROTOCOL}"
    )


def _audit_protocol(questions: int) -> None:
    """Ask neighboring data sets hostile questions, show what a coordinator saw, and fail where anything differed."""
    from tacit.audit.auditor import runnable

    if not runnable("masked-sum"):
        raise InvalidInput("auditing the protocol needs an extra: pip install 'tacit[federated]'")
    from tacit.audit.protocol import AUDITED_ACCOUNTS, PROTOCOL_RUNS, play
    from tacit.core import SystemRandomness

    with _quiet(), counting(questions * len(PROTOCOL_RUNS) * len(AUDITED_ACCOUNTS), "asking") as tell:
        rows = play(questions, SystemRandomness(), tell)
    shown = []
    for row in rows:
        verdict = Text("DIFFERS", "bold red") if row.differing else Text("equal", "green")
        numbers = (str(row.questions), str(row.endings["answered"]), str(len(row.differing)))
        shown.append((row.protocol, row.account, *numbers, verdict))
    show_rows(("protocol", "account", "questions", "answered", "differing", "verdict"), shown)
    differing = sorted({kind for row in rows for kind in row.differing})
    for kind in differing:
        console.print(Text.assemble(("differs:", "bold red"), f" {kind}"))
    if differing:
        raise typer.Exit(1)
    console.print(
        "[dim]Replies, sizes, charges, counts and times did not depend on the record that differed. That is no proof: "
        "other questions may.[/dim]"
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence overflow warnings and refusals in logs: hostile questions cause both on purpose."""
    log = logging.getLogger("tacit")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def _show(what: str, findings: list[Finding], holds: str, fails: str) -> None:
    rows = []
    for finding in findings:
        verdict = holds if finding.passed else fails
        style = "bold red" if verdict.isupper() else "green"
        rows.append((finding.name, *_compared(finding), Text(verdict, style)))
    show_rows((what, "claimed", "samples show", "samples", "seconds", "verdict"), rows, folding=(what,))


def _compared(finding: Finding) -> tuple[str, str, str, str]:
    if finding.share is None:
        claimed, shown = f"|z| ≤ {finding.allowed:.2f}", f"|z| = {finding.found:.2f}"
    else:
        claimed, shown = finding.claimed, f"{finding.measure} ≥ {finding.found:.3f} {finding.share:>5.0%}"
    return claimed, shown, f"{finding.samples:,}", f"{finding.seconds:.1f}"


def _conclude(failed: list[Finding], escaped: list[Mutant]) -> None:
    for finding in failed:
        console.print(Text.assemble(("fails:", "bold red"), f" {finding}"))
    for mutant in escaped:
        flaw = f" {mutant.name}: the audit does not see it at this ε with this few samples"
        console.print(Text.assemble(("escaped:", "bold red"), flaw))
    if failed or escaped:
        raise typer.Exit(1)
    console.print(
        "[dim]No claim is contradicted. That is no proof: proofs are in the mechanisms' docstrings, and an audit finds "
        "where code and proof differ.[/dim]"
    )
