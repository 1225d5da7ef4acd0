"""Jobs that a person at the node approves before their first answer: noted when asked, decided on the command line.

A job is a run with one method, mechanism and purpose at one price. Each is a file of its own in the node's folder that
is written once, as pending, and then only its state changes: what a person saw is what that person approves. A later
question of the same job that costs no more is covered; one that costs more is another job.
"""

from __future__ import annotations

import hashlib
import json
import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacit.accounting.running import Running
from tacit.core.errors import InvalidInput
from tacit.core.files import write_file
from tacit.core.guarantee import decimal
from tacit.core.spend import Spend, spend_from_json, spend_to_json

__all__ = ["APPROVED", "DECLINED", "PENDING", "ApprovalRequest", "Approvals"]

log = logging.getLogger("tacit.node")

PENDING, APPROVED, DECLINED = "pending", "approved", "declined"
# Whoever asks could fill the disk; what comes when this many wait is refused and not noted down.
MOST_PENDING = 100
DIGITS = 16


@dataclass(frozen=True)
class ApprovalRequest:
    """What a coordinator asks for under one name, and what one answer costs.

    >>> from tacit.core.spend import Pure
    >>> job = ApprovalRequest("run-1", "rknn", "DiscreteLaplaceNoise", "labels", Pure("0.5"))
    >>> job.covers(replace(job, spend=Pure("0.25"))), job.covers(replace(job, spend=Pure(5)))
    (True, False)
    >>> job.price
    'epsilon 0.5'
    """

    run: str
    method: str
    mechanism: str
    purpose: str
    spend: Spend
    state: str = PENDING
    at: str = ""

    @property
    def id(self) -> str:
        """A short name that binds all that was asked."""
        asked = [self.run, self.method, self.mechanism, self.purpose, spend_to_json(self.spend)]
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:DIGITS]

    @property
    def price(self) -> str:
        """What one answer costs, in words."""
        epsilon = Running().plus(self.spend).pure_epsilon
        return f"epsilon {decimal(epsilon)}" if epsilon is not None else json.dumps(spend_to_json(self.spend))

    def covers(self, other: ApprovalRequest) -> bool:
        """Whether who approved this one has approved the other: the same job, which costs no more."""
        mine = (self.run, self.method, self.mechanism, self.purpose)
        if mine != (other.run, other.method, other.mechanism, other.purpose):
            return False
        most, asked = (Running().plus(each.spend).pure_epsilon for each in (self, other))
        return self.spend == other.spend or (most is not None and asked is not None and asked <= most)

    def to_json(self) -> dict[str, Any]:
        """The job as JSON values."""
        return {
            "run": self.run,
            "method": self.method,
            "mechanism": self.mechanism,
            "purpose": self.purpose,
            "spend": spend_to_json(self.spend),
            "state": self.state,
            "at": self.at,
        }


@dataclass(frozen=True)
class Approvals:
    """The jobs in a node's folder, which only its owner may look into."""

    folder: Path

    def allows(self, job: ApprovalRequest) -> bool:
        """Whether a person has approved this job; if none has been asked yet, it is noted down for one to decide."""
        known = self.jobs()
        if any(each.state == APPROVED and each.covers(job) for each in known):
            return True
        if all(each.id != job.id for each in known):
            if sum(each.state == PENDING for each in known) >= MOST_PENDING:
                log.warning("%d jobs wait for approval; one more is refused and not noted down", MOST_PENDING)
                return False
            self._write(replace(job, state=PENDING, at=datetime.now(UTC).isoformat(timespec="seconds")))
            log.warning(
                "job %s waits for approval: %s for %r through %s, %s for one answer. "
                "Decide with `tacit federation approve`", job.id, job.method, job.purpose, job.mechanism, job.price,
            )  # fmt: skip
        return False

    def jobs(self) -> list[ApprovalRequest]:
        """All jobs that were asked for, the oldest first."""
        if not self.folder.is_dir():
            return []
        found = [_read(each) for each in sorted(self.folder.glob("*.json"))]
        return sorted(found, key=lambda each: (each.at, each.id))

    def decide(self, name: str, state: str) -> ApprovalRequest:
        """Approve or decline a job by its id, or by the beginning of it where only one begins so."""
        jobs = self.jobs()
        found = [each for each in jobs if each.id.startswith(name)] if name else []
        if len(found) != 1:
            known = ", ".join(each.id for each in jobs[:10]) or "none"
            what = "several jobs begin with" if found else "there is no job"
            raise InvalidInput(f"{what} {name!r}; those that were asked for are {known}")
        decided = replace(found[0], state=state)
        self._write(decided)
        return decided

    def _write(self, job: ApprovalRequest) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = json.dumps(job.to_json()).encode()
        # What waits is never written over a decision that was made meanwhile.
        with suppress(FileExistsError):
            write_file(self.folder / f"{job.id}.json", content, private=True, replace=job.state != PENDING)


def _read(file: Path) -> ApprovalRequest:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        job = ApprovalRequest(**{**content, "spend": spend_from_json(content["spend"])})
        if job.state not in (PENDING, APPROVED, DECLINED) or job.id != file.stem:
            raise ValueError("it was changed")
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"{file}: cannot be read as a job that was asked for ({error}); remove it") from None
    return job
