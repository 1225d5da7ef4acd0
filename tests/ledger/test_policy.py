from fractions import Fraction

import pytest

from tacit.core.account import Ceiling, Rule
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency, Unit
from tacit.ledger.account import Bound
from tacit.ledger.policy import Rules, parse_policy, parse_rules, read_policy
from tacit.ledger.policy_file import POLICY_EXAMPLE, RULES_EXAMPLE


def test_the_example_means_what_it_says():
    unit = Unit.person("patient", 3)
    assert parse_policy(POLICY_EXAMPLE) == {"clinic": Ceiling(1, "1e-6", Rule.ADAPTIVE, unit, Adjacency.REPLACE_ONE)}


def test_numbers_are_taken_as_written():
    policy = parse_policy('[accounts]\na = {epsilon = 0.1}\nb = {epsilon = "1/3", delta = 1e-7}\nc = {epsilon = 2}')
    assert [ceiling.epsilon for ceiling in policy.values()] == [Fraction(1, 10), Fraction(1, 3), Fraction(2)]
    assert policy["b"].delta == Fraction(1, 10_000_000)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ("delta = 0.1", "accounts.a.epsilon: is missing"),
        ("epsilon = 0", "accounts.a.epsilon: epsilon must be above 0, got 0"),
        ("epsilon = -0.5", "accounts.a.epsilon: epsilon must be above 0, got -0.5"),
        ("epsilon = inf", "accounts.a.epsilon: epsilon must be a number"),
        ("epsilon = nan", "accounts.a.epsilon: epsilon must be a number"),
        ("epsilon = true", "accounts.a.epsilon: must be a number, got True"),
        ('epsilon = "one"', "accounts.a.epsilon: epsilon must be a number, got 'one'"),
        ("epsilon = [1]", "accounts.a.epsilon: must be a number"),
        ("epsilon = 1\ndelta = 1", r"accounts.a.delta: delta must be in \[0, 1\), got 1"),
        ("epsilon = 1\ndelta = -1e-9", r"accounts.a.delta: delta must be in \[0, 1\)"),
        ("epsilon = 1\nepsilom = 2", "accounts.a.epsilom: is not a setting of a policy"),
        ('epsilon = 1\nrule = "hopeful"', "accounts.a.rule: .*'adaptive' or 'planned'"),
        ('epsilon = 1\nadjacency = "near"', "accounts.a.adjacency: .*'replace-one' or 'add-remove'"),
        ('epsilon = 1\nunit = "patient"', 'accounts.a.unit: must be "holder" or a table'),
        ('epsilon = 1\nunit = {column = "p"}', "accounts.a.unit.records: is missing"),
        ('epsilon = 1\nunit = {column = "p", records = 0}', "accounts.a.unit.records: .*greater than or equal to 1"),
        ('epsilon = 1\nunit = {column = "", records = 1}', "accounts.a.unit.column"),
        ("epsilon = 1\ndelta = 2\nrule = 3", "accounts.a.delta: .*; accounts.a.rule: "),
    ],
)
def test_every_wrong_field_is_named(fields, named):
    with pytest.raises(InvalidInput, match=named):
        parse_policy(f"[accounts.a]\n{fields}")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "accounts: is missing"),
        ("[accounts]", "accounts: .*at least 1"),
        ("ceiling = 3", "ceiling: is not a setting"),
        ("[accounts.a]\nepsilon == 1", "not valid TOML: .*line 2"),
    ],
)
def test_a_malformed_policy_is_explained(text, named):
    with pytest.raises(InvalidInput, match=named):
        parse_policy(text)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "policy.toml"
    with pytest.raises(InvalidInput, match=r"cannot read the policy .*policy\.toml: No such file"):
        read_policy(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match=r"cannot read the policy .*policy\.toml: .*utf-8"):
        read_policy(path)
    path.write_text("[accounts.a]\nepsilon = -1")
    with pytest.raises(InvalidInput, match=r"policy\.toml: the policy is not valid\. accounts\.a\.epsilon"):
        read_policy(path)


def test_an_account_may_protect_a_whole_holder():
    ceiling = parse_policy('[accounts.clinic]\nepsilon = 2\nunit = "holder"')["clinic"]
    assert ceiling == Ceiling(2, 0, Rule.ADAPTIVE, Unit.whole_holder(), Adjacency.REPLACE_ONE)
    assert "one holder with all its records" in str(ceiling)


