"""What the default advises: extras that are missing, and more public samples."""

import numpy as np
import pytest

from tacit.methods.auto import advice
from tacit.methods.auto.advice import tips
from tests.methods.auto.given import clouds, task

RECORDS = clouds(200, 1)
FEATURES = np.random.default_rng(0).normal(size=(100, 4))


def advised(public, **more):
    return [said for _, said in tips(task(RECORDS, public, **more))]


@pytest.mark.parametrize(
    ("kind", "public", "missing", "words"),
    [
        ("images", np.zeros((60, 2, 2)), "installed", "tacit[torch]"),
        ("images", np.zeros((180, 2, 2, 3)), "has_pretrained", "tacit[features]"),
        ("text", FEATURES, "minilm_installed", "MiniLM"),
    ],
)
def test_an_extra_is_advised_exactly_where_it_is_missing_and_would_help(kind, public, missing, words, monkeypatch):
    for name in ("installed", "has_pretrained", "minilm_installed"):
        monkeypatch.setattr(advice, name, lambda *_: True)
    assert advised(public, kind=kind) == []
    monkeypatch.setattr(advice, missing, lambda *_: False)
    [said] = advised(public, kind=kind)
    assert words in said
    assert advised(FEATURES, kind="table") == []


def test_more_public_samples_are_advised_until_there_are_enough():
    few, enough = FEATURES[:59], FEATURES[:60]
    [said] = advised(few, kind="table")
    assert "59 public samples are few for 4 features" in said
    assert "up to 60" in said
    assert advised(enough, kind="table") == []
