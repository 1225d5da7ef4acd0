"""A node's policy bounds what a coordinator may choose: whom a guarantee rests on, how much at once, and which jobs."""

import inspect
import json
from dataclasses import replace
from fractions import Fraction

import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")


from tacit.core.errors import InvalidInput
from tacit.core.spend import DiscreteGaussian, Pure
from tacit.federation.messages import RefusalReason, Request, read_response
from tacit.federation.node.refusals import APPROVED, DECLINED, MOST_PENDING, ApprovalRequest, Approvals, node_side
from tacit.federation.node.steps import Masking, NodeMemory
from tacit.federation.secure_aggregation.session import Session
from tacit.ledger.account import Bound, PolicyLimits
from tacit.ledger.policy import Rules
from tacit.ledger.policy_file import KNOWN_PURPOSES, METHOD_NAMES, mechanism_names
from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
from tacit.mechanisms.shuffle.multi_message_noise import MultiMessageNoise
from tacit.mechanisms.shuffle.negative_binomial import NegativeBinomial
from tacit.mechanisms.shuffle.single_message import Shuffled
from tacit.methods.class_sums import plan as class_sums
from tacit.methods.fedmd import coordinator as fedmd
from tacit.methods.noisy_sgd import plan as noisy_sgd
from tacit.methods.pate import coordinator as pate
from tacit.methods.private_knn import plan as private_knn
from tacit.methods.privatekt import coordinator as privatekt
from tacit.methods.registry import METHODS
from tacit.methods.rknn import coordinator as rknn
from tacit.wire import ask_to_bytes
from tests.federation.node.test_steps import GRAPH, IDENTITIES, MIXED, PEERS, SHARES, VOTES, mixing, node, said, tables

RULES = Rules(("rknn",), ("DiscreteLaplaceNoise", "Shuffled", "DistributedLaplace"), ("votes",), 1)


def asked(own, ask=VOTES, run="run"):
    answer = read_response(own.reply(Request(run, 0, 3, ask_to_bytes(ask)).to_bytes())).answer
    return answer if isinstance(answer, RefusalReason) else "answered"


def priced(epsilon, request="r-1"):
    return replace(VOTES, mechanism=DiscreteLaplaceNoise.for_epsilon(epsilon, 2), request=request)


def test_the_names_in_a_policy_are_those_of_the_methods_mechanisms_and_purposes():
    asking = {name: each for name, each in METHODS.items() if each.questions}
    assert set(METHOD_NAMES) == set(asking)
    listed = {
        kind.__name__
        for method in asking.values()
        for by_step in node_side(method).allowed.values()
        for door in by_step.values()
        for kind in door.listed
    }
    assert set(mechanism_names()) == listed
    made = [
        privatekt.LabelCoordinator, pate.TeacherCoordinator, rknn.VoteCoordinator, fedmd.PredictCoordinator,
        fedmd.ConsensusVoteCoordinator,
    ]  # fmt: skip
    asked = {inspect.signature(each).parameters["purpose"].default for each in made}
    assert asked | {class_sums.SUM_PURPOSE, noisy_sgd.GRADIENT_PURPOSE, private_knn.NEIGHBOR_PURPOSE} == set(
        KNOWN_PURPOSES
    )


# Whom a guarantee rests on


@pytest.mark.parametrize(
    ("bound", "allowed"),
    [
        ({"honest_others": 2}, True),
        ({"honest_others": 1}, False),
        ({"noise_share": Fraction(1, 2)}, True),
        ({"noise_share": Fraction(51, 100)}, False),
    ],
)
def test_a_masked_sum_may_rest_on_so_many_honest_others(bound, allowed):
    assert (SHARES.honest, SHARES.reliance(1).others) == (2, 2)
    own = replace(node()[0], rules=replace(RULES, **bound), masking=Masking(IDENTITIES["ada"], PEERS, NodeMemory()))
    session = Session("run", 0, "r-1", 4, SHARES, PEERS, GRAPH)
    wire_request = Request("run", 0, 4, ask_to_bytes(replace(VOTES, mechanism=SHARES)), "keys", session.to_bytes())
    answer = read_response(own.reply(wire_request.to_bytes())).answer
    assert isinstance(answer, bytes) if allowed else answer is RefusalReason.TRUST


