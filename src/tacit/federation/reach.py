"""Whether the other end is there, can be trusted and agrees on the time: one connection over TLS, in words."""

from __future__ import annotations

import datetime
import http.client
import ssl
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

from tacit.federation.certificates import Validity, client_context, why_untrusted

__all__ = ["Reached", "clock_trouble", "reach", "seconds_ahead"]

# Seconds by which a clock may be ahead or behind: a SuperLink takes no signature from the future, nor an old one.
AHEAD, BEHIND = 5.0, 300.0
# No service has anything here, and each says when it was asked.
PATH = "/health"


@dataclass(frozen=True)
class Reached:
    """What came of a connection: what is wrong, if anything, and what is known of certificate and clock.

    ``trusted`` is whether who answered could show a certificate by the authority. ``ahead`` is by how many seconds
    the clock of this machine is ahead of the other's.
    """

    trouble: str | None = None
    trusted: bool = False
    validity: Validity | None = None
    ahead: float | None = None


def reach(address: str, authority: Path | None, timeout: float = 10.0) -> Reached:
    """Connect to ``host:port`` or a URL, as one that trusts this authority alone."""
    parts = urlsplit(address if "//" in address else f"https://{address}")
    host, port = parts.hostname or "", parts.port
    if parts.scheme == "http":
        connection = http.client.HTTPConnection(host, port, timeout=timeout)
    else:
        connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=client_context(authority))
    trusted, validity = False, None
    try:
        connection.connect()
        if isinstance(connection.sock, ssl.SSLSocket):
            trusted, validity = True, _validity(connection.sock, address)
        connection.request("GET", PATH)
        response = connection.getresponse()
        response.read(1024)
        return Reached(None, trusted, validity, seconds_ahead(response.headers.get("Date")))
    except ssl.SSLCertVerificationError as error:
        return Reached(f"{address}: {why_untrusted(error)}")
    except ssl.SSLError as error:
        return Reached(f"{address}: does not speak TLS as it should ({error.reason or error})")
    except (OSError, http.client.HTTPException) as error:
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Reached(f"{address}: cannot be reached ({said})", trusted, validity)
    finally:
        connection.close()


def clock_trouble(ahead: float | None) -> str | None:
    """What is wrong with the clock of this machine, by the other's.

    >>> clock_trouble(400)
    'the clock of this machine is 400 seconds ahead of theirs; at most 5 are tolerated'
    >>> clock_trouble(-400)
    'the clock of this machine is 400 seconds behind theirs; at most 300 are tolerated'
    >>> clock_trouble(-0.5) is None
    True
    """
    if ahead is None or -BEHIND <= ahead <= AHEAD:
        return None
    side, most = ("ahead of", AHEAD) if ahead > 0 else ("behind", BEHIND)
    return f"the clock of this machine is {abs(ahead):.0f} seconds {side} theirs; at most {most:.0f} are tolerated"


def seconds_ahead(date: str | None) -> float | None:
    """By how many seconds this machine's clock is ahead of one that says this in the head of its answer."""
    try:
        theirs = parsedate_to_datetime(date or "")
        # They say whole seconds.
        return (datetime.datetime.now(datetime.UTC) - theirs).total_seconds() - 0.5
    except (TypeError, ValueError):
        return None


def _validity(connected: ssl.SSLSocket, address: str) -> Validity | None:
    shown = connected.getpeercert() or {}
    begins, ends = shown.get("notBefore"), shown.get("notAfter")
    if not isinstance(begins, str) or not isinstance(ends, str):
        return None
    times = (datetime.datetime.fromtimestamp(ssl.cert_time_to_seconds(each), datetime.UTC) for each in (begins, ends))
    return Validity(Path(f"the certificate of {address}"), *times)
