"""Run a job: start its SuperLink, admit nodes, submit it, and watch it to its end."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tacit.cli.screen import console
from tacit.core import InvalidInput, TacitError
from tacit.federation.processes import Processes, Reminder, exists, last_lines, log_to, only_process

if TYPE_CHECKING:
    from tacit.federation.flower.link import Control
    from tacit.federation.settings import Link
    from tacit.runs.federation import FederationJob

__all__ = [
    "linked", "progress_of", "reminded_coordinator", "reminded_node", "require_valid", "running", "submitted",
    "watched",
]  # fmt: skip

_log = logging.getLogger("tacit.federation")

APP = Path(__file__).parent / "flower_app"
LOCK = "coordinator.lock"
START = 300.0
_PAUSE = 0.3
# Seconds between two checks of a node on its coordinator.
_LOOK = 600.0


@contextmanager
def linked(processes: Processes, keys: Path, state: Path, host: str, port: int) -> Iterator[Control]:
    """A running SuperLink that admits the nodes that the folder lists, under their files' names, and no others.

    A folder has one: a second one is refused before it changes anything.
    """
    from tacit.federation.flower.link import Control
    from tacit.federation.flower.processes import link_command
    from tacit.federation.members import members

    with only_process(keys / LOCK, f"a coordinator is running in {keys} already; only one can"):
        # Contains the nodes' responses for as long as Flower keeps them.
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        log_to(state / "coordinator.log")
        listed = members(keys)
        processes.start("link", *link_command(keys, state, host, port))
        control = Control(
            f"127.0.0.1:{port}" if host in ("0.0.0.0", "::") else f"{host}:{port}",  # noqa: S104
            keys / "authority.pem",
        )
        try:
            _wait(control, processes)
            new, gone = control.admit_only(listed)
            _log.info("admitted: %s; new: %s", ", ".join(each.name for each in listed), ", ".join(new) or "none")
            for name in gone:
                renewed = any(each.name == name for each in listed)
                _say(f"{f'an old key of {name}' if renewed else name} is no longer listed, and is not admitted")
            yield control
        finally:
            control.close()


def running(folder: Path) -> bool:
    """Whether a coordinator runs in a folder now."""
    with suppress(InvalidInput), only_process(folder / LOCK, ""):
        return False
    return True


def require_valid(files: Iterable[Path], then: str) -> None:
    """Refuse to start with an invalid certificate: connections would fail without a reason."""
    from tacit.federation.certificates import read_validity

    for found in map(read_validity, files):
        if found.expired() or found.early():
            raise InvalidInput(f"{found.problem()}. Look at the clock, or {then}")


def reminded_coordinator(files: Sequence[Path]) -> Reminder:
    """Remind a coordinator's operator once per day of certificates that expire, or have expired."""
    from tacit.federation.certificates import expiry_warnings

    return Reminder(lambda: expiry_warnings(files), _say)


def reminded_node(link: Link) -> Reminder:
    """Remind a node's operator once per day, on screen and in its log: expiry, trust, reachability, clock."""
    from tacit.federation.certificates import expiry_warnings
    from tacit.federation.collector.client import clock_problem, reach

    def find() -> list[str]:
        found = reach(link.address, link.authority)
        shown = None if found.validity is None else found.validity.problem()
        clock = clock_problem(found.ahead)
        said = [found.problem, shown, clock and f"{link.address}: {clock}"]
        return [*expiry_warnings([link.authority]), *(each for each in said if each)]

    return Reminder(find, _say, every=_LOOK)


def _say(words: str) -> None:
    """Print and log a warning."""
    _log.warning("%s", words)
    console.print(Text.assemble(("warning", "bold yellow"), f"  {words}"), soft_wrap=True)


def _wait(control: Control, processes: Processes) -> None:
    end = time.monotonic() + START
    while True:
        try:
            control.wait(2.0)
            return
        except TacitError:
            if not processes.alive("link") or time.monotonic() >= end:
                log = last_lines(processes.logs / "link.log")
                raise TacitError(f"the SuperLink did not start. The end of its log:\n{log}") from None


def submitted(control: Control, job: Path) -> int:
    """Submit the job's run, in place of any that was there before; it runs in a process of the SuperLink's."""
    control.stop_all()
    return control.start(APP, {"job": str(job.absolute())})


def progress_of(job: FederationJob) -> dict[str, Any] | None:
    """The progress that a job reports; None before it began."""
    out = Path(job.out)
    file = out.with_name(f"{out.name}.journal") / "progress.json"
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def watched(
    job: FederationJob,
    processes: Processes,
    show: Callable[[dict[str, Any]], None],
    since: float,
    patience: float = START,
) -> str:
    """Show a job's progress until it is done, and return its last status. A job that failed or died raises an error."""
    began = time.monotonic()
    while True:
        found = progress_of(job)
        if found is not None and _written(job) >= since:
            show(found)
            if found["state"] == "done":
                return str(found["message"])
            if found["state"] == "failed":
                raise TacitError(str(found["message"]))
            if not exists(int(found["process"])):
                raise TacitError(_died(processes, "the coordinator's process ended unexpectedly"))
        elif time.monotonic() - began > patience:
            raise TacitError(_died(processes, "the run did not begin"))
        if not processes.alive("link"):
            raise TacitError(_died(processes, "the SuperLink ended unexpectedly"))
        time.sleep(_PAUSE)


def _written(job: FederationJob) -> float:
    out = Path(job.out)
    try:
        return (out.with_name(f"{out.name}.journal") / "progress.json").stat().st_mtime
    except OSError:
        return 0.0


def _died(processes: Processes, what: str) -> str:
    log = last_lines(processes.logs / "link.log")
    return f"{what}. Start it again to resume, and nobody pays twice. The end of its log:\n{log}"
