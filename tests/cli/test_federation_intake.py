"""The intake's commands, from public samples to labels, and mistakes in words."""

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")
pytest.importorskip("starlette", reason="needs tacit[federated]")

from tacit.cli import main
from tacit.federation.intake.messages import DeviceMessage
from tacit.federation.intake.question import OpenQuestion
from tacit.federation.intake.store import open_intake_store
from tests.federation.intake.test_worker import serving


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["federation", *map(str, arguments)])
    said = capsys.readouterr()
    return ended.value.code, " ".join((said.out + said.err).split())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    samples = random.normal(size=(60, 2)) + np.repeat([[0.0, 0.0], [9.0, 9.0]], 30, axis=0)
    np.savetxt(tmp_path / "public.csv", samples, delimiter=",", header="p,q", comments="")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TACIT_STATE", str(tmp_path / "state"))
    return tmp_path


OPEN = ("intake", "open", "public.csv", "question.tacit", "--classes", "no,yes", "--queries", "2")


def test_a_shuffled_question_from_its_keys_to_labels(folder, capsys):
    for name in ("coordinator", "shuffler"):
        assert run(capsys, "intake", "keys", name)[0] == 0
        assert (folder / f"{name}.key").stat().st_mode & 0o077 == 0
    keys = ("--coordinator", "coordinator.key.pub", "--shuffler", "shuffler.key.pub")
    code, said = run(capsys, *OPEN, "--devices", 3, "--epsilon", 20, "--delta", "1e-6", "--trust", "shuffle", *keys)
    assert code == 0
    question = OpenQuestion.read((folder / "question.tacit").read_bytes())
    assert question.digest in said
    assert "3 at least, 6 at most" in said
    device = (
        "--digest", question.digest, "--epsilon", 99, "--question", 50, "--local", 50, "--delta", "1e-5",
        "--shuffler", "shuffler.key.pub",
    )  # fmt: skip
    with serving(question, "sqlite:///intake.db") as (address, _):
        for number in range(3):
            features, label = ("0,0", "no") if number else ("9,9", "yes")
            own = ("device", address.url, "--folder", f"device-{number}", "--features", features, "--label", label)
            code, said = run(capsys, *own, *device)
            assert (code, said) == (0, "the intake has the message of 123 bytes"), said
        early = run(
            capsys, "intake", "decode", "question.tacit", "missing", "--public", "public.csv", "--out", "labels"
        )
        assert early[0] == 2
    code, said = run(capsys, "intake", "status", "--store", "sqlite:///intake.db")
    assert code == 0
    assert f"{question.digest[:16]} 3 6 open" in said
    collect = ("intake", "collect", "question.tacit", "messages", "--store", "sqlite:///intake.db")
    assert run(capsys, *collect)[0] == 2
    assert run(capsys, *collect, "--secret", "coordinator.key")[0] == 2
    code, said = run(capsys, *collect, "--secret", "shuffler.key")
    assert (code, said) == (0, "3 messages in messages, shuffled; 0 could not be decrypted")
    decode = ("intake", "decode", "question.tacit", "messages", "--public", "public.csv", "--out", "labels.csv")
    assert run(capsys, *decode)[0] == 2
    assert run(capsys, *decode, "--secret", "coordinator.key")[0] == 0
    labels = (folder / "labels.csv").read_text().split()
    assert labels == ["label"] + ["no"] * 30 + ["yes"] * 30


def test_tokens_are_made_once_and_known_to_workers(folder, capsys):
    assert run(capsys, *OPEN, "--devices", 10, "--epsilon", 1, "--admission", "tokens")[0] == 0
    question = OpenQuestion.read((folder / "question.tacit").read_bytes())
    made = ("intake", "tokens", "question.tacit", "tokens.key", "--count", 3, "--out", "tokens.txt")
    assert run(capsys, *made)[0] == 0
    tokens = [bytes.fromhex(line) for line in (folder / "tokens.txt").read_text().split()]
    assert len(set(tokens)) == 3
    secret = bytes.fromhex((folder / "tokens.key").read_text().strip())
    with serving(question, "sqlite:///intake.db", tokens=secret) as (address, store):
        options = (
            "--digest", question.digest, "--folder", "device", "--features", "0,0", "--label", "no", "--epsilon", 2,
            "--question", 1, "--local", 1,
        )  # fmt: skip
        code, said = run(capsys, "device", address.url, *options)
        assert code == 2
        assert "token" in said
        assert run(capsys, "device", address.url, *options, "--token", tokens[0].hex())[0] == 0
        assert store.status()["questions"][0]["taken"] == 1
    assert run(capsys, *made[:-4], "--count", 0, "--out", "more.txt")[0] == 2
    with open_intake_store("sqlite:///intake.db") as store:
        assert DeviceMessage(tokens[0], b"").token_id not in b"".join(next(store.pages(question.digest)))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*OPEN, "--devices", 10, "--epsilon", 1, "--trust", "central"), "trust must be local or shuffle"),
        ((*OPEN, "--devices", 10, "--epsilon", 1, "--delta", "1e-6", "--trust", "shuffle"), "two different keys"),
        (("intake", "worker", "missing.tacit", "--store", "sqlite:///x.db"), "cannot be read"),
        (("intake", "status", "--store", "elsewhere"), "use sqlite:///file or postgresql"),
        (("device", "http://example.org", "--folder", "x", "--digest", "00", "--features", "a", "--label", "b",
          "--epsilon", 1, "--question", 1, "--local", 1), "--features must be numbers"),
    ],
)  # fmt: skip
def test_wrong_use_is_told_in_words(folder, capsys, arguments, words):
    code, said = run(capsys, *arguments)
    assert code == 2
    assert words in said
