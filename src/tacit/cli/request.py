"""Before a run is paid for: check that its folder can be written, and store a request by which it can be resumed."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from tacit.cli.screen import console
from tacit.core import InvalidInput, RequestConflict, TacitError, listed, nearest
from tacit.core.files import create_locked, try_lock, write_file
from tacit.core.places import LedgerUrl

__all__ = ["RunRequest", "requested", "require_place", "unfinished"]

_UNKEYED, _FORMAT = 2, 3


def require_place(out: Path) -> None:
    """Refuse an output folder that exists or cannot be created: its parents are created, and removed again.

    Leftovers of killed runs beside it are removed.

    >>> require_place(Path("/dev/null/run"))
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: /dev/null/run: cannot be written there (Not a directory); choose another --out
    """
    from tacit.runs.folders import remove_leftovers

    if os.path.lexists(out):
        raise InvalidInput(f"{out}: exists already; choose another --out")
    # As long as the longest name that will be written beside the folder.
    trial = out.absolute().with_name(f"{out.name}.trial.{uuid.uuid4().hex[:10]}")
    made: list[Path] = []
    try:
        for folder in (*reversed(trial.parents), trial):
            if not os.path.lexists(folder):
                folder.mkdir()
                made.append(folder)
    except OSError as error:
        raise InvalidInput(f"{out}: cannot be written there ({error.strerror}); choose another --out") from None
    finally:
        for folder in reversed(made):
            # Another run may have written into it meanwhile.
            with suppress(OSError):
                folder.rmdir()
    remove_leftovers(out.absolute().parent)


class RunRequest:
    """The name of a request, stored beside the run folder from before it is paid for until the run is written.

    An interrupted run finds it again and resumes the same request, so that nothing is paid twice. The file also holds
    keyed digests of all inputs that determine the labels: an old request is never resumed for other records. The key is
    in the user's state folder: the file alone confirms no guess of a record. It is locked while a run uses it, and it
    stays on this machine. The recipe in it is what 'tacit resume' runs again.
    """

    def __init__(
        self,
        out: Path,
        ledger: Path | LedgerUrl | None,
        account: str | None,
        inputs: Mapping[str, str],
        recipe: Mapping[str, Any] | None = None,
    ) -> None:
        self.file = out.with_name(out.name + ".request")
        self.name = uuid.uuid4().hex
        self._ledger, self._account = ledger, account
        self._inputs, self._recipe = inputs, recipe
        self._lock: int | None = None
        self._before = 0
        self._take_up()

    def begin(self) -> None:
        """Write the name, atomically: from here on the request may be paid for."""
        if self._lock is not None:
            return
        with suppress(TacitError):
            self._before = len(self._requests())
        durable = self._ledger is not None
        try:
            inputs = self._digests(self._new_key()) if durable else {}
            content = {
                "format": _FORMAT, "request": self.name, "durable": durable, "inputs": inputs, "recipe": self._recipe,
            }  # fmt: skip
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self._lock = create_locked(self.file, (json.dumps(content) + "\n").encode())
        except FileExistsError:
            raise self._busy() from None
        except OSError as error:
            raise TacitError(f"{self.file}: cannot be written ({error.strerror}); nothing was charged") from None

    def done(self) -> None:
        """Remove the request: its run is written, or it was never paid for."""
        if self._lock is not None:
            with suppress(FileNotFoundError):
                self.file.unlink()
            if self._ledger is not None:
                _key_file(self.name).unlink(missing_ok=True)

    def close(self) -> None:
        """Release the file."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def paid(self) -> bool | None:
        """Whether the request was paid for; None where the ledger cannot be read.

        A folder has the ledgers of several holders, each with its own accounts; without an account, all are checked.
        """
        try:
            return any(map(self._mine, self._requests()))
        except TacitError:
            return None

    def _requests(self) -> list[str]:
        """The requests that the ledgers have payments for."""
        from tacit.ledger import opened

        place = self._ledger
        if place is None or (isinstance(place, Path) and not place.exists()):
            return []
        places: list[Path | LedgerUrl] = [place]
        if isinstance(place, Path) and place.is_dir():
            places = [*sorted(place.glob("*.ledger"))]
        found = []
        for where in places:
            with opened(where) as book:
                for account in book.accounts() if self._account is None else [self._account]:
                    found += [each.request for each in book.receipts(account)]
        return found

    def _mine(self, request: str) -> bool:
        """Whether a payment is for this request, or for one of its rounds."""
        return request == self.name or request.startswith((f"{self.name}-", f"{self.name} "))

    def abandon(self) -> str:
        """Remove the request if it was not paid for, and return a sentence about its state."""
        match self.paid():
            case False:
                self.done()
                if len(self._requests()) > self._before:
                    # One-time payments, such as for a holder's subset, have their own request id and not the run's.
                    return "Paid answers are stored in the ledger: the same command again does not pay for them twice."
                return "Nothing was paid."
            case True:
                return (
                    f"The request is paid and stored in {self.file}: run the same command again, or 'tacit resume "
                    f"{self.file.with_suffix('')}', and it resumes from there and pays nothing twice."
                )
            case _:
                if self._lock is None:
                    return "Nothing was paid."
                return (
                    f"The ledger cannot be read, so whether the request was paid is not known. It is stored in "
                    f"{self.file}: run the same command again, and it pays nothing twice."
                )

    def _take_up(self) -> None:
        """Resume the request of a run that was interrupted here, if there is one and it is the same run."""
        try:
            descriptor = os.open(self.file, os.O_RDWR)
        except FileNotFoundError:
            return
        except IsADirectoryError:
            raise InvalidInput(f"{self.file}: is a folder, and a run stores its request there; move it away") from None
        except OSError as error:
            raise InvalidInput(f"{self.file}: cannot be opened ({error.strerror})") from None
        try:
            if not try_lock(descriptor):
                raise self._busy()
            content = self._read(descriptor)
            if not content["durable"]:
                # Left by a killed run without a ledger: nothing can be resumed.
                self.file.unlink(missing_ok=True)
                os.close(descriptor)
                return
            kept, given = content["inputs"], self._digests(self._key_of(content))
            if changed := sorted(name for name in {*kept, *given} if kept.get(name) != given.get(name)):
                raise InvalidInput(
                    f"{self.file}: left by an unfinished run that differs in {', '.join(changed)}. Run that command "
                    "again as it was, or choose another --out; removing the file gives up what that run paid for"
                )
        except BaseException:
            with suppress(OSError):
                os.close(descriptor)
            raise
        self.name, self._lock = content["request"], descriptor
        console.print(f"[bold]resuming[/bold]   request {self.name} of an interrupted run")

    def _digests(self, key: bytes | None) -> dict[str, str]:
        """The inputs that determine the labels, as digests under this key; requests of format 2 had no key."""
        made = (
            (name, hashlib.sha256(value.encode()) if key is None else hmac.new(key, value.encode(), hashlib.sha256))
            for name, value in self._inputs.items()
        )
        return {name: digest.hexdigest()[:32] for name, digest in made}

    def _new_key(self) -> bytes:
        """A key for this request, stored where only its user can read it."""
        key, place = secrets.token_bytes(32), _key_file(self.name)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(place, key, private=True)
        return key

    def _key_of(self, content: Mapping[str, Any]) -> bytes | None:
        if content["format"] == _UNKEYED:
            return None
        try:
            return _key_file(content["request"]).read_bytes()
        except OSError:
            raise InvalidInput(
                f"{self.file}: left by an unfinished run of another user or machine, whose key is not here. Run that "
                "command again there, or choose another --out; removing the file gives up what that run paid for"
            ) from None

    def _read(self, descriptor: int) -> dict[str, Any]:
        content = _content(os.read(descriptor, 1 << 20))
        if content is not None:
            return content
        raise InvalidInput(
            f"{self.file}: damaged, so the request of the unfinished run is not known. Choose another --out, or remove "
            "the file; if that run was paid for, its payment is lost"
        )

    def _busy(self) -> InvalidInput:
        return InvalidInput(f"{self.file}: another run with this --out is running; choose another --out")


