"""Who is let in is what the folder lists; a second coordinator is kept out; certificates are renewed in time."""

import os
import re
import signal
import subprocess
import sys

import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tacit.cli import main
from tacit.cli.federation_setup import new_coordinator, new_node
from tacit.cli.federation_watch import linked, reminded_node, running
from tacit.core.errors import InvalidInput
from tacit.federation.certificates import make_authority, make_server_certificate, read_validity
from tacit.federation.collector.client import reach
from tacit.federation.collector.service import make_service
from tacit.federation.collector.submission_store import SubmissionOutcome, SubmissionStore
from tacit.federation.members import add_member, members, remove_member, removed_members
from tacit.federation.processes import Processes, free_port, log_to
from tacit.federation.settings import Link, read_peers

HOLDER = """
import sys, time
from pathlib import Path
from tacit.federation.processes import only_process
with only_process(Path(sys.argv[1]), "taken"):
    print("held", flush=True)
    time.sleep(300)
"""


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["federation", *map(str, arguments)])
    said = capsys.readouterr()
    return ended.value.code, re.sub(r"\s+", " ", said.out + said.err)


@pytest.fixture
def hub(tmp_path):
    new_coordinator(tmp_path / "hub", [])
    return tmp_path / "hub"


@pytest.fixture
def north(hub, tmp_path):
    new_node(tmp_path / "north", "north", "127.0.0.1:9", hub / "authority.pem")
    return tmp_path / "north"


def everything(folder):
    return {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in folder.rglob("*") if file.is_file()}


def test_nodes_are_listed_added_and_removed(hub, north, capsys):
    assert "no node is listed" in run(capsys, "nodes", "list", hub)[1]
    code, said = run(capsys, "nodes", "add", hub, north / "north.pub", "--identity", north / "north.id")
    assert (code, "north is admitted" in said) == (0, True)
    assert [each.name for each in members(hub)] == ["north"]
    assert read_peers(hub / "peers.toml") == read_peers(north / "north.id")
    code, said = run(capsys, "nodes", "list", hub)
    assert code == 0
    assert "coordinator.pem is valid until" in said
    # Once more is the same as once.
    assert run(capsys, "nodes", "add", hub, north / "north.pub")[0] == 0
    code, said = run(capsys, "nodes", "remove", hub, "north")
    assert (code, "no longer admitted" in said) == (0, True)
    assert members(hub) == []
    assert read_peers(hub / "peers.toml") == {}
    assert [each.name for each in removed_members(hub)] == ["north"]
    code, said = run(capsys, "nodes", "add", hub, north / "north.pub")
    assert (code, "removed key is not admitted again" in said) == (2, True)
    assert "removed" in run(capsys, "nodes", "list", hub)[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("remove", "{hub}", "south"), "no node 'south' is listed"),
        (("add", "{hub}", "{hub}/authority.pem"), "not a node's public key"),
        (("add", "{hub}", "nowhere.pub"), "cannot be read"),
        (("add", "{north}", "{north}/north.pub"), "not a coordinator's folder"),
        (("list", "nowhere"), "not a coordinator's folder"),
        (("renew", "nowhere"), "neither a coordinator's"),
        (("renew", "{hub}", "--key", "{north}/north.pub"), "north is not listed"),
        (
            ("add", "{hub}", "{north}/north.pub", "--identity", "{hub}/coordinator.id"),
            "must contain the identity of north",
        ),
    ],
)
def test_mistakes_are_said_and_change_nothing(hub, north, arguments, said, capsys):
    before = everything(hub)
    code, words = run(capsys, "nodes", *(each.format(hub=hub, north=north) for each in arguments))
    assert code == 2
    assert said in words
    assert everything(hub) == before


def test_one_key_has_one_name(hub, north):
    add_member(hub, north / "north.pub")
    (north / "west.pub").write_bytes((north / "north.pub").read_bytes())
    with pytest.raises(InvalidInput, match="listed as north already"):
        add_member(hub, north / "west.pub")
    (hub / "nodes" / "west.pub").write_bytes((north / "north.pub").read_bytes())
    with pytest.raises(InvalidInput, match="the same key as"):
        members(hub)


