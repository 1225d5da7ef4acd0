from fractions import Fraction

import pytest

from tacit.accounting.compose import Rule
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Adjacency, Unit
from tacit.ledger.account import Ceiling
from tacit.ledger.policy import EXAMPLE, parse_policy, read_policy


def test_the_example_means_what_it_says():
    unit = Unit.person("patient", 3)
    assert parse_policy(EXAMPLE) == {"clinic": Ceiling(1, "1e-6", Rule.ADAPTIVE, unit, Adjacency.REPLACE_ONE)}


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