def _key_file(request: str) -> Path:
    from tacit.ledger.heads import state_folder

    return state_folder() / "requests" / f"{request}.key"


def unfinished(out: Path) -> Mapping[str, Any]:
    """The recipe of the interrupted run: what ``tacit resume`` runs again.

    >>> unfinished(Path("no-such-run"))
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: no-such-run: no unfinished run here, there is no no-such-run.request
    """
    shown = listed([str(out)])
    # Also . and /, beside which no file of that name could be.
    if os.path.lexists(out):
        raise InvalidInput(f"{shown}: exists already: its run is finished, or it is another file; see 'tacit show'")
    file = out.with_name(f"{out.name}.request")
    try:
        content = _content(file.read_bytes())
    except FileNotFoundError:
        beside = [each.name.removesuffix(".request") for each in sorted(out.absolute().parent.glob("*.request"))]
        meant = f"; did you mean {listed([close])}?" if (close := nearest(out.name, beside)) else ""
        raise InvalidInput(f"{shown}: no unfinished run here, there is no {listed([file.name])}{meant}") from None
    except OSError as error:
        raise InvalidInput(f"{listed([str(file)])}: cannot be read ({error.strerror})") from None
    if content is None or not isinstance(content.get("recipe"), dict):
        raise InvalidInput(f"{listed([str(file)])}: contains no recipe; run the original command again")
    if not content["durable"]:
        raise InvalidInput(f"{shown}: the run had no ledger, so nothing was stored to resume from; start a new run")
    return dict(content["recipe"])


def _content(read: bytes) -> dict[str, Any] | None:
    """The content of a request file, or None if it is damaged."""
    try:
        content = json.loads(read)
        whole = content["format"] in (_UNKEYED, _FORMAT) and isinstance(content["durable"], bool)
        return dict(content) if whole and content["request"].isalnum() and isinstance(content["inputs"], dict) else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


@contextmanager
def requested(
    out: Path,
    ledger: Path | LedgerUrl | None,
    account: str | None,
    inputs: Mapping[str, str],
    recipe: Mapping[str, Any],
) -> Iterator[RunRequest]:
    """The request of a run; where the run ends early, the state of the request is reported."""
    request = RunRequest(out, ledger, account, inputs, recipe)
    try:
        yield request
    except RequestConflict as error:
        raise RequestConflict(
            f"{error} The request comes from {request.file}, which an unfinished run left: run that command again "
            "as it was, or remove the file to make and pay a new request."
        ) from None
    except KeyboardInterrupt:
        _say(f"stopped. {request.abandon()}")
        raise typer.Exit(130) from None
    except BaseException:
        said = request.abandon()
        if request.paid() is not False:
            _say(said)
        raise
    finally:
        request.close()


def _say(message: str) -> None:
    # To stderr: stdout has the report of a finished run.
    Console(stderr=True, soft_wrap=True).print(message, markup=False, highlight=False)
