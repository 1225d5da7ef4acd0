"""The live view as a read-only web service on loopback, protected by a token.

A request without the token, or with another host name than this machine's own (DNS rebinding), gets the same short
refusal for every path. The content security policy of every page forbids content from other origins. A browser sends a
cookie to every port of a host, where another user of the machine may listen; so the cookie is for a random path, below
which all pages are.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tacit.core import TacitError
from tacit.core.places import LedgerUrl
from tacit.report.budget import ledger_page
from tacit.report.html import POLICY, STYLE
from tacit.report.page import report_page
from tacit.runs.folders import read_record
from tacit.ui.folder import WatchedFolder, look
from tacit.ui.pages import fleet_page, message_page, overview_page, plan_page, state, way_up

__all__ = ["HOST", "listening", "make_app", "serve_view"]

HOST = "127.0.0.1"
_NAMES = (HOST, "localhost")
GUARDED = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_OWN = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_REPORT = f"{POLICY}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_GONE = "This folder does not contain it any more."
Handler = Callable[[Request], Response]


def listening(port: int) -> socket.socket:
    """A socket on loopback; port 0 is any free port.

    >>> with listening(0) as opened:
    ...     opened.getsockname()[0]
    '127.0.0.1'
    """
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((HOST, port))
    except BaseException:
        opened.close()
        raise
    return opened


def serve_view(folder: Path, opened: socket.socket, token: str, ledgers: Sequence[LedgerUrl] = ()) -> None:
    """Serve until the process is stopped."""
    app = make_app(folder, opened.getsockname()[1], token, ledgers)
    config = uvicorn.Config(app, log_level="error", access_log=False, server_header=False, lifespan="off", ws="none")
    uvicorn.Server(config).run(sockets=[opened])


def make_app(folder: Path, port: int, token: str, ledgers: Sequence[LedgerUrl] = ()) -> Any:  # noqa: ANN401
    """The service for one folder; ``token`` logs a browser in, and a cookie keeps it logged in."""
    watched = WatchedFolder(folder, ledgers)
    routes = [
        Route("/", lambda _: _own(overview_page(watched, watched.found()))),
        Route("/plan", lambda request: _own(plan_page(dict(request.query_params), watched.found()))),
        Route("/state.json", lambda _: JSONResponse(state(watched.found()), headers={"Content-Security-Policy": _OWN})),
        Route("/run/{name:path}", lambda request: _run(watched, request.path_params["name"])),
        Route("/fleet/{name:path}", lambda request: _fleet(watched, request.path_params["name"])),
        Route("/ledger/{name:path}", lambda request: _ledger(watched, request.path_params["name"])),
        Route("/ui.css", lambda _: _file(STYLE + _text("ui.css"), "text/css")),
        Route("/ui.js", lambda _: _file(_text("ui.js"), "text/javascript")),
    ]
    return Guard(Starlette(routes=routes), port, token)


class Guard:
    """Admits requests with the token or the cookie and a host name of this machine; all others are refused."""

    def __init__(self, app: Any, port: int, token: str) -> None:  # noqa: ANN401
        self._app, self._token, self._cookie = app, token, f"tacit-ui-{port}"
        self._hosts = {f"{name}:{port}" for name in _NAMES}
        self._root = f"/{secrets.token_urlsafe(16)}"
        # Not the token in the address, which a browser keeps in its history.
        self._session = secrets.token_urlsafe(32)

    async def __call__(
        self, scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        if request.headers.get("host") not in self._hosts or request.method not in ("GET", "HEAD"):
            await _refusal()(scope, receive, send)
        elif _same(request.query_params.get("token", ""), self._token):
            await self._welcome()(scope, receive, send)
        elif _same(request.cookies.get(self._cookie, ""), self._session) and scope["path"].startswith(f"{self._root}/"):
            await self._app({**scope, "root_path": self._root}, receive, _with(send, GUARDED))
        else:
            await _refusal()(scope, receive, send)

    def _welcome(self) -> Response:
        answer = RedirectResponse(f"{self._root}/", status_code=303, headers=GUARDED)
        answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path=f"{self._root}/")
        return answer


def _refusal() -> Response:
    """The same refusal for every request."""
    headers = {**GUARDED, "Content-Security-Policy": "default-src 'none'"}
    return Response("Forbidden\n", status_code=403, media_type="text/plain", headers=headers)


def _same(shown: str, secret: str) -> bool:
    return secrets.compare_digest(shown.encode(), secret.encode())


def _with(send: Callable[[Any], Awaitable[None]], headers: Mapping[str, str]) -> Callable[[Any], Awaitable[None]]:
    added = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def sending(message: Any) -> None:  # noqa: ANN401
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *added]}
        await send(message)

    return sending


def _own(page: str, status: int = 200) -> Response:
    return HTMLResponse(page, status_code=status, headers={"Content-Security-Policy": _OWN})


def _file(content: str, kind: str) -> Response:
    return Response(content, media_type=kind, headers={"Content-Security-Policy": _OWN})


def _text(name: str) -> str:
    return files("tacit.ui").joinpath(name).read_text(encoding="utf-8")


def _run(watched: WatchedFolder, name: str) -> Response:
    """The report of a run, computed again; only runs found in the folder can be requested."""
    place = look(watched.folder).runs.get(name)
    if place is None:
        return _own(message_page("Run", _GONE, way_up(name)), 404)
    try:
        page = report_page(read_record(place))
    except (TacitError, OSError):
        return _own(message_page("Run", "This run cannot be read: see tacit show.", way_up(name)), 500)
    return _report(page, name)


def _report(page: str, name: str) -> Response:
    """A report, with the way back that a file of its own does not need."""
    back = f"<p class='kind'><a href='{way_up(name)}'>Overview</a> · "
    return HTMLResponse(page.replace("<p class='kind'>", back, 1), headers={"Content-Security-Policy": _REPORT})


def _fleet(watched: WatchedFolder, name: str) -> Response:
    place = look(watched.folder).coordinators.get(name)
    if place is None:
        return _own(message_page("Fleet", _GONE, way_up(name)), 404)
    try:
        # Imported here: it needs a library that is not part of the extra ``ui``.
        from tacit.runs.fleet import read_fleet

        return _own(fleet_page(name, read_fleet(place)))
    except ModuleNotFoundError:
        return _own(
            message_page("Fleet", "Federations need an extra: pip install 'tacit[federated]'.", way_up(name)), 500
        )
    except (TacitError, OSError):
        return _own(
            message_page("Fleet", "This folder cannot be read: see tacit federation nodes list.", way_up(name)), 500
        )


def _ledger(watched: WatchedFolder, name: str) -> Response:
    place = watched.found().ledgers.get(name)
    book = None if place is None else watched.book(place)
    if book is None:
        return _own(message_page("Ledger", _GONE, way_up(name)), 404)
    return _report(ledger_page(book), name)
