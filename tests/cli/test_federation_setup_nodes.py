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
from tacit.core.errors import InvalidInput, shortened
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
def study(tmp_path):
    new_coordinator(tmp_path / "study", [])
    return tmp_path / "study"


@pytest.fixture
def north(study, tmp_path):
    new_node(tmp_path / "north", "north", "127.0.0.1:9", study / "authority.pem")
    return tmp_path / "north"


def everything(folder):
    return {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in folder.rglob("*") if file.is_file()}


def test_nodes_are_listed_added_and_removed(study, north, capsys):
    assert "no node is listed" in run(capsys, "nodes", "list", study)[1]
    code, said = run(capsys, "nodes", "add", study, north / "north.pub", "--identity", north / "north.id")
    assert (code, "north is admitted" in said) == (0, True)
    assert [each.name for each in members(study)] == ["north"]
    assert read_peers(study / "peers.toml") == read_peers(north / "north.id")
    code, said = run(capsys, "nodes", "list", study)
    assert code == 0
    assert "coordinator.pem is valid until" in said
    # Once more is the same as once.
    assert run(capsys, "nodes", "add", study, north / "north.pub")[0] == 0
    code, said = run(capsys, "nodes", "remove", study, "north")
    assert (code, "no longer admitted" in said) == (0, True)
    assert members(study) == []
    assert read_peers(study / "peers.toml") == {}
    assert [each.name for each in removed_members(study)] == ["north"]
    code, said = run(capsys, "nodes", "add", study, north / "north.pub")
    assert (code, "removed key is not admitted again" in said) == (2, True)
    assert "removed" in run(capsys, "nodes", "list", study)[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("remove", "{study}", "south"), "no node 'south' is listed"),
        (("add", "{study}", "{study}/authority.pem"), "not a node's public key"),
        (("add", "{study}", "nowhere.pub"), "cannot be read"),
        (("add", "{north}", "{north}/north.pub"), "not a coordinator's folder"),
        (("list", "nowhere"), "not a coordinator's folder"),
        (("renew", "nowhere"), "neither a coordinator's"),
        (("renew", "{study}", "--key", "{north}/north.pub"), "north is not listed"),
        (
            ("add", "{study}", "{north}/north.pub", "--identity", "{study}/coordinator.id"),
            "must contain the identity of north",
        ),
    ],
)
def test_mistakes_are_said_and_change_nothing(study, north, arguments, said, capsys):
    before = everything(study)
    code, words = run(capsys, "nodes", *(each.format(study=study, north=north) for each in arguments))
    assert code == 2
    assert said in words
    assert everything(study) == before


def test_one_key_has_one_name(study, north):
    add_member(study, north / "north.pub")
    (north / "west.pub").write_bytes((north / "north.pub").read_bytes())
    with pytest.raises(InvalidInput, match="listed as north already"):
        add_member(study, north / "west.pub")
    (study / "nodes" / "west.pub").write_bytes((north / "north.pub").read_bytes())
    with pytest.raises(InvalidInput, match="the same key as"):
        members(study)


def test_a_node_renews_its_key(study, north, capsys):
    add_member(study, north / "north.pub")
    before = members(study)[0].fingerprint
    key = (north / "north.key").read_bytes()
    code, said = run(capsys, "nodes", "renew", north)
    assert (code, "made a new key" in said) == (0, True)
    assert (north / "north.key.old").read_bytes() == key != (north / "north.key").read_bytes()
    assert all((north / name).stat().st_mode & 0o077 == 0 for name in ("north.key", "north.key.old"))
    code, said = run(capsys, "nodes", "add", study, north / "north.pub")
    assert (code, "listed with another key" in said) == (2, True)
    code, said = run(capsys, "nodes", "renew", study, "--key", north / "north.pub")
    assert (code, "with its new key" in said) == (0, True)
    (now,) = members(study)
    assert now.fingerprint != before
    assert [each.fingerprint for each in removed_members(study)] == [before]


