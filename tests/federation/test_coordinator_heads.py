"""A coordinator remembers what every node's ledger has shown, and refuses one that goes back or forks."""

import json

import pytest

from tacit.core.errors import InvalidInput, StaleLedger
from tacit.core.release import Receipt
from tacit.core.spend import Pure
from tacit.federation.coordinator import NodeHeads


def paid(request, sequence, digest=None):
    return [Receipt("north", request, "labels", Pure(1), "system", sequence, digest or f"{sequence:016x}")]


@pytest.fixture(params=["in memory", "in a file"])
def heads(request, tmp_path):
    """A memory that a coordinator keeps, or finds again each time it is asked."""
    if request.param == "in memory":
        made = NodeHeads()
        return lambda: made
    return lambda: NodeHeads(tmp_path / "nodes.heads")


def ask(heads, request, sequence, digest=None, name="north"):
    heads().asked(request)
    heads().take(name, paid(request, sequence, digest))


def test_a_ledger_that_goes_on_is_taken(heads):
    for number in range(5):
        ask(heads, f"r-{number}", 4 + 2 * number)


def test_a_question_that_is_asked_again_shows_the_payment_of_then(heads):
    ask(heads, "r-1", 4)
    ask(heads, "r-2", 6)
    ask(heads, "r-1", 4)
    with pytest.raises(StaleLedger, match="forked: entry 4 paid for this question before, now entry 8"):
        ask(heads, "r-1", 8)
    with pytest.raises(StaleLedger, match="forked"):
        ask(heads, "r-1", 4, "f" * 16)


def test_a_ledger_that_goes_back_is_named(heads):
    ask(heads, "r-1", 10)
    for sequence in (1, 9, 10):
        with pytest.raises(StaleLedger, match=rf"was rolled back: it showed entry 10 .* now entry {sequence} pays"):
            ask(heads, "r-2", sequence)
    ask(heads, "r-2", 12)


def test_an_answer_that_was_lost_on_the_way_comes_with_its_old_place(heads):
    """The node paid for r-1 and its answer was lost; then it paid for another job. Nothing is wrong with it."""
    heads().asked("r-1")
    ask(heads, "other", 6)
    ask(heads, "r-1", 4)


def test_one_place_pays_for_one_question(heads):
    heads().asked("r-1")
    heads().asked("r-2")
    heads().take("north", paid("r-1", 4))
    with pytest.raises(StaleLedger, match="entry 4 paid for another question before"):
        heads().take("north", paid("r-2", 4))


def test_nodes_are_apart(heads):
    ask(heads, "r-1", 10)
    ask(heads, "r-1", 3, name="south")


def test_a_line_that_a_crash_cut_off_is_left_out(tmp_path):
    file = tmp_path / "nodes.heads"
    heads = NodeHeads(file)
    ask(lambda: heads, "r-1", 4)
    whole = file.read_text()
    file.write_text(whole + '{"node": "nor')
    ask(lambda: NodeHeads(file), "r-2", 6)
    assert [json.loads(line).get("sequence") for line in file.read_text().splitlines()] == [None, 4, None, 6]


@pytest.mark.parametrize("content", ["x\n", "{}\n", "[]\n", '{"node": 1}\n', "\x00\n"])
def test_a_damaged_memory_is_named(tmp_path, content):
    (tmp_path / "nodes.heads").write_text(content)
    with pytest.raises(InvalidInput, match=r"nodes\.heads: damaged"):
        NodeHeads(tmp_path / "nodes.heads")
