"""What one process can do and nodes cannot is refused before anything is asked, and is on the page with its reason."""

import re
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.core.errors import InvalidInput

PUBLIC = np.random.default_rng(0).normal(size=(60, 4))
PAGE = Path(__file__).parents[2] / "docs" / "federation.md"
NO_BUDGET = {"epsilon": None, "delta": 0}
# By method and setting as the page has them: what is given, and what the refusal says.
REFUSED = {
    ("pate", "threshold"): ({"threshold": 0.5}, "there is no screen: leave out threshold"),
    ("pate", "contested"): ({"contested": 0.1}, "there is no test over nodes"),
    ("pate", "diagnostic"): ({"diagnostic": True}, "the coordinator of nodes does not have"),
    ("pate", 'trust = "central"'): ({"trust": "central"}, "trust must be one of local, masked here, got 'central'"),
    ("pate", 'trust = "shuffle"'): ({"trust": "shuffle"}, "trust must be one of local, masked here, got 'shuffle'"),
    ("private_knn", "threshold"): ({"threshold": 0.5}, "there is no screen, since each would select other queries"),
    ("private_knn", 'trust = "masked"'): ({"trust": "masked"}, "distributed noise is not accounted"),
    ("private_knn", 'trust = "central"'): ({"trust": "central"}, "trust must be one of local here, got 'central'"),
    ("noisy_sgd", 'model = "hidden"'): ({"model": "hidden"}, "runs in one process only"),
    ("noisy_sgd", 'model = "finetuned"'): ({"model": "finetuned"}, "runs in one process only"),
    ("fedmd", 'variant = "nfdp"'): ({"variant": "nfdp", **NO_BUDGET}, "runs in one process only, not over nodes"),
    ("fedmd", 'variant = "np"'): ({"variant": "np", **NO_BUDGET}, "runs in one process only, not over nodes"),
}


class Asked(Exception):
    """Raised with the name of the first question."""


def nobody(ask):
    raise Asked(ask.name)


def over_nodes(**given):
    settings = {"epsilon": 20, "delta": "1e-5", "classes": ["a", "b"]} | given
    return tacit.distill(None, PUBLIC, exchange=tacit.Nodes(nobody, nodes=4, records=100), **settings)


@pytest.mark.parametrize(("method", "setting"), REFUSED)
def test_it_is_refused_before_anything_is_asked(method, setting):
    given, said = REFUSED[method, setting]
    with pytest.raises(InvalidInput, match=said):
        over_nodes(method=method, **given)


def test_the_page_lists_these_and_no_others():
    section = PAGE.read_text().split("## What does not run over nodes, and why\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| `([^`]+)` \| [^|]+ \| [^|]+ \|$", section, re.MULTILINE)
    assert set(rows) == set(REFUSED)
    assert len(rows) == len(REFUSED)


@pytest.mark.parametrize("trust", [None, "central"])
@pytest.mark.parametrize(
    ("given", "question"),
    [
        ({}, "class_sums-sums"),
        ({"releases": "sums", "delta": 0}, "class_sums-sums"),
        ({"delta": 0}, "rknn-votes"),
        ({"releases": "votes"}, "rknn-votes"),
        ({"data_kind": "images"}, "rknn-votes"),
        ({"adjacency": "add-remove", "releases": "votes"}, "number of records"),
    ],
)
@pytest.mark.filterwarnings("ignore::tacit.core.errors.TacitWarning")
def test_auto_asks_for_sums_where_nodes_have_them_and_for_votes_otherwise(trust, given, question):
    with pytest.raises((Asked, InvalidInput), match=question):
        over_nodes(trust=trust, **given)


@pytest.mark.filterwarnings("ignore::tacit.core.errors.TacitWarning")
def test_auto_asks_a_shuffler_for_votes():
    with pytest.raises((Asked, InvalidInput), match="rknn-votes"):
        over_nodes(trust="shuffle", epsilon=1)
