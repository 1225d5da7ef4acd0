"""A real shuffler process over TLS: it is killed at any moment, and neither loses a message nor lets one out twice."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.core.errors import InvalidInput
from tacit.core.randomness import SeededRandomness
from tacit.federation.certificates import make_authority, make_server_certificate
from tacit.federation.collector.batches import plan_batch, read_shuffled, sealed_messages
from tacit.federation.collector.client import Address, Unreachable, collect, open_batch, read_status, submit
from tacit.federation.collector.messages import MOST_BYTES, Submission, SubmissionRefusal, SubmissionRefused
from tacit.federation.collector.service import CONNECTIONS, make_service
from tacit.federation.collector.submission_store import SubmissionOutcome, SubmissionStore
from tacit.federation.keys import SigningIdentity, public_key
from tacit.federation.settings import read_service_config
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
from tacit.mechanisms.shuffle.single_message import SingleMessage

SECRET = b"s" * 32
TACIT = (sys.executable, "-c", "from tacit.cli import main; main()", "federation", "shuffler")
PLAN = SingleMessage(GeneralizedRandomizedResponse(6, 1, 4), 20, 1e-3)
NAMES = ("ada", "bob", "cyd")


class ServiceConfig:
    """A shuffler that can be killed and started again."""

    def __init__(self, folder: Path):
        make_authority(folder)
        make_server_certificate(folder, "shuffler", ["localhost", "127.0.0.1"])
        self.folder, self.coordinator = folder, SigningIdentity.new()
        self.nodes = {name: SigningIdentity.new() for name in NAMES}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        lines = [
            f'port = {port}\ncertificate = "shuffler.pem"\nkey = "shuffler.key"\nstate = "shuffler.db"',
            f'coordinator = "{self.coordinator.public.hex()}"\n[nodes]',
            *(f'{name} = "{each.public.hex()}"' for name, each in self.nodes.items()),
        ]
        (folder / "shuffler.toml").write_text("\n".join(lines))
        self.address = Address(f"https://localhost:{port}", folder / "authority.pem", timeout=20)
        self.process = None
        self.start()

    def start(self):
        command = [*TACIT, str(self.folder / "shuffler.toml")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline().startswith("ready at https://")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def site(tmp_path):
    made = ServiceConfig(tmp_path)
    yield made
    made.kill()


def test_a_killed_shuffler_goes_on(site):
    batch = plan_batch(PLAN, "run", 0, "r-1", NAMES, public_key(SECRET), participants=10, block=4)
    open_batch(site.address, site.coordinator, batch)
    votes = np.arange(10)[:, None] % 6
    sent = {
        name: Submission(10, sealed_messages(PLAN, batch, name, 10).sample(votes, SeededRandomness(seed)))
        for seed, name in enumerate(NAMES)
    }
    submit(site.address, site.nodes["ada"], "ada", batch, sent["ada"])
    site.kill()
    with pytest.raises(Unreachable, match="does not answer"):
        submit(site.address, site.nodes["bob"], "bob", batch, sent["bob"])
    site.start()
    assert collect(site.address, site.coordinator, batch) is None
    submit(site.address, site.nodes["ada"], "ada", batch, sent["ada"])
    submit(site.address, site.nodes["bob"], "bob", batch, sent["bob"])
    first = collect(site.address, site.coordinator, batch)
    site.kill()
    site.start()
    assert collect(site.address, site.coordinator, batch) == first
    with pytest.raises(SubmissionRefused, match="closed"):
        submit(site.address, site.nodes["cyd"], "cyd", batch, sent["cyd"])
    found = read_shuffled(first, batch, SECRET, PLAN)
    assert len(found.messages) == found.participants == 20
    counts = read_status(site.address)
    assert counts["batches"][0]["nodes"] == 2
    assert counts["batches"][0]["collected"]
    assert counts["dropped"] == {str(SubmissionRefusal.CLOSED): 1}
    with pytest.raises(SubmissionRefused, match="forged"):
        submit(site.address, SigningIdentity.new(), "ada", batch, sent["ada"])
    # A stranger's authority vouches for nothing here, and without TLS nobody answers.
    with pytest.raises(Unreachable):
        read_status(Address(site.address.url))
    plain = Address(site.address.url.replace("https", "http"), timeout=5)
    with pytest.raises(Unreachable):
        read_status(plain)
    site.process.send_signal(signal.SIGTERM)
    assert site.process.wait(timeout=20) == 0


def test_wrong_descriptions_end_with_words(tmp_path):
    (tmp_path / "wrong.toml").write_text("port = 1")
    for arguments in ([], [str(tmp_path / "wrong.toml")]):
        command = [*TACIT, *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 2
        assert "Traceback" not in ended.stderr
    with pytest.raises(InvalidInput, match="cannot read"):
        read_service_config(tmp_path / "missing.toml")
    written = 'port = 9300\nstate = "shuffler.db"\ncoordinator = "<64 hexadecimal digits>"\n[nodes]\nnorth = "<64>"\n'
    (tmp_path / "example.toml").write_text(written)
    with pytest.raises(InvalidInput, match="coordinator"):
        read_service_config(tmp_path / "example.toml")


def test_a_service_outside_loopback_needs_a_certificate(tmp_path):
    with pytest.raises(InvalidInput, match="needs a certificate"):
        make_service("0.0.0.0", 0, None)
    with pytest.raises(InvalidInput, match="cannot be used as a certificate"):
        make_service("127.0.0.1", 0, None, tmp_path / "none.pem", tmp_path / "none.key")
    for wrong in ("http://shuffler.example:9300", "shuffler.example", "ftp://localhost:3"):
        with pytest.raises(InvalidInput):
            Address(wrong)
    with pytest.raises(InvalidInput, match="authority"):
        read_status(Address("https://localhost:1", tmp_path / "none.pem"))


@pytest.fixture
def open_service(tmp_path):
    made = []

    def opened():
        office = SubmissionStore(
            tmp_path / "o.db", b"c" * 32, {"ada": b"a" * 32}, lambda batch, sent: SubmissionOutcome(b"", 0)
        )
        service = make_service("127.0.0.1", 0, office)
        service.start()
        made.append((service, office))
        return service.address[1]

    yield opened
    for service, office in made:
        service.stop()
        office.close()


def test_hostile_connections_hold_up_nobody(open_service):
    port = open_service()
    address = Address(f"http://127.0.0.1:{port}", timeout=10)
    for request in (
        b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n" % (MOST_BYTES + 1),
        b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: many\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: here\r\n\r\n",
        b"GET /etc/passwd HTTP/1.1\r\nHost: here\r\n\r\n",
        b"nonsense\r\n\r\n",
        os.urandom(100) + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 10\r\n\r\nhello",
    ):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(request)
            if not request.endswith(b"hello"):
                assert b"200" not in connection.recv(100).split(b"\r\n")[0]
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\nhello")
        assert b"200 OK" in connection.recv(100)
    assert read_status(address)["dropped"] == {"malformed": 1}


def test_idle_connections_make_room_for_the_next_one(open_service):
    port = open_service()
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS):
            idle = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            idle.sendall(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 10\r\n\r\nhal")
        assert read_status(Address(f"http://127.0.0.1:{port}", timeout=10))["batches"] == []
