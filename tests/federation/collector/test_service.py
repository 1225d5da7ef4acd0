"""Strangers at a collecting service: slow, many, large or hidden, they hold up nobody and fill no memory."""

import contextlib
import os
import socket
import ssl
import stat
import threading
import time

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.cli.federation_setup import listening_address
from tacit.core.errors import InvalidInput
from tacit.federation.certificates import make_authority, make_server_certificate
from tacit.federation.collector.client import Address, Unreachable, open_batch, read_status, submit
from tacit.federation.collector.messages import (
    UNANNOUNCED_BYTES,
    Batch,
    Submission,
    SubmissionRefusal,
    SubmissionRefused,
)
from tacit.federation.collector.server import Connections
from tacit.federation.collector.service import CONNECTIONS, make_service
from tacit.federation.collector.submission_store import SubmissionOutcome, SubmissionStore
from tacit.federation.keys import SigningIdentity

COORDINATOR, ADA, MALLORY = SigningIdentity.new(), SigningIdentity.new(), SigningIdentity.new()
LARGE = Batch("run", 0, "r-1", ("ada",), b"k" * 32, minimum=2, size=4096, most=64, largest=2, each=0)


class Place:
    """A service on loopback with the settings under test."""

    def __init__(self, folder, tls=True, **settings):
        make_authority(folder)
        make_server_certificate(folder, "shuffler", ["localhost", "127.0.0.1"])
        self.office = SubmissionStore(
            folder / "o.db", COORDINATOR.public, {"ada": ADA.public}, lambda batch, sent: SubmissionOutcome(b"out", 1)
        )
        files = {"certificate": folder / "shuffler.pem", "key": folder / "shuffler.key"} if tls else {}
        self.service = make_service("127.0.0.1", 0, self.office, **files, **settings)
        self.port = self.service.address[1]
        url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self.address = Address(url, folder / "authority.pem", timeout=10)
        self.service.start()

    def connected(self, source="127.0.0.1"):
        return socket.create_connection(("127.0.0.1", self.port), timeout=10, source_address=(source, 0))

    def close(self):
        self.service.stop()
        self.office.close()


@pytest.fixture
def serving(tmp_path):
    made = []

    def start(**settings):
        made.append(Place(tmp_path, **settings))
        return made[-1]

    yield start
    for place in made:
        place.close()


def ended(connection, seconds=10.0):
    """Whether the other side ends a connection soon."""
    connection.settimeout(seconds)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def until_the_end(connection):
    """All that the other side says before it ends the connection."""
    said = []
    while piece := connection.recv(1000):
        said.append(piece)
    return b"".join(said)


def test_slow_handshakes_without_credentials_keep_nobody_out(serving):
    place = serving()
    with contextlib.ExitStack() as stack:
        # More than the service serves at a time, from one address and from several, each with half a handshake.
        for number in range(CONNECTIONS + 40):
            source = f"127.0.0.{1 + number % 8}" if number % 2 else "127.0.0.1"
            stack.enter_context(place.connected(source)).sendall(b"\x16\x03\x01")
        began = time.monotonic()
        for _ in range(5):
            assert read_status(place.address)["batches"] == []
        open_batch(place.address, COORDINATOR, LARGE)
        submit(place.address, ADA, "ada", LARGE, Submission(2, np.zeros((64, 4096), dtype=np.uint8)))
        assert time.monotonic() - began < place.address.timeout
        assert read_status(place.address)["batches"][0]["nodes"] == 1


