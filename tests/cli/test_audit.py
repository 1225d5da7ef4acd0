"""``tacit audit`` as a person uses it."""

import pytest
import typer
from typer.testing import CliRunner

from tacit.audit.auditor import AUDITABLE
from tacit.audit.mutants import MUTANTS
from tacit.cli.audit import audit_command
from tacit.cli.screen import console
from tacit.core.errors import InvalidInput

app = typer.Typer()
app.command()(audit_command)


def run(*arguments):
    return CliRunner(env={"COLUMNS": "120"}).invoke(app, arguments)


def test_a_true_claim_holds():
    result = run("permute-and-flip", "--epsilon", "0.5", "--samples", "20000")
    assert result.exit_code == 0, result.output
    assert "ε = 0.5" in result.output
    assert "holds" in result.output
    assert "20,000" in result.output
    assert "That is no proof" in result.output


def test_a_false_claim_fails_and_is_named():
    result = run("one-way-sensitivity", "--samples", "20000")
    assert result.exit_code == 1
    assert "FAILS" in result.output
    assert "fails: one-way-sensitivity: claimed ε = 1, samples prove ε ≥ 1." in result.output


def test_mutants_of_a_mechanism_are_caught():
    result = run("permute-and-flip", "--mutants", "--samples", "20000")
    assert result.exit_code == 0, result.output
    assert result.output.count("caught") == 3
    assert "one-way-sensitivity (permute-and-flip): calibrated for" in result.output
    assert "leaked-count" in result.output


def test_an_escaped_mutant_is_a_failure():
    result = run("gate", "--mutants", "--samples", "100")
    assert result.exit_code == 1
    assert "ESCAPED" in result.output
    assert "escaped: wrong-adjacency" in result.output


def test_bias_is_shown_beside_privacy():
    result = run("generalized-response", "--samples", "20000")
    assert result.exit_code == 0, result.output
    assert "|z| =" in result.output
    assert "ε ≥" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("oracle",), "unknown mechanism 'oracle': choose one of bits-asymmetric"),
        (("oracle",), "or all of them: all, or a mutant: "),
        (("gat",), "unknown mechanism 'gat' (did you mean gate?)"),
        ((), "say what to audit, for example 'tacit audit permute-and-flip': choose one of bits-asymmetric"),
        (("one-way-sensitivity", "--mutants"), "one-way-sensitivity is a mutant itself"),
        (("gate", "--epsilon", "0"), "epsilon must be above 0"),
        (("gate", "--delta", "0.5"), "delta must be in"),
        (("gate", "--confidence", "1"), "confidence must be in"),
    ],
)
def test_wrong_use_is_explained(arguments, message):
    result = run(*arguments)
    assert isinstance(result.exception, InvalidInput)
    assert message in str(result.exception)


def test_help_names_all_that_can_be_audited():
    text = " ".join(run("--help").output.replace("│", " ").split())
    for name in (*AUDITABLE, *MUTANTS):
        assert name in text


def test_a_narrow_screen_loses_no_column(monkeypatch):
    monkeypatch.setattr(console, "width", 40)
    result = CliRunner().invoke(app, ("subset-selection", "--samples", "1000"))
    assert result.exit_code == 0, result.output
    for said in ("mechanism: subset-selection", "claimed: ε = 1", "samples show: ε ≥ ", "samples: 1,000", "seconds: ",
                 "verdict: holds"):  # fmt: skip
        assert said in result.output
    assert "…" not in result.output


def test_the_protocol_tells_an_asker_nothing_beside_releases(monkeypatch):
    protocol = pytest.importorskip("tacit.audit.protocol", reason="needs tacit[federated]")
    monkeypatch.setattr(protocol, "_TIMED", 2)  # with the real pace: a shorter one is missed where the machine is busy
    result = run("protocol", "--questions", "2")
    assert result.exit_code == 0, result.output
    assert result.output.count("equal") == len(protocol.PROTOCOL_RUNS) * len(protocol.AUDITED_ACCOUNTS) + 1
    assert "DIFFERS" not in result.output


def test_a_reply_that_depends_on_a_record_fails_the_protocol(monkeypatch):
    protocol = pytest.importorskip("tacit.audit.protocol", reason="needs tacit[federated]")
    own = protocol.records()

    def telling(kind, ask, account, pair):
        return tuple(
            protocol.Seen((("answered", 9 + int((each.samples != own.samples).any())),), (("1", 1),)) for each in pair
        )

    monkeypatch.setattr(protocol, "compare", telling)
    monkeypatch.setattr(protocol, "_TIMED", 0)
    monkeypatch.setattr(protocol, "AUDITED_ACCOUNTS", {"replace-one": protocol.AuditedAccount()})
    result = run("protocol", "--questions", "12")
    assert result.exit_code == 1
    assert "DIFFERS" in result.output
    assert "differs: " in result.output