@pytest.mark.parametrize(
    ("bound", "outcome"),
    [
        ({"honest_others": 0}, "handed in"),  # the quorum of 20 are this node's own 20 records
        ({"noise_share": Fraction(1)}, "handed in"),
    ],
)
def test_messages_that_hide_among_the_nodes_own_rest_on_nobody(bound, outcome):
    own, _ = node(rules=replace(RULES, **bound))
    assert said(own, mixing(), MIXED)[0] == outcome


def test_a_shuffled_question_may_rest_on_a_number_of_honest_participants():
    flood = MultiMessageNoise(4, 1, 100, "1/4", "1/2", NegativeBinomial("32.92", "0.4181"), share="1/2")
    ask = replace(VOTES, mechanism=Shuffled(flood, 100))
    assert (ask.mechanism.reliance(20).others, ask.mechanism.reliance(20).share) == (30, Fraction(2, 5))
    assert ask.mechanism.reliance(80).share == 1
    for bound, refused in (({"honest_others": 29}, True), ({"honest_others": 30}, False)):
        own, _ = node(rules=replace(RULES, **bound))
        assert (said(own, mixing(), ask)[0] is RefusalReason.TRUST) == refused
    own, _ = node(rules=replace(RULES, noise_share=Fraction(41, 100)))
    assert said(own, mixing(), ask) == (RefusalReason.TRUST, 0)


def test_who_adds_all_of_its_noise_or_trusts_a_curator_by_name_rests_on_no_other_node():
    own, _ = node(rules=replace(RULES, honest_others=0, noise_share=Fraction(1)))
    assert asked(own) == "answered"
    assert (
        said(own, tables(), replace(VOTES, request="r-2"))[0] is RefusalReason.QUESTION
    )  # another request than the batch's
    own, _ = node(rules=replace(RULES, honest_others=0, noise_share=Fraction(1)))
    assert said(own, tables()) == ("handed in", 1)


# How much at once


@pytest.mark.parametrize(
    "limits",
    [
        PolicyLimits(question=Bound(Fraction(1, 4))),
        PolicyLimits(day=Bound(Fraction(1, 4))),
        PolicyLimits(purpose=Bound(Fraction(1, 4)), purposes=("votes",)),
    ],
    ids=["question", "day", "purpose"],
)
def test_a_budget_does_not_go_in_one_gulp(limits):
    own, _ = node(rules=replace(RULES, limits=limits))
    assert asked(own, priced(5)) is RefusalReason.LIMIT
    assert asked(own, priced("1/4")) == "answered"
    assert asked(own, priced("1/4")) == "answered"
    assert own.ledger.balance("ada").payments == 1
    again = asked(own, priced("1/4", "r-2"))
    assert again == ("answered" if limits.question else RefusalReason.LIMIT)


def test_a_batch_is_a_question_too():
    own, handed = node(rules=replace(RULES, limits=PolicyLimits(questions=1)))
    assert said(own, tables()) == ("handed in", 1)
    assert said(own, tables()) == ("handed in", 1)
    ask = replace(VOTES, request="r-2")
    assert said(own, tables(ask=ask), ask) == (RefusalReason.LIMIT, 1)
    assert len(handed) == 2


def test_a_refusal_says_its_reason_on_the_nodes_own_log(caplog):
    own, _ = node(rules=replace(RULES, limits=PolicyLimits(question=Bound(Fraction(1, 4)))))
    asked(own, priced(5))
    assert "epsilon 0.25" in caplog.text
    assert "to 5" in caplog.text


# Which jobs


