"""Every mechanism that can be audited by name, with all that is checked of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from importlib.util import find_spec

from tacit.audit import central, gate, local, sampling, shuffle
from tacit.audit.checks import Check
from tacit.core.errors import InvalidInput

__all__ = ["MECHANISMS", "PROTOCOLS", "runnable"]

Checks = Callable[[Fraction, Fraction], Sequence[Check]]


def runnable(name: str) -> bool:
    """Whether all that an audit needs is installed: protocols need keys and ciphers.

    >>> runnable("permute-and-flip")
    True
    """
    return name not in PROTOCOLS or find_spec("cryptography") is not None


def _protocol(name: str) -> Checks:
    def checks(epsilon: Fraction, delta: Fraction) -> Sequence[Check]:
        if not runnable(name):
            raise InvalidInput(
                f"{name} is the audit of a protocol with keys and ciphers: pip install 'tacit[federated]'"
            )
        from tacit.audit.transcripts import masked_transcript, shuffled_transcript

        if name.startswith("masked"):
            return [masked_transcript(epsilon, packets=name == "masked-packets")]
        return [shuffled_transcript(epsilon, delta, order=name == "shuffled-order")]

    return checks


# What a server sees in whole runs: sum and packets of masked ones, numbers and order of messages in shuffled ones.
PROTOCOLS = ("masked-sum", "masked-packets", "shuffled-counts", "shuffled-order")
# The checks of a mechanism that is to spend ε, and where its claim needs one, δ.
MECHANISMS: Mapping[str, Checks] = {
    "permute-and-flip": lambda epsilon, delta: [central.permute_and_flip(epsilon)],
    "exponential-mechanism": lambda epsilon, delta: [central.exponential_mechanism(epsilon)],
    "discrete-laplace": lambda epsilon, delta: [central.discrete_laplace(epsilon)],
    "discrete-gaussian": lambda epsilon, delta: [central.discrete_gaussian(epsilon, delta)],
    "pate-lnmax": lambda epsilon, delta: [central.laplace_votes(epsilon)],
    "pate-gnmax": lambda epsilon, delta: [central.gaussian_votes(epsilon, delta)],
    "pate-confidence": lambda epsilon, delta: [central.confidence_screen(epsilon, delta)],
    "private-knn": lambda epsilon, delta: [central.sampled_votes(epsilon, delta)],
    "bits-symmetric": lambda epsilon, delta: local.bits(epsilon, symmetric=True),
    "bits-asymmetric": lambda epsilon, delta: local.bits(epsilon, symmetric=False),
    "generalized-response": lambda epsilon, delta: local.generalized_response(epsilon),
    "subset-selection": lambda epsilon, delta: local.subset_selection(epsilon),
    "collision": lambda epsilon, delta: local.collision(epsilon),
    "linear-hashing": lambda epsilon, delta: local.linear_hashing(epsilon),
    "separation": lambda epsilon, delta: local.separation(epsilon),
    "concatenation-published": lambda epsilon, delta: local.concatenation(epsilon, corrected=False),
    "concatenation-corrected": lambda epsilon, delta: local.concatenation(epsilon, corrected=True),
    "local-laplace": lambda epsilon, delta: local.laplace(epsilon),
    "privatekt-answers": lambda epsilon, delta: [local.private_answers(epsilon)],
    "shuffled-response": lambda epsilon, delta: [shuffle.single_message(epsilon, delta)],
    "flooded-messages": shuffle.flooded_messages,
    "nfdp-subset": lambda epsilon, delta: [sampling.subset_sample(replacement=False)],
    "nfdp-with-replacement": lambda epsilon, delta: [sampling.subset_sample(replacement=True)],
    "nfdp-stratified": lambda epsilon, delta: [sampling.stratified_sample()],
    "gate": lambda epsilon, delta: [gate.gate(epsilon)],
    "gate-retried": lambda epsilon, delta: [gate.gate_retried(epsilon)],
    **{name: _protocol(name) for name in PROTOCOLS},
}
