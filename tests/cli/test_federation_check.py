"""A node's, a job's or a service's file is tested before it is used: one line per check, and nothing is changed."""

import contextlib
import re
import socket

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tacit.cli import main
from tacit.cli.federation_check import check_findings
from tacit.cli.federation_setup import new_coordinator, new_node, new_service
from tacit.federation.certificates import make_authority, make_server_certificate
from tacit.federation.collector.service import make_service
from tacit.federation.collector.submission_store import SubmissionOutcome, SubmissionStore
from tacit.federation.members import add_member

NODE = """\
name = "north"
data = "records.npz"
label = "y"
classes = ["ill", "well"]
policy = "policy.toml"
ledger = "north.ledger"
account = "north"
identity = "north.identity"
peers = "peers.toml"
[shuffler]
address = "https://127.0.0.1:{port}"
authority = "authority.pem"
[link]
address = "127.0.0.1:{port}"
authority = "authority.pem"
key = "north.key"
"""


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["federation", *map(str, arguments)])
    said = capsys.readouterr()
    return ended.value.code, said.out + said.err


@pytest.fixture
def serving(tmp_path):
    """Start something that speaks TLS with a certificate of a coordinator's folder; its port."""
    with contextlib.ExitStack() as stack:

        def start(study):
            office = stack.enter_context(
                SubmissionStore(tmp_path / "o.db", b"c" * 32, {"ada": b"a" * 32}, lambda *_: SubmissionOutcome(b"", 0))
            )
            service = make_service("127.0.0.1", 0, office, study / "coordinator.pem", study / "coordinator.key")
            service.start()
            stack.callback(service.stop)
            return service.address[1]

        yield start


@pytest.fixture
def study(tmp_path):
    new_coordinator(tmp_path / "study", [])
    return tmp_path / "study"


@pytest.fixture
def north(tmp_path, study):
    folder = tmp_path / "north"
    new_node(folder, "north", "127.0.0.1:9", study / "authority.pem")
    np.savez(folder / "records.npz", X=np.zeros((4, 2)), y=np.array(["ill", "well"] * 2))
    (folder / "peers.toml").write_bytes((folder / "north.id").read_bytes())
    return folder


def described(north, port):
    (north / "node.toml").write_text(NODE.format(port=port))
    return north / "node.toml"


