"""Every error a user can meet, each able to say what is wrong and what to do about it."""

__all__ = [
    "BudgetExceeded",
    "InvalidInput",
    "LedgerError",
    "RequestConflict",
    "TacitError",
    "TacitWarning",
    "ToleranceExceeded",
    "TooFewParticipants",
]


class TacitError(Exception):
    """A failure that Tacit explains. The command line prints it without a traceback and exits with 1."""


class TacitWarning(UserWarning):
    """A run that goes on but may not be what its user wants. The command line prints it in yellow.

    >>> issubclass(TacitWarning, UserWarning)
    True
    """


class InvalidInput(TacitError, ValueError):
    """Wrong use: a parameter, a file or a column. The command line exits with 2.

    >>> raise InvalidInput("epsilon must be above 0, got -1")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: epsilon must be above 0, got -1
    """


class BudgetExceeded(TacitError):
    """The account cannot pay. Nothing was charged and nothing was sampled."""


class ToleranceExceeded(TacitError):
    """A statistic may move further than the mechanism was calibrated for. Nothing was charged."""


class TooFewParticipants(TacitError):
    """Fewer clients sent messages than the guarantee was planned for. Nothing was revealed."""


class LedgerError(TacitError):
    """The ledger cannot be opened, or what it holds does not agree with itself."""


class RequestConflict(LedgerError):
    """A request id was used again for a different question. A replay must be the same question."""
