"""The question's file: what a hostile one may not say."""

import dataclasses

import numpy as np
import pytest

from tacit.core.codec import bytes_to_array, encode
from tacit.core.errors import InvalidInput
from tacit.federation.intake.coordinator import label_samples, plan_open_question
from tacit.federation.intake.question import OpenQuestion
from tacit.federation.keys import public_key
from tacit.mechanisms.central.selection import PermuteAndFlip
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.unary_encoding import LocalLaplace
from tacit.mechanisms.shuffle.multi_message_noise import plan_noise_messages
from tacit.mechanisms.shuffle.single_message import Shuffled
from tests.federation.intake.questions import CELLS, COORDINATOR, FUTURE, SHUFFLER, local_question, sealed_question


def fields(question, **changes):
    said = {
        "version": 1, "closes": question.closes, "most": question.most, "minimum": question.minimum,
        "admission": question.admission, "key": bytes_to_array(question.key),
        "shuffler": bytes_to_array(question.shuffler), "ask": bytes_to_array(question.content),
    }  # fmt: skip
    return encode({**said, **changes})


@pytest.mark.parametrize("question", [local_question(), sealed_question(5), sealed_question(admission="tokens")])
def test_a_question_comes_back_as_it_was_under_the_same_name(question):
    again = OpenQuestion.read(question.to_bytes())
    assert again == question
    assert (again.digest, again.sealed, again.payload_bytes) == (
        question.digest,
        question.sealed,
        question.payload_bytes,
    )
    assert fields(question) == question.to_bytes()


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"closes": 0},
        {"most": 0},
        {"minimum": 1},
        {"minimum": 2000},
        {"admission": "friends"},
        {"key": bytes_to_array(b"")},
        {"key": bytes_to_array(public_key(SHUFFLER))},
        {"shuffler": bytes_to_array(b"k" * 31)},
        {"ask": bytes_to_array(b"nothing")},
        {"more": 1},
    ],
)
def test_a_question_that_says_something_else_is_refused(changes):
    with pytest.raises(InvalidInput):
        OpenQuestion.read(fields(sealed_question(), **changes)).mechanism  # noqa: B018


@pytest.mark.parametrize(
    "mechanism",
    [
        PermuteAndFlip(1, 2),
        LocalLaplace(CELLS, 1, 1),
        Shuffled(plan_noise_messages(1, 1e-6, cells=CELLS, participants=1000), 1000),
    ],
)
def test_devices_answer_through_no_other_mechanism(mechanism):
    with pytest.raises(InvalidInput, match="device"):
        local_question(mechanism).mechanism  # noqa: B018


def test_the_local_model_names_no_key_and_the_quorum_is_the_guarantee_s():
    with pytest.raises(InvalidInput, match="are not encrypted"):
        dataclasses.replace(local_question(), key=public_key(COORDINATOR))
    with pytest.raises(InvalidInput, match="at least 7"):
        dataclasses.replace(sealed_question(7), minimum=6)


def test_a_question_is_planned_from_public_samples_for_both_models():
    public = np.random.default_rng(0).normal(size=(60, 4))
    keys = {"key": public_key(COORDINATOR), "shuffler": public_key(SHUFFLER)}
    options = {"closes": FUTURE, "queries": 5, "representation": "pca"}
    local = plan_open_question(public, ["a", "b"], 1000, 1, **options)
    mixed = plan_open_question(public, ["a", "b"], 1000, 1, "1e-6", trust="shuffle", **keys, **options)
    assert (local.minimum, mixed.minimum) == (1, 1000)
    assert local.mechanism.epsilon == 1 < mixed.mechanism.epsilon
    assert isinstance(mixed.mechanism, SubsetSelection)
    assert mixed.inner.spend.epsilon <= 1
    labels = label_samples(local, public, np.array([0, 1, 0, 1, 0]))
    assert labels.shape == (60,)
    with pytest.raises(InvalidInput, match="local or shuffle"):
        plan_open_question(public, ["a", "b"], 1000, 1, trust="central", **options)