def everything(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_node_that_is_ready_passes_every_check_and_is_not_changed(study, north, serving, capsys):
    file = described(north, serving(study))
    before = everything(north)
    code, said = run(capsys, "check", file)
    assert code == 0, said
    reading, *lines = said.strip().splitlines()
    assert reading.startswith("reading ")
    assert all(line.startswith("ok ") for line in lines)
    for what in ("node file", "records", "policy", "ledger", "identity", "peers", "key", "authority", "coordinator"):
        assert any(line.split(None, 1)[1].startswith(f"{what}:") for line in lines), what
    assert sum("clock:" in line for line in lines) == 2
    assert everything(north) == before


def wrong(file):
    return {each.what: each.words for each in check_findings(file) if each.state == "wrong"}


def breaks(what, words):
    def decorated(function):
        return pytest.param(function, what, words, id=function.__name__)

    return decorated


@breaks("records", "No such file")
def no_records(north, study):
    (north / "records.npz").unlink()


@breaks("policy", "methods")
def unknown_method(north, study):
    file = north / "policy.toml"
    file.write_text(re.sub(r"methods = .*", 'method = ["rknn"]', file.read_text()))


@breaks("policy", "has no account 'north'")
def another_account(north, study):
    file = north / "policy.toml"
    file.write_text(file.read_text().replace("accounts.", "accounts.x-").replace('x-"north"', '"south"'))


@breaks("key", "others can read it")
def open_key(north, study):
    (north / "north.key").chmod(0o644)


@breaks("peers", "no identity for north")
def foreign_peers(north, study):
    (north / "peers.toml").write_text(f'north = "{"ab" * 32}"\n')


@breaks("ledger", "ledger")
def damaged_ledger(north, study):
    (north / "north.ledger").write_bytes(b"not a ledger" * 100)


@breaks("authority", "expired on")
def expired_authority(north, study):
    other = north / "other"
    other.mkdir()
    make_authority(other, days=-1)
    (north / "authority.pem").write_bytes((other / "authority.pem").read_bytes())


@breaks("coordinator", "not signed by the authority")
def another_authority(north, study):
    other = north / "other"
    other.mkdir()
    make_authority(other)
    (north / "authority.pem").write_bytes((other / "authority.pem").read_bytes())


@breaks("identity", "No such file")
def no_identity(north, study):
    (north / "north.identity").unlink()


@pytest.mark.parametrize(
    ("change", "what", "words"),
    [no_records, unknown_method, another_account, open_key, foreign_peers, damaged_ledger, expired_authority,
     another_authority, no_identity],
)  # fmt: skip
def test_each_mistake_is_found_and_named(study, north, serving, change, what, words):
    file = described(north, serving(study))
    change(north, study)
    found = wrong(file)
    assert what in found, found
    assert words in found[what]


def test_a_coordinator_that_is_not_there_is_said(study, north, capsys):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        file = described(north, free.getsockname()[1])
        code, said = run(capsys, "check", file)
    assert code == 1
    assert "failed  coordinator:" in said
    assert "cannot be reached" in said.replace("\n", " ")


def test_an_expired_coordinator_and_a_wrong_clock_are_said(tmp_path, study, north, serving, monkeypatch):
    (study / "coordinator.pem").unlink()
    (study / "coordinator.key").unlink()
    make_server_certificate(study, "coordinator", ["127.0.0.1"], days=-1)
    assert "has expired" in wrong(described(north, serving(study)))["coordinator"]
    other = tmp_path / "other"
    other.mkdir()
    make_authority(other)
    make_server_certificate(other, "coordinator", ["127.0.0.1"], days=10)
    (north / "authority.pem").write_bytes((other / "authority.pem").read_bytes())
    file = described(north, serving(other))
    soon = [each.words for each in check_findings(file) if each.state == "soon"]
    assert any("expires in 9 days" in words for words in soon)
    assert wrong(file) == {}
    monkeypatch.setattr("tacit.federation.collector.client.seconds_ahead", lambda date: 400.0)
    assert "400 seconds ahead" in wrong(file)["clock"]


def test_a_job_and_a_service_are_checked(study, north, tmp_path, capsys):
    text = (study / "job.toml").read_text()
    assert "No such file" in wrong(study / "job.toml")["public samples"]
    assert "0 nodes are listed" in wrong(study / "job.toml")["nodes"]
    (study / "samples.csv").write_text("age,dose\n1,2\n")
    (study / "job.toml").write_text(text.replace("nodes = 4", "nodes = 1").replace("at_least = 3", "at_least = 1"))
    add_member(study, north / "north.pub")
    assert run(capsys, "check", study / "job.toml")[0] == 0
    new_service(tmp_path / "mix", "shuffler", [], 9300, study / "coordinator.id", north / "north.id")
    assert run(capsys, "check", tmp_path / "mix" / "shuffler.toml")[0] == 0
    (tmp_path / "mix" / "shuffler.key").chmod(0o640)
    code, said = run(capsys, "check", tmp_path / "mix" / "shuffler.toml")
    assert code == 1
    assert "1 check failed" in said


@pytest.mark.parametrize(("content", "said"), [(None, "cannot read"), ("x = [", "not valid TOML")])
def test_what_is_no_file_of_settings_is_wrong_use(tmp_path, content, said, capsys):
    if content is not None:
        (tmp_path / "x.toml").write_text(content)
    code, words = run(capsys, "check", tmp_path / "x.toml")
    assert code == 2
    assert said in words.replace("\n", " ")
