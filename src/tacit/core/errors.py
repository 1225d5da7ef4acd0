"""The errors and warnings that a user can see, and helpers for names in messages."""

import re
import sys
import warnings
from collections.abc import Iterable, Sequence

__all__ = [
    "BudgetExceeded",
    "DamagedLedger",
    "InvalidInput",
    "LedgerError",
    "LimitExceeded",
    "RequestConflict",
    "StaleLedger",
    "TacitError",
    "TacitWarning",
    "ToleranceExceeded",
    "TooFewParticipants",
    "listed",
    "nearest",
    "not_one_of",
    "plural",
    "shortened",
    "warn_user",
    "why_unreadable",
]

_SHOWN, _LONGEST = 10, 80
# What a message may quote of a user's input: a word, a text in quotes (which stand between no letters, unlike an
# apostrophe), and a list or an object at the end.
_QUOTED = re.compile(
    rf"""(?<=\bgot )(?:[\[({{<]|array).{{{_LONGEST},}}$"""
    rf"""|(?<!\w)(?P<quote>['"])(?=\S)(?P<text>(?:(?!(?P=quote)(?!\w)).){{{_LONGEST + 1},}})(?P=quote)(?!\w)"""
    rf"""|\S{{{_LONGEST + 1},}}""",
    re.DOTALL,
)


def shortened(message: str) -> str:
    """The message with every overlong piece of a user's input, such as a name that was typed, cut in its middle.

    >>> shortened("no such file: " + 200 * "x")[14:].count("x")
    79
    >>> shortened(f"unknown label {300 * 'b'!r}: give a label that is among the classes").replace("b", "")
    "unknown lael '…': give a lael that is among the classes"
    """
    return _QUOTED.sub(_cut, message)


def _cut(found: re.Match[str]) -> str:
    quote, text = (found["quote"], found["text"]) if found["quote"] else ("", found[0])
    # More of the end: of a path that is the file.
    end = _LONGEST * 5 // 8
    return f"{quote}{text[: _LONGEST - end - 1]}…{text[-end:]}{quote}"


class TacitError(Exception):
    """A failure with an explanation. The command line prints it without a traceback and exits with 1.

    >>> len(str(TacitError(f"unknown account {300 * 'x'!r}")))
    98
    """

    def __str__(self) -> str:
        return shortened(super().__str__())


class TacitWarning(UserWarning):
    """A warning: the run continues but may not be what the user wants. The command line prints it in yellow.

    >>> issubclass(TacitWarning, UserWarning)
    True
    """


def warn_user(message: str, category: type[TacitWarning] = TacitWarning) -> None:
    """Warn, pointing to the line of the user's code that called the library.

    >>> with warnings.catch_warnings(record=True) as heard:
    ...     warnings.simplefilter("always")
    ...     warn_user("epsilon = 10 is weak")
    >>> str(heard[0].message), heard[0].filename == __file__
    ('epsilon = 10 is weak', False)
    """
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "tacit":
        level, frame = level + 1, frame.f_back
    warnings.warn(shortened(message), category, stacklevel=level)


class InvalidInput(TacitError, ValueError):
    """Wrong use: a parameter, a file or a column. The command line exits with 2.

    >>> raise InvalidInput("epsilon must be above 0, got -1")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: epsilon must be above 0, got -1
    """


def why_unreadable(error: Exception) -> str:
    """Why a file cannot be read: the operating system's message, or the type of any other error.

    The text of a parser's error may quote private content of the file.

    >>> why_unreadable(ValueError("could not convert string to float: 'a private cell'"))
    'ValueError'
    """
    return str(error.strerror) if isinstance(error, OSError) and error.strerror else type(error).__name__


class BudgetExceeded(TacitError):
    """The account cannot pay. Nothing was charged and nothing was sampled."""


class LimitExceeded(TacitError):
    """A limit of the policy (per question, purpose or day) is reached. Nothing was charged."""


class ToleranceExceeded(TacitError):
    """The statistic's sensitivity exceeds what the mechanism was calibrated for. Nothing was charged."""


class TooFewParticipants(TacitError):
    """Fewer participants sent messages than the guarantee needs. Nothing was revealed."""


class LedgerError(TacitError):
    """The ledger cannot be opened, or its content is inconsistent."""


class DamagedLedger(LedgerError):
    """The content of the ledger is not what was written: a damaged disk, or an edit by hand."""


class StaleLedger(LedgerError):
    """The ledger differs from the one last used here: it was restored, copied or forked. A person must decide."""


class RequestConflict(LedgerError):
    """A request id was used again for a different question; only the same question can be replayed."""


def nearest(name: str, names: Iterable[str], alike: float = 0.6) -> str | None:
    """The name most similar to a mistyped one, ignoring case; None if none is similar.

    >>> nearest("Diagnose", ["age", "diagnosis"])
    'diagnosis'
    >>> nearest("weight", ["age", "diagnosis"]) is None
    True
    """
    import difflib  # takes a while, and most commands are typed right

    by_lower = {each.lower(): each for each in names}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=alike)
    return by_lower[found[0]] if found else None


def not_one_of(what: str, names: Iterable[str], given: object) -> InvalidInput:
    """The error for a name that is none of these, which suggests the nearest.

    >>> raise not_one_of("labels", ("hard", "soft"), "sof")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: labels must be one of hard, soft, got 'sof'; did you mean 'soft'?
    """
    known = [str(each) for each in names]
    meant = f"; did you mean {close!r}?" if isinstance(given, str) and (close := nearest(given, known)) else ""
    shown = f"{given[: _LONGEST - 1]}…" if isinstance(given, str) and len(given) > _LONGEST else given
    return InvalidInput(f"{what} must be one of {listed(known)}, got {shown!r}{meant}")


def listed(names: Sequence[str]) -> str:
    """At most ten names, none longer than a line, and the number of the others.

    >>> listed([str(each) for each in range(12)])
    '0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more'
    """
    shown = [name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…" for name in names[:_SHOWN]]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(shown) + more


def plural(count: int, one: str, many: str = "") -> str:
    """A number and its noun, in the singular for 1.

    >>> plural(1, "query", "queries"), plural(2, "vote")
    ('1 query', '2 votes')
    """
    return f"{count} {one if count == 1 else many or one + 's'}"