def test_a_node_renews_its_key(hub, north, capsys):
    add_member(hub, north / "north.pub")
    before = members(hub)[0].fingerprint
    key = (north / "north.key").read_bytes()
    code, said = run(capsys, "nodes", "renew", north)
    assert (code, "made a new key" in said) == (0, True)
    assert (north / "north.key.old").read_bytes() == key != (north / "north.key").read_bytes()
    assert all((north / name).stat().st_mode & 0o077 == 0 for name in ("north.key", "north.key.old"))
    code, said = run(capsys, "nodes", "add", hub, north / "north.pub")
    assert (code, "listed with another key" in said) == (2, True)
    code, said = run(capsys, "nodes", "renew", hub, "--key", north / "north.pub")
    assert (code, "with its new key" in said) == (0, True)
    (now,) = members(hub)
    assert now.fingerprint != before
    assert [each.fingerprint for each in removed_members(hub)] == [before]


def test_certificates_are_renewed_for_the_same_key_and_names(tmp_path, capsys):
    hub = tmp_path / "hub"
    hub.mkdir()
    make_authority(hub, days=20)
    make_server_certificate(hub, "coordinator", ["hub.example.org", "127.0.0.1"], days=10)
    (hub / "nodes").mkdir()
    key, copied = (hub / "coordinator.key").read_bytes(), (hub / "authority.pem").read_bytes()
    code, said = run(capsys, "nodes", "list", hub)
    assert "coordinator.pem: expires in 9 days" in said
    code, said = run(capsys, "nodes", "renew", hub)
    # Not for longer than the authority's own, which is said.
    assert code == 0
    assert "as its authority does" in said
    assert read_validity(hub / "coordinator.pem").ends == read_validity(hub / "authority.pem").ends
    code, said = run(capsys, "nodes", "renew", hub, "--authority")
    assert code == 0
    assert read_validity(hub / "coordinator.pem").problem() is None
    assert (hub / "coordinator.key").read_bytes() == key
    # Who has the old copy of the authority trusts the new certificate, and who has the new one as well.
    (tmp_path / "old.pem").write_bytes(copied)
    for authority in (tmp_path / "old.pem", hub / "authority.pem"):
        with served(tmp_path, hub / "coordinator.pem", hub / "coordinator.key") as port:
            assert reach(f"127.0.0.1:{port}", authority).trusted


class served:
    """Anything over TLS with a certificate."""

    def __init__(self, folder, certificate, key):
        self._office = SubmissionStore(
            folder / "o.db", b"c" * 32, {"ada": b"a" * 32}, lambda *_: SubmissionOutcome(b"", 0)
        )
        self._service = make_service("127.0.0.1", 0, self._office, certificate, key)

    def __enter__(self):
        self._service.start()
        return self._service.address[1]

    def __exit__(self, *_):
        self._service.stop()
        self._office.close()


