"""One way to get a ledger, by its place; and a ledger that has the protocol's methods and no more pays as any other."""

import inspect
import re
from pathlib import Path

import pytest

import tacit
from tacit.core.account import Ceiling
from tacit.core.errors import BudgetExceeded, InvalidInput, LedgerError
from tacit.core.protocols import Ledger
from tacit.core.spend import Pure, Stability
from tacit.ledger import open_ledger, opened
from tacit.ledger.sqlite import SqliteLedger

POLICY = {"clinic": Ceiling(1)}
SOURCE = Path(tacit.__file__).parent
CONTRACT = [name for name, _ in inspect.getmembers(Ledger) if not name.startswith("_")]


class ProtocolOnly:
    """Whatever is not in the protocol is not there."""

    def __init__(self, ledger):
        self._inner = ledger

    def __getattr__(self, name):
        if name not in CONTRACT:
            raise AttributeError(f"{name} is not in the protocol")
        return getattr(self._inner, name)


def test_the_protocol_is_the_whole_contract():
    methods = "charge preflight privacy_unit balance accounts receipts stored_release store_release apply verify close"
    assert sorted(CONTRACT) == sorted([*methods.split(), "durable"])


@pytest.mark.parametrize("form", ["{}", "sqlite:{}", "sqlite:///{}"])
def test_a_file_has_three_names(tmp_path, monkeypatch, form):
    monkeypatch.chdir(tmp_path)
    for place in ("main.ledger", str(tmp_path / "main.ledger")):
        with opened(form.format(place), POLICY) as ledger:
            assert isinstance(ledger, SqliteLedger)
            assert ledger.path.absolute() == tmp_path / "main.ledger"
    with opened(Path("main.ledger")) as ledger:
        assert ledger.durable


def test_a_ledger_that_is_there_keeps_its_accounts(tmp_path):
    for policy in (POLICY, {"clinic": Ceiling(2)}, None):
        with opened(tmp_path / "main.ledger", policy) as ledger:
            assert ledger.accounts() == POLICY
    with pytest.raises(InvalidInput, match="there is no ledger at"):
        open_ledger(tmp_path / "other.ledger")


def test_a_colon_in_a_path_is_no_scheme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for place in ("run:1.ledger", Path("memory:"), "C:main.ledger"):
        open_ledger(place, POLICY).close()
    assert len(list(tmp_path.iterdir())) == 3
    with pytest.raises(InvalidInput, match="no ledger can be opened at mysql://here; known are memory:"):
        open_ledger("mysql://here", POLICY)


def test_a_ledger_in_memory_needs_its_policy():
    for place, policy in (("memory:", None), ("memory:this", POLICY), ("unlimited:", POLICY)):
        with pytest.raises(InvalidInput, match="policy"):
            open_ledger(place, policy)


def test_what_opened_got_is_not_its_to_close(tmp_path):
    with open_ledger(tmp_path / "main.ledger", POLICY) as ledger:
        with opened(ledger) as same:
            assert same is ledger
        assert ledger.verify() == []


def test_without_a_ceiling_everything_is_paid_once_and_stored():
    ledger = open_ledger("unlimited:")
    ledger.preflight("party 0", {"r-1": Stability(1), "r-2": Pure(10**12)})
    receipt = ledger.charge("party 0", Stability(1), "all records", "system", "r-1", "q")
    assert ledger.charge("party 0", Stability(1), "all records", "system", "r-1", "q") == receipt
    assert ledger.store_release(receipt, b"first") == ledger.store_release(receipt, b"second") == b"first"
    with pytest.raises(LedgerError, match="r-1"):
        open_ledger("unlimited:").stored_release(receipt)
    assert ledger.balance("party 0").payments == 1
    assert "without bound" in ledger.balance("party 0").in_words
    assert not ledger.durable


def test_nothing_but_the_ledger_itself_names_a_back_end():
    """But a mutant of the audit, which forgets what it stored, and a device, whose ledger is a file of its own."""
    naming = {
        str(file.relative_to(SOURCE))
        for file in SOURCE.rglob("*.py")
        if file.parent != SOURCE / "ledger" and re.search("(Sqlite|Postgres|Memory|Unlimited)Ledger", file.read_text())
    }
    assert naming == {"audit/mutants.py"}


def test_a_ledger_of_the_protocol_alone_is_asked_before_anything_is_paid():
    parts = tacit.digits()
    private = (parts.private_samples, parts.private_labels)
    options = {"classes": range(10), "seed": 1, "account": "clinic", "iterations": 2, "request": "r"}
    ledger = ProtocolOnly(open_ledger("memory:", {"clinic": Ceiling("0.7")}))
    with pytest.raises(BudgetExceeded, match="0 payments"):
        tacit.distill(private, parts.public_samples, 1.0, ledger=ledger, **options)
    assert ledger.balance("clinic").payments == 0
    run = tacit.distill(private, parts.public_samples, 0.7, ledger=ledger, **options)
    assert list(run.receipts) == ledger.receipts("clinic")