def test_certificates_are_renewed_for_the_same_key_and_names(tmp_path, capsys):
    study = tmp_path / "study"
    study.mkdir()
    make_authority(study, days=20)
    make_server_certificate(study, "coordinator", ["study.example.org", "127.0.0.1"], days=10)
    (study / "nodes").mkdir()
    key, copied = (study / "coordinator.key").read_bytes(), (study / "authority.pem").read_bytes()
    code, said = run(capsys, "nodes", "list", study)
    assert "coordinator.pem: expires in 9 days" in said
    code, said = run(capsys, "nodes", "renew", study)
    # Not for longer than the authority's own, which is said.
    assert code == 0
    assert "as its authority does" in said
    assert read_validity(study / "coordinator.pem").ends == read_validity(study / "authority.pem").ends
    code, said = run(capsys, "nodes", "renew", study, "--authority")
    assert code == 0
    assert read_validity(study / "coordinator.pem").problem() is None
    assert (study / "coordinator.key").read_bytes() == key
    # Who has the old copy of the authority trusts the new certificate, and who has the new one as well.
    (tmp_path / "old.pem").write_bytes(copied)
    for authority in (tmp_path / "old.pem", study / "authority.pem"):
        with served(tmp_path, study / "coordinator.pem", study / "coordinator.key") as port:
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
    study = tmp_path / "old"
    study.mkdir()
    make_authority(study)
    make_server_certificate(study, "coordinator", ["127.0.0.1"], days=-1)
    (study / "nodes").mkdir()
    add_member(study, north / "north.pub")
    (study / "job.toml").write_bytes((tmp_path / "study" / "job.toml").read_bytes())
    code, said = run(capsys, "coordinator", study)
    assert code == 2
    assert "coordinator.pem: expired on" in said
    assert "nodes renew" in said
    assert not (study / "state").exists()
    expired = tmp_path / "expired"
    expired.mkdir()
    make_authority(expired, days=-1)
    (north / "authority.pem").write_bytes((expired / "authority.pem").read_bytes())
    code, said = run(capsys, "node", north / "node.toml")
    assert code == 2
    assert "authority.pem: expired on" in said


def test_a_second_coordinator_is_refused_and_touches_nothing(study, north, capsys):
    add_member(study, north / "north.pub")
    first = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(study / "coordinator.lock")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert first.stdout.readline() == "held\n"
        before = everything(study)
        code, said = run(capsys, "coordinator", study)
        assert code == 2
        assert shortened(f"a coordinator is running in {study} already") in said
        assert f"process {first.pid}" in said
        assert everything(study) == before
        assert first.poll() is None
        assert running(study)
        assert "it runs now" in run(capsys, "nodes", "remove", study, "north")[1]
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
        first.stdout.close()
    # Killed, it holds nothing any more.
    assert not running(study)


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
def test_the_list_is_what_the_link_lets_in_at_every_start(study, tmp_path):
    """A real SuperLink, three times: one is removed, one renewed, and a removed key stays out."""
    for name in ("east", "north", "west"):
        new_node(tmp_path / name, name, "127.0.0.1:9", study / "authority.pem")
        add_member(study, tmp_path / name / f"{name}.pub")

    def admit_only():
        with (
            Processes(tmp_path / "logs") as processes,
            linked(processes, study, study / "state", "127.0.0.1", free_port()) as control,
        ):
            assert running(study)
            return {node.name: bytes(node.public_key) for node in control.nodes()}

    first = admit_only()
    assert sorted(first) == ["east", "north", "west"]
    remove_member(study, "west")
    assert main_code("nodes", "renew", tmp_path / "east") == 0
    assert main_code("nodes", "renew", study, "--key", tmp_path / "east" / "east.pub") == 0
    second = admit_only()
    assert sorted(second) == ["east", "north"]
    assert second["north"] == first["north"]
    assert second["east"] != first["east"]
    log = (study / "state" / "coordinator.log").read_text()
    assert "west is no longer listed" in log
    # Put back by hand, past the command.
    (study / "nodes" / "west.pub").write_bytes((tmp_path / "west" / "west.pub").read_bytes())
    with pytest.raises(InvalidInput, match="removed before"):
        admit_only()


def main_code(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(["federation", *map(str, arguments)])
    return ended.value.code
