"""The choice of a local mechanism: the one with the smallest error whose messages are short enough."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.core.errors import InvalidInput
from tacit.core.protocols import LocalMechanism
from tacit.core.rational import Number
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.linear_hashing import LinearHashing, possible_sizes
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.unary_encoding import LocalLaplace, UnaryEncoding

__all__ = ["Alternative", "LocalChoice", "choose", "require_current_name"]

# Names of earlier versions.
_RENAMED = {
    "generalized response": "generalized randomized response",
    "local hashing": "optimal local hashing",
    "local hashing, linear": "linear hashing",
    "bit response, asymmetric": "optimized unary encoding",
    "bit response, symmetric": "symmetric unary encoding",
}


def require_current_name(name: str) -> None:
    """Refuse a mechanism's name of an earlier version, and give the new one.

    >>> require_current_name("local hashing")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: the local mechanism 'local hashing' is called 'optimal local hashing' now
    """
    if name in _RENAMED:
        raise InvalidInput(f"the local mechanism {name!r} is called {_RENAMED[name]!r} now")


@dataclass(frozen=True)
class Alternative:
    """A mechanism that was considered, with its error and message size."""

    name: str
    mechanism: LocalMechanism
    mean_squared_error: float
    message_bits: int
    allowed: bool


@dataclass(frozen=True)
class LocalChoice:
    """The chosen mechanism, the reason in words, and everything that was considered, best first."""

    mechanism: LocalMechanism
    reason: str
    alternatives: tuple[Alternative, ...]

    @property
    def table(self) -> str:
        """The alternatives as lines of text.

        >>> print(choose(cells=100, ones=1, epsilon=4).table)
        mechanism                        error per cell   message bits
        generalized randomized response       0.0714032              7
        subset selection                      0.0714032            100
        linear hashing                        0.0855729             18
        optimized unary encoding              0.0860218            100
        optimal local hashing                 0.0860992            134
        symmetric unary encoding               0.181015            100
        discrete Laplace                       0.362031           6400
        """
        lines = [f"{'mechanism':<32} {'error per cell':>14} {'message bits':>14}"]
        lines += [
            f"{each.name:<32} {each.mean_squared_error:>14.6g} {each.message_bits:>14}"
            + ("" if each.allowed else "  too long")
            for each in self.alternatives
        ]
        return "\n".join(lines)


def _candidates(cells: int, ones: int, epsilon: Number) -> dict[str, LocalMechanism]:
    """Every unbiased mechanism on a table of cells, by name; of two equally good ones the first is taken."""
    candidates: dict[str, LocalMechanism] = {
        "generalized randomized response": GeneralizedRandomizedResponse(cells, ones, epsilon)
    }
    if ones == 1 and possible_sizes(cells):
        candidates["linear hashing"] = LinearHashing(cells, ones, epsilon)
    candidates["optimal local hashing" if ones == 1 else "Collision"] = Collision(cells, ones, epsilon)
    candidates["subset selection"] = SubsetSelection(cells, ones, epsilon)
    candidates["optimized unary encoding"] = UnaryEncoding(cells, ones, epsilon)
    candidates["symmetric unary encoding"] = UnaryEncoding(cells, ones, epsilon, symmetric=True)
    candidates["discrete Laplace"] = LocalLaplace(cells, ones, epsilon)
    return candidates


def choose(cells: int, ones: int, epsilon: Number, largest_message_bits: int | None = None) -> LocalChoice:
    """The most accurate local mechanism for participants with ``ones`` of ``cells``, within a limit on message size.

    Accuracy is the expected squared error that one participant adds to a cell, averaged over all cells, which for many
    cells is the variance on zeros. All alternatives spend the same ε. Separation and Concatenation are not among them:
    Collision is better than the first, which splits ε, and than the second, which is biased as published, after its
    correction.

    >>> choice = choose(cells=100, ones=1, epsilon=1)
    >>> choice.mechanism
    SubsetSelection(cells=100, ones=1, epsilon=Fraction(1, 1), size=27)
    >>> print(choice.reason)
    subset selection has the smallest error per cell (3.59953) of 7 mechanisms at epsilon = 1
    >>> print(choose(cells=5000, ones=2, epsilon=1, largest_message_bits=200).reason)
    Collision has the smallest error per cell (8.55525) of the 2 mechanisms at epsilon = 1 with messages of at most \
200 bits; subset selection would have 7.94631 with 5000 bits
    """
    limit = largest_message_bits
    if limit is not None and limit < 1:
        raise InvalidInput(f"largest_message_bits must be at least 1, got {limit}")
    candidates = _candidates(cells, ones, epsilon)
    listed = [
        Alternative(name, each, each.mean_squared_error, each.message_bits, limit is None or each.message_bits <= limit)
        for name, each in candidates.items()
    ]
    # Errors that are equal up to rounding count as equal, so that the shorter message is preferred.
    ranked = sorted(listed, key=lambda each: (float(f"{each.mean_squared_error:.9g}"), each.message_bits))
    allowed = [each for each in ranked if each.allowed]
    if not allowed:
        least = min(each.message_bits for each in ranked)
        raise InvalidInput(f"largest_message_bits must be at least {least} for {cells} cells, got {limit}")
    best = allowed[0]
    reason = f"{best.name} has the smallest error per cell ({best.mean_squared_error:.6g}) of"
    reason += f" {len(allowed)} mechanisms" if limit is None else f" the {len(allowed)} mechanisms"
    reason += f" at epsilon = {float(best.mechanism.epsilon):g}"
    if limit is not None:
        reason += f" with messages of at most {limit} bits"
    if best is not ranked[0]:
        first = ranked[0]
        reason += f"; {first.name} would have {first.mean_squared_error:.6g} with {first.message_bits} bits"
    return LocalChoice(best.mechanism, reason, tuple(ranked))