def test_a_job_is_answered_after_a_person_has_approved_it(tmp_path):
    approvals = Approvals(tmp_path / "approvals")
    own = replace(node(rules=replace(RULES, approval=True))[0], approvals=approvals)
    assert asked(own) is RefusalReason.APPROVAL
    assert asked(own) is RefusalReason.APPROVAL
    assert own.ledger.balance("ada").payments == 0
    (job,) = approvals.jobs()
    assert (job.run, job.method, job.purpose, job.price) == ("run", "rknn", "votes", "epsilon 1")
    approvals.decide(job.id[:6], APPROVED)
    assert asked(own) == "answered"
    # Cheaper rounds of the same job are covered; dearer ones, and other jobs, are not.
    assert asked(own, priced("1/2", "r-2")) == "answered"
    assert asked(own, priced(2, "r-3")) is RefusalReason.APPROVAL
    assert asked(own, priced(1, "r-3"), run="another") is RefusalReason.APPROVAL
    assert len(approvals.jobs()) == 3
    approvals.decide(job.id, DECLINED)
    assert asked(own, priced(1, "r-4")) is RefusalReason.APPROVAL
    assert approvals.jobs()[0].state == DECLINED or DECLINED in {each.state for each in approvals.jobs()}


def test_what_the_policy_does_not_allow_waits_for_nobody(tmp_path):
    approvals = Approvals(tmp_path / "approvals")
    own = replace(node(rules=replace(RULES, approval=True))[0], approvals=approvals)
    assert asked(own, replace(VOTES, purpose="something else")) is RefusalReason.PURPOSE
    assert approvals.jobs() == []
    # A node that cannot note it down answers nothing.
    assert asked(replace(own, approvals=None)) is RefusalReason.APPROVAL


def test_whoever_asks_cannot_fill_the_disk(tmp_path):
    approvals = Approvals(tmp_path / "approvals")
    jobs = [ApprovalRequest(f"run {number}", "rknn", "m", "p", Pure(1)) for number in range(MOST_PENDING + 5)]
    assert not any(approvals.allows(each) for each in jobs)
    assert len(approvals.jobs()) == MOST_PENDING
    assert (tmp_path / "approvals").stat().st_mode & 0o077 == 0
    assert all(each.stat().st_mode & 0o077 == 0 for each in (tmp_path / "approvals").iterdir())


def test_junk_does_not_keep_another_job_from_being_seen(tmp_path):
    """A hundred jobs of made-up names waited, and the next one was refused and not noted down."""
    approvals = Approvals(tmp_path / "approvals")
    first = ApprovalRequest("study", "rknn", "m", "labels", Pure(1))
    approvals.allows(first)
    approvals.decide(approvals.jobs()[0].id, APPROVED)
    honest = ApprovalRequest("study", "rknn", "m", "votes", Pure(1))
    approvals.allows(honest)
    for number in range(MOST_PENDING + 20):
        approvals.allows(ApprovalRequest(f"junk {number}", "rknn", "m", f"labels, round {number} of 500", Pure(1)))
    late = ApprovalRequest("second study", "rknn", "m", "labels", Pure(1))
    assert not approvals.allows(late)
    known = {each.id for each in approvals.jobs()}
    assert {first.id, honest.id, late.id} <= known
    assert len(known) == MOST_PENDING + 1
    assert approvals.allows(first)


def test_a_decision_stands_and_files_are_checked(tmp_path):
    approvals = Approvals(tmp_path)
    job = ApprovalRequest("run", "rknn", "m", "p", DiscreteGaussian(20, 2, True))
    assert not job.covers(replace(job, spend=Pure("1/100")))
    approvals.allows(job)
    approvals.decide(job.id, DECLINED)
    assert not approvals.allows(job)
    assert [each.state for each in approvals.jobs()] == [DECLINED]
    with pytest.raises(InvalidInput, match="there is no job 'zz'"):
        approvals.decide("zz", APPROVED)
    with pytest.raises(InvalidInput, match="there is no job ''"):
        approvals.decide("", APPROVED)
    file = tmp_path / f"{job.id}.json"
    content = json.loads(file.read_text())
    for wrong in ({"state": "sure"}, {"run": "another"}, {"spend": 1}):
        file.write_text(json.dumps(content | wrong))
        with pytest.raises(InvalidInput, match="cannot be read"):
            approvals.jobs()
    file.write_text("{")
    with pytest.raises(InvalidInput, match="cannot be read"):
        approvals.allows(job)
