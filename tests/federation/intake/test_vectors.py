"""The written format: the vectors are what the package makes, and what a client in another language makes."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tacit.core.codec import bytes_to_array, decode, encode
from tacit.federation.intake.messages import open_outer_box, read_device_message
from tacit.federation.intake.question import OpenQuestion
from tacit.federation.keys import public_key, unseal
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
from tests.federation.intake.questions import (
    CELLS,
    COORDINATOR,
    GOLDEN,
    PURPOSE,
    QUERIES,
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


def hostile(**changes):
    """The bytes of a question that no intake of ours would publish: fields of the question and of its mechanism."""
    file = decode(local_question(GeneralizedRandomizedResponse(CELLS, 1, "1/2")).to_bytes())
    ask = decode(file["ask"].tobytes())
    mechanism = {name: changes.pop(name) for name in ("epsilon", "ones", "size", "kind") if name in changes}
    file["ask"] = bytes_to_array(encode({**ask, **changes, "mechanism": {**ask["mechanism"], **mechanism}}))
    return encode(file)


ANSWER = """
import {{ answer }} from {client};
import fs from "node:fs";
const [question, digest, policy, state] = process.argv.slice(2);
for (const label of ["a", "another class"]) {{
  try {{
    const record = {{ features: [0.5, 0, 0], label }};
    answer(fs.readFileSync(question), digest, record, JSON.parse(policy), `${{state}}-${{label}}`);
    console.log("answered");
  }} catch (error) {{ console.log("refused"); }}
}}
"""  # fmt: skip


def answers(folder, payload, **policy):
    """What a device with a class of the question and a device with another one do."""
    (folder / "ask.mjs").write_text(ANSWER.format(client=json.dumps(CLIENT.as_uri())))
    (folder / "question").write_bytes(payload)
    limits = json.dumps({"budget": 1, "largestEpsilon": 1, "purposes": [PURPOSE], **policy})
    arguments = [folder / "question", hashlib.sha256(payload).hexdigest(), limits, folder / "state"]
    done = subprocess.run(
        [NODE, folder / "ask.mjs", *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.split()


@needs_node
def test_the_client_in_javascript_answers_a_sound_question_whatever_its_class(tmp_path):
    assert answers(tmp_path, hostile()) == ["answered", "answered"]


@needs_node
@pytest.mark.parametrize(
    "changes",
    [
        {"queries": QUERIES[:, :2]},  # failed after payment, for devices of the question's classes only
        {"representation": {"kind": "unheard", "mean": np.zeros(3)}},
        {"representation": {"kind": "standardized", "mean": np.zeros(3)}},
        {"heights": np.zeros(2)},
        {"neighbors": 7, "ones": 7},  # made some cells certain
        {"kind": "subset-selection", "size": 11},
        {"names": ["a", "a"]},
        {"epsilon": f"{4 * 10**400}/{10**400}"},  # both are infinite as floats: no limit held
    ],
    ids=["width", "representation", "fields", "heights", "neighbors", "size", "names", "epsilon"],
)
def test_whether_the_client_in_javascript_answers_does_not_depend_on_its_record(changes, tmp_path):
    assert answers(tmp_path, hostile(**changes)) == ["refused", "refused"]
    assert not list(tmp_path.glob("state*"))


@needs_node
@pytest.mark.parametrize("limit", ["budget", "largestEpsilon"])
def test_the_client_in_javascript_refuses_without_limits(limit, tmp_path):
    assert answers(tmp_path, hostile(), **{limit: "not a number"}) == ["refused", "refused"]


@needs_node
@pytest.mark.parametrize("token", [None, "00" * 31, "00" * 16, "not hexadecimal"])
def test_the_client_in_javascript_pays_for_no_message_with_a_token_of_a_wrong_length(token, tmp_path):
    payload = local_question(admission="tokens").to_bytes()
    assert answers(tmp_path, payload, largestEpsilon=2, budget=2, token=token) == ["refused", "refused"]
    assert not list(tmp_path.glob("state*"))
    assert answers(tmp_path, payload, largestEpsilon=2, budget=2, token="00" * 32) == ["answered", "answered"]
