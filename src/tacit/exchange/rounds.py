"""How one round went: who answered, who did not and why, in words that can be shown while it goes on."""

from __future__ import annotations

from dataclasses import dataclass, field

from tacit.core.errors import TooFewParticipants

__all__ = ["Terms", "Turn"]


@dataclass(frozen=True)
class Terms:
    """When a round is over: ``expected`` nodes are waited for, ``at_least`` must answer, until a ``deadline``.

    Once enough have answered the others get ``grace`` more seconds. ``patience`` is how long nodes are waited for
    before the first round begins; before a later one it is how long ``at_least`` are, and those that were lost get
    their ``grace`` to come back. ``records`` is the most that one node may have; an answer of more is not believed.
    """

    expected: int
    at_least: int
    deadline: float = 300.0
    grace: float = 30.0
    patience: float = 300.0
    records: int = 10**7


@dataclass
class Turn:
    """One round as it goes on. Of those that were dropped, some ``refused``: asked the same again, they would again.

    >>> turn = Turn(0, asked=("north", "south"), answered=["south"], dropped={"north": "did not answer in time"})
    >>> turn.in_words
    'round 1: 1 of 2 nodes answered; north did not answer in time'
    """

    number: int
    asked: tuple[str, ...] = ()
    answered: list[str] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    ignored: dict[str, int] = field(default_factory=dict)
    step: str = ""

    @property
    def in_words(self) -> str:
        """What became of the round, with the name of every node that was lost."""
        said = [f"round {self.number + 1}: {len(self.answered)} of {len(self.asked)} nodes answered"]
        said += [f"{name} {why}" for name, why in sorted(self.dropped.items())]
        said += [f"{count} messages ignored ({why})" for why, count in sorted(self.ignored.items())]
        return "; ".join(said)

    def ignore(self, why: str) -> None:
        """Count a message that is not looked at."""
        self.ignored[why] = self.ignored.get(why, 0) + 1

    def require(self, at_least: int) -> None:
        """End the run in words where too few answered; what was paid is kept at the nodes."""
        if len(self.answered) < at_least:
            raise TooFewParticipants(
                f"{self.in_words}. At least {at_least} were needed. Start the run again when more nodes are there: "
                "what was answered is kept, and nobody pays twice"
            )