def test_a_request_that_drips_is_cut_at_its_deadline_as_a_whole(serving):
    place = serving(tls=False, seconds=1.0)
    with place.connected() as slow:
        slow.sendall(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 60000\r\n\r\n")
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began < 10:
                # Each byte comes long before any timeout of its own.
                slow.sendall(b"x")
                time.sleep(0.1)
        assert time.monotonic() - began < 8
        assert ended(slow)


def test_a_slow_handshake_ends_too(serving):
    place = serving(seconds=1.0)
    with place.connected() as slow:
        slow.sendall(b"\x16")
        assert ended(slow)


def test_strangers_who_ask_and_do_not_listen_keep_nobody_out(serving, monkeypatch):
    place = serving(tls=False)
    with contextlib.ExitStack() as stack:
        with monkeypatch.context() as patch:
            # More than a connection holds by itself.
            patch.setattr(place.office, "status", lambda: {"batches": ["x" * 2**24]})
            for number in range(CONNECTIONS + 8):
                silent = stack.enter_context(place.connected(f"127.0.0.{1 + number % 8}"))
                silent.sendall(b"GET /status HTTP/1.1\r\nHost: here\r\n\r\n")
                with contextlib.suppress(OSError):
                    silent.recv(1, socket.MSG_PEEK)
        assert read_status(place.address)["batches"] == []


def test_strangers_who_are_refused_and_keep_the_connection_open_keep_nobody_out(serving):
    place = serving()
    context = ssl.create_default_context(cafile=place.address.authority)
    with contextlib.ExitStack() as stack:
        for number in range(CONNECTIONS):
            silent = stack.enter_context(place.connected(f"127.0.0.{1 + number % 8}"))
            silent = stack.enter_context(context.wrap_socket(silent, server_hostname="localhost"))
            silent.sendall(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\nhello")
            # Answered, and then the end of TLS is never confirmed.
            assert b"200" in silent.recv(12)
        assert read_status(place.address)["dropped"] == {"malformed": CONNECTIONS}


def test_a_refused_message_of_a_stranger_waits_for_nobody_and_writes_nothing(serving):
    store = serving(tls=False).office
    with store._lock:
        # A batch is being collected, which may take long.
        before = store._connection.total_changes
        refused = threading.Thread(target=store.handle, args=(b"hello",))
        refused.start()
        refused.join(10)
        assert not refused.is_alive()
        assert store._connection.total_changes == before
    assert store.status()["dropped"] == {"malformed": 1}


def test_large_bodies_of_strangers_are_not_read(serving):
    place = serving(tls=False)
    with place.connected() as stranger:
        stranger.sendall(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n" % (UNANNOUNCED_BYTES + 1))
        assert b"413" in stranger.recv(100).split(b"\r\n")[0]
    # An endless head is not read either.
    with place.connected() as stranger, contextlib.suppress(OSError):
        stranger.sendall(
            b"POST / HTTP/1.1\r\nHost: here\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 30000) for n in range(50))
        )
        assert b" 400 " in until_the_end(stranger).split(b"\r\n")[0]
    with place.connected() as stranger:
        stranger.sendall(b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
        assert b"411" in stranger.recv(100).split(b"\r\n")[0]


@pytest.mark.parametrize(
    ("identity", "name", "batch", "reason"),
    [
        (MALLORY, "ada", LARGE, SubmissionRefusal.FORGED),
        (MALLORY, "mallory", LARGE, SubmissionRefusal.UNKNOWN),
        (ADA, "ada", Batch("other", 0, "r-1", ("ada",), b"k" * 32, 2, 4096, most=64), SubmissionRefusal.FOREIGN),
    ],
)
def test_a_large_body_is_read_after_its_sender_and_batch_are_known(serving, identity, name, batch, reason):
    place = serving()
    open_batch(place.address, COORDINATOR, LARGE)
    with pytest.raises(SubmissionRefused) as refused:
        submit(place.address, identity, name, batch, Submission(2, np.zeros((64, 4096), dtype=np.uint8)))
    assert refused.value.reason is reason


def test_a_body_above_what_its_batch_allows_is_told_as_that(serving):
    place = serving(most=2**17)
    open_batch(place.address, COORDINATOR, LARGE)
    for rows in (64, 65):
        # More than the operator allows, and more than the batch does.
        with pytest.raises(SubmissionRefused) as refused:
            submit(place.address, ADA, "ada", LARGE, Submission(2, np.zeros((rows, 4096), dtype=np.uint8)))
        assert refused.value.reason is SubmissionRefusal.OVERSIZED


def test_an_announcement_is_not_a_request(serving):
    place = serving(tls=False)
    with place.connected() as stranger:
        stranger.sendall(b"POST /announce HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\nhello")
        assert b"200" in stranger.recv(1000).split(b"\r\n")[0]
        # Nothing was granted, so the connection ends.
        with contextlib.suppress(OSError):
            while stranger.recv(1000):
                pass
    assert read_status(place.address)["dropped"] == {"malformed": 1}


def test_a_header_does_not_say_who_somebody_is(serving):
    place = serving(tls=False)
    with place.connected() as stranger:
        stranger.sendall(
            b"POST / HTTP/1.1\r\nHost: here\r\nX-Forwarded-For: 10.1.2.3\r\nContent-Length: 5\r\n\r\nhello"
        )
        assert b"200" in stranger.recv(1000).split(b"\r\n")[0]
    assert [each.origin for each in place.service._listener.connections.all()] in ([], ["127.0.0.1"])


def test_a_service_that_is_told_to_end_answers_who_is_at_work_and_waits_for_no_stranger(serving, monkeypatch):
    place = serving(tls=False)
    begun, done = threading.Event(), threading.Event()

    def slowly(payload):
        begun.set()
        assert done.wait(10)
        return b"done"

    monkeypatch.setattr(place.office, "handle", slowly)
    with place.connected() as working, place.connected() as idle:
        idle.sendall(b"POST / HTTP/1.1\r\n")
        working.sendall(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\nhello")
        assert begun.wait(10)
        stopping = threading.Thread(target=place.service.stop)
        stopping.start()
        assert ended(idle)
        done.set()
        assert working.recv(1000).startswith(b"HTTP/1.1 200")
        stopping.join(10)
        assert not stopping.is_alive()
        with pytest.raises(ConnectionRefusedError):
            place.connected()


def test_half_a_handshake_does_not_hold_up_the_end(serving):
    place = serving()
    with place.connected() as slow:
        slow.sendall(b"\x16\x03\x01")
        began = time.monotonic()
        place.service.stop()
        assert time.monotonic() - began < 5


def test_what_goes_wrong_is_told_to_the_operator_without_what_it_was_about(serving, monkeypatch, caplog):
    place = serving(tls=False)

    def fails(payload):
        raise ValueError("could not convert 'HIV positive'")

    monkeypatch.setattr(place.office, "handle", fails)
    with pytest.raises(Unreachable, match="status 500"):
        open_batch(place.address, COORDINATOR, LARGE)
    with place.connected() as stranger:
        stranger.sendall(b"nonsense\r\n\r\n")
        stranger.recv(1000)
    (record,) = caplog.records
    assert record.name == "tacit.collector"
    assert "ValueError at" in record.getMessage()
    assert "HIV" not in caplog.text
    assert "127.0.0.1" not in caplog.text


def test_one_address_cannot_have_all_connections():
    connections = Connections(total=4, each=2, seconds=60)
    pairs = [socket.socketpair() for _ in range(6)]
    try:
        held = [connections.admit(ours, ("10.0.0.1", port)) for port, (ours, _) in enumerate(pairs[:2])]
        assert all(held)
        # The oldest stranger of an address makes room for its next one, and of nobody else.
        other = connections.admit(pairs[2][0], ("10.0.0.2", 11))
        assert connections.admit(pairs[3][0], ("10.0.0.1", 12)) is not None
        assert ended(pairs[0][1])
        assert not ended(pairs[2][1], 0.1)
        # One that is at work, or has shown who it is, is not cut; then there is no room.
        other.trust(60.0)
        assert connections.admit(pairs[4][0], ("10.0.0.2", 13)) is not None
        for each in connections.all():
            each.trust(60.0)
        assert connections.admit(pairs[5][0], ("10.0.0.2", 14)) is None
    finally:
        for pair in pairs:
            for each in pair:
                each.close()


def test_a_neighborhood_of_ipv6_counts_as_one_address():
    connections = Connections(total=4, each=1, seconds=60)
    with contextlib.ExitStack() as stack:
        pairs = [tuple(stack.enter_context(each) for each in socket.socketpair()) for _ in range(2)]
        assert connections.admit(pairs[0][0], ("2001:db8::1", 15)) is not None
        assert connections.admit(pairs[1][0], ("2001:db8::2", 16)) is not None
        assert ended(pairs[0][1])


def test_a_store_is_its_owners_alone(tmp_path):
    before = os.umask(0)
    try:
        (tmp_path / "old.db").touch(0o644)
        for name in ("new.db", "old.db"):
            with SubmissionStore(
                tmp_path / name, b"c" * 32, {"ada": b"a" * 32}, lambda batch, sent: SubmissionOutcome(b"", 0)
            ) as office:
                office.handle(b"nonsense")
                files = [file for file in tmp_path.iterdir() if file.name.startswith(name)]
                assert len(files) >= 2
                assert [stat.S_IMODE(file.stat().st_mode) & 0o077 for file in files] == [0] * len(files)
    finally:
        os.umask(before)


@pytest.mark.parametrize(
    ("hosts", "address"),
    [
        ([], "127.0.0.1"),
        (["127.0.0.1"], "127.0.0.1"),
        (["localhost"], "127.0.0.1"),
        (["10.1.2.3"], "10.1.2.3"),
        (["::1"], "::1"),
        (["mix.example.org"], "0.0.0.0"),
        (["mix.example.org", "10.1.2.3"], "0.0.0.0"),
    ],
)
def test_a_service_listens_where_it_was_told(hosts, address):
    assert listening_address(hosts) == address


def test_a_service_told_loopback_is_not_reached_by_another_address(serving):
    place = serving(tls=False)
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.2", place.port), timeout=5):
        pass


def test_an_authority_that_does_not_vouch_is_said_at_once(serving, tmp_path):
    place = serving()
    other = tmp_path / "other"
    other.mkdir()
    make_authority(other)
    with pytest.raises(Unreachable, match="not signed by the authority"):
        read_status(Address(place.address.url, other / "authority.pem", timeout=10))
    plain = ssl.create_default_context()
    plain.check_hostname, plain.verify_mode = False, ssl.CERT_NONE
    with place.connected() as raw, plain.wrap_socket(raw) as wrapped:
        assert wrapped.version() in ("TLSv1.2", "TLSv1.3")


def test_what_is_no_authority_is_a_mistake_of_the_operator(tmp_path):
    (tmp_path / "no.pem").write_text("no")
    with pytest.raises(InvalidInput, match="authority"):
        read_status(Address("https://localhost:1", tmp_path / "no.pem"))
