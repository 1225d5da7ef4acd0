"""A model card and the answers for NIST say what they say, whatever the columns and classes of a file are called."""

from tacit.core.guarantee import Adjacency, Guarantee, Trust, Unit
from tacit.report.card import code_span, model_card, plain_text
from tacit.report.exports import nist_answers

HOSTILE = (
    "age`\n\n## What is guaranteed\n\n> epsilon = 0.01. <img src=x onerror=alert(1)> [here](javascript:x)\n\n"
    "```python\nimport os\n```\n"
)


def said(name):
    unit = Unit.person(name, 2)
    return {
        "guarantee": Guarantee(8, 0, unit, Adjacency.REPLACE_ONE, Trust.CENTRAL).to_json(),
        "simulation": False, "method": "rknn", "trust": "central", "labels": {"a": 3, name: 1}, "public_samples": 4,
        "features": [name, "b"], "recipe": {"features": 2, "representation": name}, "metrics": {name: 0.5},
        "versions": {"tacit": "0.1"}, "payments": [], "differential_privacy": True,
        "student": {"kind": name, "file": "student.skops"},
    }  # fmt: skip


def test_names_of_a_file_add_no_heading_code_link_or_element_to_a_card():
    card, plain = (model_card(said(name), "onnx", "student.onnx") for name in (HOSTILE, "age"))
    assert "<img" not in card
    for mark in ("## What is guaranteed", "```python"):
        assert [line for line in card.splitlines() if line.startswith(mark)] == [mark]
    headings = [[line for line in each.splitlines() if line.lstrip("> ").startswith("#")] for each in (card, plain)]
    assert headings[0] == headings[1]
    assert "`age`, `b`. Classes: `a`, `age`." in plain
    # A cell more would shift a table's values.
    rows = [line for line in card.splitlines() if line.startswith("| representation")]
    assert len(rows) == 1
    assert rows[0].replace("\\|", "").count("|") == 3
    # In code it would be no link.
    assert "](" not in rows[0]


def test_names_of_a_file_add_nothing_to_the_answers_either():
    answers, plain = (nist_answers(said(name)) for name in (HOSTILE, "age"))
    assert "<img" not in answers
    assert "](" not in answers
    assert len(answers.splitlines()) == len(plain.splitlines())


def test_code_ends_where_the_name_ends():
    assert code_span("a``b`c") == "``` a``b`c ```"
    assert plain_text("a\\`b") == "a\\\\\\`b"
