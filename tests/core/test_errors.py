"""What a message may quote of what a user gave: at most one line of it, and never less of the explanation."""

import numpy as np
import pytest

import tacit
from tacit.core.errors import InvalidInput, shortened

LONG, WORDS = "x" * 300, "ab " * 120
RECORDS = (np.arange(120.0).reshape(40, 3), np.arange(40) % 2)
SAMPLES = np.arange(90.0).reshape(30, 3) + 0.5
ARGUMENTS = (
    "epsilon", "delta", "method", "classes", "data", "holders", "unit", "adjacency", "trust", "ledger", "exchange",
    "engine", "seed", "control", "queries", "labels", "mechanism", "shares", "neighbors", "iterations", "label", "text",
    "categories", "persons", "test", "data_kind", "observer", "student", "representation", "selection", "releases",
    LONG,
)  # fmt: skip


@pytest.mark.parametrize("wrong", [f"{LONG} {WORDS}", [LONG] * 41, object()], ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("name", ARGUMENTS, ids=lambda each: each[:20])
def test_a_wrong_argument_is_an_error_of_ours_that_quotes_little_of_it(name, wrong):
    given = {"epsilon": 1.0, "classes": [0, 1], "account": "research" if name == "ledger" else None, name: wrong}
    with pytest.raises(tacit.TacitError) as told:
        tacit.distill(RECORDS, SAMPLES, **given)
    assert LONG[:81] not in str(told.value)
    assert WORDS[:81] not in str(told.value)
    assert len(str(told.value)) < 500


@pytest.mark.parametrize(
    "call",
    [
        lambda: tacit.load(LONG),
        lambda: tacit.open_ledger(LONG),
        lambda: tacit.open_ledger(LONG, {"a": tacit.Ceiling(1)}),
        lambda: tacit.Ceiling(LONG),
        lambda: tacit.Ceiling(1, rule=LONG),
        lambda: tacit.Ceiling(1, unit=LONG),
        lambda: tacit.Ceiling(1, adjacency=LONG),
        lambda: tacit.distill(LONG, SAMPLES, 1.0),
        lambda: tacit.distill(RECORDS, LONG, 1.0),
        lambda: tacit.PrivateDistiller().set_params(**{LONG: 1}),
    ],
)
def test_so_is_every_other_door(call):
    with pytest.raises(tacit.TacitError) as told:
        call()
    assert LONG[:81] not in str(told.value)


def test_an_explanation_is_not_cut():
    words = (
        "the holders' own records are in 'records.csv', and what follows here is no quote, however long it is, 'see'"
    )
    assert shortened(words) == words
    told = str(InvalidInput(f"no column {WORDS!r}: {words}"))
    assert told.endswith(words)
    assert len(told) < len(words) + 110
