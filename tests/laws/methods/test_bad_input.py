"""Laws of every method about what it is given: what is wrong is named before anything is paid for."""

import math

import numpy as np
import pytest

from tacit.core.errors import InvalidInput
from tests.laws.methods.adapters import CLASSES
from tests.laws.methods.given import LABELS, PRIVATE, PUBLIC, SAMPLES, every, every_case, paying

pytestmark = pytest.mark.filterwarnings("ignore::tacit.core.errors.TacitWarning")


def changed(values, place, value):
    values = values.copy()
    values[place] = value
    return values


# What is changed, and what the refusal must name.
BAD = {
    "private NaN": ({"private": (changed(SAMPLES, (3, 1), np.nan), LABELS)}, "private samples: row"),
    "private empty": ({"private": (SAMPLES[:0], LABELS[:0])}, "private"),
    "private labels missing": ({"private": (SAMPLES, LABELS[:50])}, "label"),
    "unknown class": ({"private": (SAMPLES, changed(LABELS, 4, "z"))}, "row .* not? .*classes|none of the classes"),
    "wrong width": ({"private": (SAMPLES[:, :3], LABELS)}, "3 features|shape"),
    "public NaN": ({"public": changed(PUBLIC, (3, 1), np.nan)}, "public samples: row 3"),
    "public infinite": ({"public": changed(PUBLIC, (3, 1), np.inf)}, "public samples: row 3"),
    "public empty": ({"public": PUBLIC[:0]}, "public"),
    "public text": ({"public": PUBLIC.astype(str)}, "public samples"),
    "classes twice": ({"classes": ["a", "b", "c", "c"]}, "twice"),
    "classes a word": ({"classes": "abc"}, "classes must be a list"),
    "epsilon zero": ({"epsilon": 0}, "epsilon"),
    "epsilon negative": ({"epsilon": -1}, "epsilon"),
    "epsilon NaN": ({"epsilon": math.nan}, "epsilon"),
    "epsilon infinite": ({"epsilon": math.inf}, "epsilon"),
    "epsilon a word": ({"epsilon": "much"}, "epsilon"),
    "delta one": ({"delta": 1}, "delta"),
    "delta negative": ({"delta": -0.5}, "delta"),
    "delta NaN": ({"delta": math.nan}, "delta"),
    "seed negative": ({"seed": -1}, "seed"),
}
AT_NODES = "the operator's own loader checks a node's records (tests/federation/test_settings.py)"
ANY_CELL = "a mixed table may have any cell"
NODE_SEED = "the seed of a federation's noise is set at its nodes"


def meaning(case, method):
    if method.federated and "private" in BAD[case][0]:
        return AT_NODES
    if method.federated and case.startswith("seed"):
        return NODE_SEED
    if method.more.get("data_kind") == "mixed" and case in ("public NaN", "public infinite", "public text"):
        return ANY_CELL
    return None


@every_case(BAD, meaning)
def test_bad_input_is_named_and_nothing_is_charged(method, case, tmp_path):
    change, named = BAD[case]
    given = {"private": PRIVATE, "public": PUBLIC} | change
    funds = None if paying(method) or "seed" in change else method.funds()
    with pytest.raises(InvalidInput, match=named):
        method.run(given.pop("private"), given.pop("public"), **given, funds=funds)
    assert funds is None or set(funds.payments().values()) == {0}


@every()
def test_an_option_with_an_unknown_value_is_named_and_nothing_is_charged(method, tmp_path):
    funds = None if paying(method) else method.funds()
    name, value = method.magic
    with pytest.raises(InvalidInput, match="magic"):
        method.run(PRIVATE, PUBLIC, funds=funds, **{name: value})
    assert funds is None or set(funds.payments().values()) == {0}


@every()
def test_an_unknown_option_is_named_and_nothing_is_charged(method, tmp_path):
    funds = None if paying(method) else method.funds()
    # Python's own word for it is as good as ours.
    with pytest.raises((InvalidInput, TypeError), match="no_such_option"):
        method.run(PRIVATE, PUBLIC, funds=funds, no_such_option=1)
    assert funds is None or set(funds.payments().values()) == {0}


# Labels of the records, of which every holder has each third.
ODD = {"one class in all": np.repeat("a", 90), "one class per holder": np.array(CLASSES)[np.arange(90) % 3]}


@every_case(ODD)
def test_a_paid_run_is_not_lost_to_what_the_records_are(method, case):
    assert method.run((SAMPLES, ODD[case]), PUBLIC, seed=1).receipts
