"""The written format: the vectors are what the package makes, and what a client in another language makes."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tacit.federation.intake.messages import open_outer_box, read_device_message
from tacit.federation.intake.question import OpenQuestion
from tacit.federation.keys import public_key, unseal
from tests.federation.intake.questions import (
    COORDINATOR,
    GOLDEN,
    PURPOSE,
    SHUFFLER,
    golden,
    local_question,
    sealed_question,
    written_vectors,
)
from tests.federation.intake.test_worker import counted, serving

CLIENT = Path(__file__).parents[3] / "clients" / "javascript" / "tacit-device.mjs"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="needs Node.js 20 or later")


def test_the_vectors_are_what_the_package_makes_of_their_words_and_keys(monkeypatch):
    assert written_vectors(monkeypatch, golden()["messages"]) == golden()["messages"]


def test_every_vector_is_a_message_to_its_question():
    for each in golden()["messages"]:
        question = OpenQuestion.read(bytes.fromhex(each["question"]))
        assert question.digest == each["digest"]
        body = bytes.fromhex(each["message"])
        start = 9 + (32 if question.admission == "tokens" else 16)
        payload = body[start:]
        if question.admission == "open":
            assert read_device_message(body, question).payload == payload
        if question.sealed:
            payload = unseal(COORDINATOR, open_outer_box(question, SHUFFLER, payload), question.digest)[1:]
        assert payload.hex() == each["packed"]


def node(*arguments):
    done = subprocess.run([NODE, CLIENT, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


@needs_node
def test_the_client_in_javascript_reproduces_every_vector_and_notices_another(tmp_path):
    assert node("vectors", GOLDEN) == (0, f"{len(golden()['messages'])} vectors reproduced")
    changed = golden()
    changed["messages"][0]["features"] = [0, 0, 9]
    (tmp_path / "changed.json").write_text(json.dumps(changed))
    code, said = node("vectors", tmp_path / "changed.json")
    assert code == 1
    assert "response: cells" in said


@needs_node
@pytest.mark.parametrize("question", [local_question(), sealed_question()], ids=["local", "shuffle"])
def test_the_client_in_javascript_answers_a_real_intake_once(question, tmp_path):
    options = {
        "digest": question.digest, "state": tmp_path / "device.json", "features": "0.5,0,0", "label": "a",
        "budget": 3, "largest-epsilon": 2, "purpose": PURPOSE, "shuffler": public_key(SHUFFLER).hex(),
    }  # fmt: skip
    with serving(question, f"sqlite:///{tmp_path}/intake.db") as (address, store):

        def answer(**changes):
            words = [word for name, value in {**options, **changes}.items() for word in (f"--{name}", value)]
            return node("answer", address.url, *words)

        assert answer() == (0, "200 taken")
        assert answer() == (0, "200 taken")
        assert counted(address, "duplicate", 1)
        (payload,) = next(store.pages(question.digest))
        if question.sealed:
            packed = unseal(COORDINATOR, open_outer_box(question, SHUFFLER, payload), question.digest)
            assert packed[:1] == b"\1"
        assert json.loads((tmp_path / "device.json").read_text())["spent"] == 2
        assert answer(digest="00" * 32)[0] == 1
        other = tmp_path / "other.json"
        assert "larger than is allowed" in answer(**{"largest-epsilon": 1, "state": other})[1]
        assert "does not allow another" in answer(budget=1, state=other)[1]
        assert not other.exists()