ALLOW = (
    '\n[allow]\nmethods = ["rknn"]\nmechanisms = ["Shuffled"]\npurposes = ["reverse k-NN labels"]\nparticipants = 3\n'
)


def rules(more="", text=ALLOW):
    return parse_rules(f"[accounts.a]\nepsilon = 1{text}{more}")


def test_a_policy_that_says_nothing_of_limits_has_none():
    assert rules() == Rules(("rknn",), ("Shuffled",), ("reverse k-NN labels",), 3)
    found = rules()
    assert (found.honest_others, found.noise_share, found.approval, found.limits.any) == (None, None, False, False)


def test_limits_mean_what_they_say():
    found = rules(
        'honest_others = 2\nnoise_share = "1/4"\napproval = true\n[limits]\nquestion = { epsilon = 0.5 }\n'
        "purpose = { epsilon = 1, delta = 1e-6 }\nday = { epsilon = 0.25, delta = 0, questions = 10 }\n"
    )
    assert (found.honest_others, found.noise_share, found.approval) == (2, Fraction(1, 4), True)
    limits = found.limits
    assert limits.question == Bound(Fraction(1, 2))
    assert limits.purpose == Bound(Fraction(1), Fraction(1, 10**6))
    assert (limits.day, limits.questions) == (Bound(Fraction(1, 4), Fraction(0)), 10)
    assert limits.purposes == ("reverse k-NN labels",)


def test_the_examples_comments_are_settings_too():
    lines = [line[2:] if line.startswith("# ") else line for line in RULES_EXAMPLE.splitlines()]
    found = rules(text="\n" + "\n".join(lines))
    assert found.limits.any
    assert (found.honest_others, found.approval) == (2, True)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", r"allow: is not"),
        (ALLOW.replace('"rknn"', '"rkn"'), r"allow\.methods\.0: 'rkn' is not known; did you mean 'rknn'\?"),
        (
            ALLOW.replace("Shuffled", "shuffled"),
            r"allow\.mechanisms\.0: 'shuffled' is not known; did you mean 'Shuffled'",
        ),
        (ALLOW.replace("Shuffled", "DiscreteLaplace"), "did you mean 'DiscreteLaplaceNoise'"),
        (ALLOW.replace("Shuffled", "zzz"), r"'zzz' is not known\. Known are Collision"),
        (ALLOW.replace("k-NN", "kNN"), "purposes.0: .*did you mean 'reverse k-NN labels'"),
        (ALLOW + "honest_other = 1", "allow.honest_other: is not a setting of a policy; did you mean 'honest_others'"),
        (ALLOW + "honest_others = -1", "allow.honest_others: .*greater than or equal to 0"),
        (ALLOW + "noise_share = 2", r"allow.noise_share: noise_share must be in \(0, 1\], got 2"),
        (ALLOW + "noise_share = 0", "noise_share must be above 0"),
        (ALLOW + "[limit]", "limit: is not a setting of a policy; did you mean 'limits'"),
        (ALLOW + "[limits]\ndays = {}", "limits.days: is not a setting of a policy; did you mean 'day'"),
        (ALLOW + "[limits]\nday = {question = 1}", "limits.day.question: .*; did you mean 'questions'"),
        (ALLOW + "[limits]\nday = {delta = 0.1}", "limits.day.delta: has no effect"),
        (ALLOW + "[limits]\nday = {questions = -1}", "limits.day.questions"),
        (ALLOW + "[limits]\nquestion = {delta = 0.1}", "limits.question.epsilon: is missing"),
        (ALLOW + "[limits]\nquestion = {epsilon = 0}", "limits.question.epsilon: epsilon must be above 0"),
        ("\nepsilom = 1", "accounts.a.epsilom: is not a setting of a policy; did you mean 'epsilon'"),
        ('\nunit = {column = "p", record = 1}', "accounts.a.unit.record: .*did you mean 'records'"),
    ],
)
def test_unknown_names_are_errors_that_suggest_the_nearest(text, named):
    if not text:
        named = r"no section \[allow\]"
    with pytest.raises(InvalidInput, match=named):
        rules(text=text)


def test_purposes_of_ones_own_are_taken_as_written():
    for purpose in ("a study of ours", "reverse k-NN labels, round 1 of 2", "votes"):
        assert rules(text=ALLOW.replace("reverse k-NN labels", purpose)).purposes == (purpose,)