@pytest.mark.parametrize(("days", "said"), [(20, "expires in 19 days"), (-1, "has expired"), (1000, None)])
def test_a_node_is_told_in_its_log_of_the_coordinators_certificate(tmp_path, days, said, capsys):
    make_authority(tmp_path)
    make_server_certificate(tmp_path, "coordinator", ["127.0.0.1"], days=days)
    log = tmp_path / "state" / "service.log"
    log_to(log)
    with served(tmp_path, tmp_path / "coordinator.pem", tmp_path / "coordinator.key") as port:
        link = Link(address=f"127.0.0.1:{port}", authority=tmp_path / "authority.pem", key=tmp_path / "north.key")
        reminder = reminded_node(link)
        reminder.look()
    text = log.read_text()
    if said is None:
        assert text == ""
        return
    assert re.match(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ WARNING ", text)
    assert said in text
    assert said in re.sub(r"\s+", " ", capsys.readouterr().out)


def test_an_expired_certificate_is_said_at_both_ends(tmp_path, north, capsys):
    hub = tmp_path / "old"
    hub.mkdir()
    make_authority(hub)
    make_server_certificate(hub, "coordinator", ["127.0.0.1"], days=-1)
    (hub / "nodes").mkdir()
    add_member(hub, north / "north.pub")
    (hub / "job.toml").write_bytes((tmp_path / "hub" / "job.toml").read_bytes())
    code, said = run(capsys, "coordinator", hub)
    assert code == 2
    assert "coordinator.pem: expired on" in said
    assert "nodes renew" in said
    assert not (hub / "state").exists()
    expired = tmp_path / "expired"
    expired.mkdir()
    make_authority(expired, days=-1)
    (north / "authority.pem").write_bytes((expired / "authority.pem").read_bytes())
    code, said = run(capsys, "node", north / "node.toml")
    assert code == 2
    assert "authority.pem: expired on" in said


def test_a_second_coordinator_is_refused_and_touches_nothing(hub, north, capsys):
    add_member(hub, north / "north.pub")
    first = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(hub / "coordinator.lock")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert first.stdout.readline() == "held\n"
        before = everything(hub)
        code, said = run(capsys, "coordinator", hub)
        assert code == 2
        assert f"a coordinator is running in {hub} already" in said
        assert f"process {first.pid}" in said
        assert everything(hub) == before
        assert first.poll() is None
        assert running(hub)
        assert "it runs now" in run(capsys, "nodes", "remove", hub, "north")[1]
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
        first.stdout.close()
    # Killed, it holds nothing any more.
    assert not running(hub)


def test_a_second_process_of_a_node_is_refused(north, capsys):
    state = north / "north.state"
    state.mkdir()
    (north / "records.csv").write_text("age,dose,diagnosis\n1,2,ill\n3,4,well\n5,6,ill\n7,8,well\n")
    first = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(state / "node.lock")], stdout=subprocess.PIPE, text=True
    )
    before = os.umask(0o022)
    try:
        assert first.stdout.readline() == "held\n"
        file = north / "node.toml"
        text = file.read_text()
        text = re.sub(r"(?ms)^\[shuffler\].*?(?=^\[link\])", "", text)
        file.write_text(re.sub(r"(?m)^(public|peers|identity) =.*\n", "", text))
        code, said = run(capsys, "node", file)
        assert code == 2
        assert "is already running" in said
    finally:
        os.umask(before)
        first.kill()
        first.wait()
        first.stdout.close()


@pytest.mark.timeout(900)
def test_the_list_is_what_the_link_lets_in_at_every_start(hub, tmp_path):
    """A real SuperLink, three times: one is removed, one renewed, and a removed key stays out."""
    for name in ("east", "north", "west"):
        new_node(tmp_path / name, name, "127.0.0.1:9", hub / "authority.pem")
        add_member(hub, tmp_path / name / f"{name}.pub")

    def admit_only():
        with (
            Processes(tmp_path / "logs") as processes,
            linked(processes, hub, hub / "state", "127.0.0.1", free_port()) as control,
        ):
            assert running(hub)
            return {node.name: bytes(node.public_key) for node in control.nodes()}

    first = admit_only()
    assert sorted(first) == ["east", "north", "west"]
    remove_member(hub, "west")
    assert main_code("nodes", "renew", tmp_path / "east") == 0
    assert main_code("nodes", "renew", hub, "--key", tmp_path / "east" / "east.pub") == 0
    second = admit_only()
    assert sorted(second) == ["east", "north"]
    assert second["north"] == first["north"]
    assert second["east"] != first["east"]
    log = (hub / "state" / "coordinator.log").read_text()
    assert "west is no longer listed" in log
    # Put back by hand, past the command.
    (hub / "nodes" / "west.pub").write_bytes((tmp_path / "west" / "west.pub").read_bytes())
    with pytest.raises(InvalidInput, match="removed before"):
        admit_only()


def main_code(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(["federation", *map(str, arguments)])
    return ended.value.code
