"""A node as its operator sets it up: its own files decide, and its ledger outlives it."""

import csv

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Unit
from tacit.datasets.published import digits
from tacit.federation.messages import RefusalReason, Request, read_response
from tacit.federation.node.node import open_node, prepare_ledger
from tacit.federation.settings import NODE_EXAMPLE, read_node_file
from tacit.ledger.sqlite import SqliteLedger
from tacit.private.records import reveal
from tacit.wire import ask_to_bytes, read_release
from tests.federation.federation import federated, nodes

COLUMNS = [f"pixel {place}" for place in range(64)]
CLASSES = [str(name) for name in range(10)]
POLICY = """
[accounts.clinic]
epsilon = {epsilon}
unit = {{ column = "patient", records = 2 }}
[allow]
methods = ["rknn"]
mechanisms = ["DiscreteLaplaceNoise"]
purposes = ["reverse k-NN labels"]
participants = 2
"""


@pytest.fixture
def folder(tmp_path):
    parts = digits()
    with (tmp_path / "records.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["patient", *reversed(COLUMNS), "digit"])
        for row in range(90):
            pixels = parts.private_samples[row].astype(int).tolist()
            writer.writerow([f"p{row // 3}", *reversed(pixels), parts.private_labels[row]])
    (tmp_path / "policy.toml").write_text(POLICY.format(epsilon=1.0))
    quoted = ", ".join(f'"{name}"' for name in COLUMNS)
    (tmp_path / "node.toml").write_text(
        'name = "clinic"\ndata = "records.csv"\nlabel = "digit"\npolicy = "policy.toml"\nledger = "clinic.ledger"\n'
        f'account = "clinic"\npace = 0.0\nclasses = {CLASSES!r}\nfeatures = [{quoted}]\n'.replace("'", '"')
    )
    return tmp_path


def wire_request(records=2, request="r", **more):
    """A question as a coordinator puts it, for persons of at most this many records."""
    asked = []

    def listen(question):
        asked.append(question)
        raise InterruptedError

    settings = {"classes": CLASSES, "nodes": 2, "records": 100, "queries": 10, "request": request} | more
    with pytest.raises(InterruptedError):
        federated(listen, digits().public_samples, "1", unit=Unit.person("patient", records), **settings)
    return asked[0], Request("run", 0, 2, ask_to_bytes(asked[0])).to_bytes()


def opened(folder):
    file = read_node_file(folder / "node.toml")
    prepare_ledger(file)
    return open_node(file)


def test_a_node_that_is_started_again_has_its_ledger_and_its_answers(folder):
    ask, question = wire_request()
    first = opened(folder).reply(question)
    again = opened(folder).reply(question)
    assert first == again
    value = read_release(read_response(first).answer, ask, "clinic").value
    # At most two records a person, of thirty persons with three: sixty votes and noise.
    assert value.shape == (10, 10)
    with SqliteLedger(folder / "clinic.ledger") as book:
        assert len(book.payments("clinic")) == 1
    # The account is spent, whoever asks and however often it is started.
    assert read_response(opened(folder).reply(wire_request(request="another")[1])).answer is RefusalReason.BUDGET


def test_a_node_tells_no_budget_unless_its_file_says_so(folder):
    (folder / "example.toml").write_text(NODE_EXAMPLE)
    assert not read_node_file(folder / "example.toml").link.tell_budget
    link = '[link]\naddress = "study:9092"\nauthority = "authority.pem"\nkey = "clinic.key"\n'
    text = (folder / "node.toml").read_text()
    told = {}
    for said in ("", "tell_budget = false\n", "tell_budget = true\n"):
        (folder / "node.toml").write_text(text + link + said)
        told[said] = read_response(opened(folder).reply(wire_request()[1])).budget
    assert [each is None for each in told.values()] == [True, True, False]
    assert told["tell_budget = true\n"].in_words == "spent epsilon 1 of 1 at delta 0"


def test_a_question_calibrated_for_less_than_a_person_is_refused(folder):
    assert read_response(opened(folder).reply(wire_request(records=1)[1])).answer is RefusalReason.QUESTION
    with SqliteLedger(folder / "clinic.ledger") as book:
        assert not book.payments("clinic")


def test_the_operator_alone_changes_the_policy(folder):
    opened(folder).reply(wire_request()[1])
    (folder / "policy.toml").write_text(POLICY.format(epsilon=3.0))
    answered = read_response(opened(folder).reply(wire_request(request="another")[1])).answer
    assert isinstance(answered, bytes)
    # What the account protects was fixed by its first payment.
    (folder / "policy.toml").write_text(POLICY.format(epsilon=3.0).replace("records = 2", "records = 1"))
    with pytest.raises(InvalidInput, match="cannot change"):
        opened(folder)


def test_features_are_in_the_coordinators_order(folder):
    ask, _ = wire_request()
    node = opened(folder)
    seen = []
    seen.append(reveal(node.records).samples)
    np.testing.assert_array_equal(seen[0][0], digits().private_samples[0])
    assert node.answer(ask).value.shape == (10, 10)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('label = "digit"', 'label = "nothing"', "nothing"),
        ('account = "clinic"', 'account = "other"', "has no account 'other'"),
        ('"pixel 0", ', "", "unknown pixel 0"),
        ('policy = "policy.toml"', 'policy = "gone.toml"', "cannot read the policy"),
        ("pace = 0.0", "pace = -1.0", "pace"),
        ("pace = 0.0", 'pace = 0.0\ntoken = "x"', "is not a setting"),
        ('name = "clinic"', 'name = "../clinic"', "name"),
    ],
)
def test_a_mistake_in_a_nodes_file_is_said_to_its_operator(folder, old, new, said):
    text = (folder / "node.toml").read_text()
    assert old in text
    (folder / "node.toml").write_text(text.replace(old, new))
    with pytest.raises(InvalidInput, match=said):
        opened(folder)


@pytest.mark.parametrize("unit", [None, Unit.person("patient", 2)])
def test_who_reads_of_persons_reads_that_the_nodes_accounts_must_protect_them(unit):
    """A node whose account protects records would answer just so, and count all records of a person."""
    there = nodes(2)
    run = federated(
        lambda ask: [each.answer(ask) for each in there],
        digits().public_samples,
        "1",
        classes=CLASSES,
        nodes=2,
        queries=10,
        unit=unit,
    )
    assert ("nodes whose own accounts protect persons" in str(run.guarantee)) == (unit is not None)
