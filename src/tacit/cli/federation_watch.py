"""A job from outside: start its SuperLink, let nodes in, submit it, and watch it to its end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.core.errors import TacitError
from tacit.exchange.processes import Processes, exists, last_lines

if TYPE_CHECKING:
    from tacit.exchange.flower_control import Control
    from tacit.experiment.federated_job import Job

__all__ = ["linked", "progress_of", "submitted", "watched"]

APP = Path(__file__).parent / "flower_app"
START = 300.0
PAUSE = 0.3


@contextmanager
def linked(processes: Processes, keys: Path, state: Path, host: str, port: int) -> Iterator[Control]:
    """A SuperLink that answers, with every node in the folder ``nodes`` registered under its file's name."""
    from tacit.exchange.flower_control import Control
    from tacit.exchange.flower_processes import link_command

    processes.start("link", *link_command(keys, state, host, port))
    control = Control(f"127.0.0.1:{port}" if host in ("0.0.0.0", "::") else f"{host}:{port}", keys / "authority.pem")  # noqa: S104
    try:
        _wait(control, processes)
        for key in sorted((keys / "nodes").glob("*.pub")):
            control.register(key, key.stem)
        yield control
    finally:
        control.close()


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


def progress_of(job: Job) -> dict[str, Any] | None:
    """How far a job is, as it says itself; nothing before it began."""
    out = Path(job.out)
    file = out.with_name(f"{out.name}.journal") / "progress.json"
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def watched(
    job: Job, processes: Processes, show: Callable[[dict[str, Any]], None], since: float, patience: float = START
) -> str:
    """Show a job's progress until it is done; its last words. A job that failed or died is an error in words."""
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
                raise TacitError(_died(processes, "the coordinator's process died"))
        elif time.monotonic() - began > patience:
            raise TacitError(_died(processes, "the run did not begin"))
        if not processes.alive("link"):
            raise TacitError(_died(processes, "the SuperLink died"))
        time.sleep(PAUSE)


def _written(job: Job) -> float:
    out = Path(job.out)
    try:
        return (out.with_name(f"{out.name}.journal") / "progress.json").stat().st_mtime
    except OSError:
        return 0.0


def _died(processes: Processes, what: str) -> str:
    log = last_lines(processes.logs / "link.log")
    return f"{what}. Start it again: it goes on where it was, and nobody pays twice. The end of its log:\n{log}"
