"""The federation's commands: files that are made, mistakes in words, and what a job file may say."""

import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tacit.cli import main
from tacit.core.errors import InvalidInput
from tacit.federation.settings import read_node_file, read_peers, read_service_config
from tacit.ledger.policy import read_policy, read_rules
from tacit.runs.federation import JOB_EXAMPLE, read_job


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["federation", *map(str, arguments)])
    said = capsys.readouterr()
    return ended.value.code, said.out + said.err


@pytest.fixture
def study(tmp_path, capsys):
    assert run(capsys, "init", tmp_path / "study", "--host", "study.example.org")[0] == 0
    return tmp_path / "study"


def test_what_init_makes_can_be_read_as_it_is(study, tmp_path, capsys):
    authority = study / "authority.pem"
    for name in ("north", "south"):
        code, _ = run(
            capsys, "init", tmp_path / name, "--node", name, "--address", "study.example.org:9092",
            "--authority", authority,
        )  # fmt: skip
        assert code == 0
    node = read_node_file(tmp_path / "north" / "node.toml")
    assert (node.name, node.link.address) == ("north", "study.example.org:9092")
    assert read_policy(node.policy)[node.account].epsilon == 1
    assert read_rules(node.policy).participants == 3
    assert read_job(study / "job.toml").at_least == 3
    peers = tmp_path / "peers.toml"
    peers.write_text("".join((tmp_path / name / f"{name}.id").read_text() for name in ("north", "south")))
    assert sorted(read_peers(peers)) == ["north", "south"]
    for kind in ("shuffler", "curator"):
        code, _ = run(
            capsys, "init", tmp_path / kind, "--service", kind, "--coordinator", study / "coordinator.id",
            "--peers", peers,
        )  # fmt: skip
        assert code == 0
        site = read_service_config(tmp_path / kind / f"{kind}.toml")
        assert sorted(site.nodes) == ["north", "south"]
        assert (site.ledger is not None) == (kind == "curator")
    secrets = [*tmp_path.rglob("*.key"), *tmp_path.rglob("*.identity")]
    assert len(secrets) >= 8
    assert all(file.stat().st_mode & 0o077 == 0 for file in secrets)


def test_a_key_is_never_replaced(study, capsys):
    before = (study / "authority.key").read_bytes()
    code, said = run(capsys, "init", study)
    assert code == 2
    assert "never replaced" in said
    assert (study / "authority.key").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("init", "x", "--node", "north"), "--node needs --address and --authority"),
        (("init", "x", "--node", "north", "--address", "h:1", "--authority", "nowhere.pem"), "no such file"),
        (("init", "x", "--service", "shuffler"), "--service needs --coordinator and --peers"),
        (("node", "nowhere.toml"), "cannot read nowhere.toml"),
        (("coordinator", "nowhere"), "not a coordinator's folder"),
        (("status", "nowhere.toml"), "cannot read nowhere.toml"),
        (("shuffler", "nowhere.toml"), "cannot read nowhere.toml"),
        (("curator", "nowhere.toml"), "cannot read nowhere.toml"),
        (("demo", "--trust", "blind"), "trust must be one of local, masked, shuffle"),
    ],
)
def test_a_mistake_is_said_in_words(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, words = run(capsys, *arguments)
    assert code == 2
    assert said in words.replace("\n", " ")


def test_a_coordinator_without_nodes_says_so(study, capsys):
    code, said = run(capsys, "coordinator", study)
    assert code == 2
    assert "no node's public key" in said.replace("\n", " ")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("at_least = 9", "at_least must be at most the 4 nodes"),
        ("epsilon = -1.0", "epsilon"),
        ('trust = "masked"', "masked trust needs peers"),
        ('trust = "central"', "central trust needs service, identity, curator_key"),
        ('method = "privatekt"\ntrust = "masked"\npeers = "p.toml"', "privatekt does not work with masked trust"),
        ("surprise = 1", "unknown option 'surprise' of ReverseKNN: it has labels, mechanism"),
        ('spread = "graph"', "spread is called propagation now"),
        ('method = "privatekt"\nanswers = 2', "answers is called queries_per_round now"),
        ("iteration = 2", "did you mean 'iterations'"),
        ("epsilon = 0", "epsilon"),
    ],
)
def test_a_job_file_is_read_strictly(line, said, tmp_path):
    names = {each.split(" = ")[0] for each in line.splitlines()}
    kept = [each for each in JOB_EXAMPLE.splitlines() if each.split(" = ")[0] not in names]
    (tmp_path / "job.toml").write_text("\n".join([*kept, line]))
    with pytest.raises(InvalidInput, match=said):
        read_job(tmp_path / "job.toml")


def test_the_status_of_a_node_and_of_a_job(study, tmp_path, capsys):
    run(capsys, "init", tmp_path / "n", "--node", "n", "--address", "h:1", "--authority", study / "authority.pem")
    code, said = run(capsys, "status", tmp_path / "n" / "node.toml")
    assert code == 2
    assert "there is no ledger" in said.replace("\n", " ")
    code, said = run(capsys, "status", study / "job.toml")
    assert (code, said.splitlines()[1:]) == (0, ["the job has not begun"])


def test_a_person_lists_approves_and_declines_jobs(tmp_path, capsys):
    from tacit.core.spend import Pure
    from tacit.federation.node.refusals import ApprovalRequest, Approvals
    from tacit.federation.settings import NODE_EXAMPLE

    file = tmp_path / "node.toml"
    file.write_text(NODE_EXAMPLE)
    code, said = run(capsys, "approve", file)
    assert (code, said.splitlines()[1:]) == (0, ["no job has asked for approval"])
    approvals = Approvals(read_node_file(file).state / "approvals")
    first, second = (
        ApprovalRequest(name, "rknn", "DiscreteLaplaceNoise", "labels", Pure("0.5")) for name in ("one", "two")
    )
    for job in (first, second):
        assert not approvals.allows(job)
    code, said = run(capsys, "approve", file)
    assert code == 0
    assert all(word in said for word in (first.id, second.id, "pending", "epsilon 0.5", "labels"))
    code, said = run(capsys, "approve", file, first.id[:8])
    assert (code, "approved" in said, first.id in said) == (0, True, True)
    assert (approvals.allows(first), approvals.allows(second)) == (True, False)
    assert run(capsys, "approve", file, first.id, "--decline")[0] == 0
    assert not approvals.allows(first)
    code, said = run(capsys, "approve", file, "nothing")
    assert (code, "there is no job" in said) == (2, True)
