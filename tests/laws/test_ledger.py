"""What every ledger promises, whatever it is made of."""

import os
import sys
import tempfile
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.compose import total
from tacit.core.account import Ceiling, Rule
from tacit.core.errors import BudgetExceeded, InvalidInput, LedgerError, LimitExceeded, RequestConflict
from tacit.core.guarantee import Adjacency, Unit
from tacit.core.protocols import Ledger
from tacit.core.spend import FREE, Approximate, Composed, DiscreteGaussian, Gaussian, Pure, Repeated, Stability
from tacit.ledger import open_ledger
from tacit.ledger.account import PolicyLimits
from tacit.ledger.heads import Heads
from tacit.ledger.verify import verify
from tests.example_package.installed import FOLDER, describe
from tests.postgres import needs_postgres, shared_server

# Closing a connection ends nothing that a disk would have to survive, so files in memory do, where there are any.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Memory:
    """A ledger in memory; it cannot crash, so a crash leaves it as it is."""

    def __init__(self, **policy):
        self.ledger = open_ledger("memory:", policy)

    def crash(self):
        pass

    def close(self):
        pass


class Durable:
    """A ledger in a file, which a crash closes without a word and a new process opens again."""

    def __init__(self, **policy):
        self._folder = tempfile.TemporaryDirectory(dir=MEMORY)
        self.path = Path(self._folder.name) / "main.ledger"
        self.ledger = open_ledger(self.path, policy)

    def crash(self):
        self.ledger.close()
        self.ledger = open_ledger(f"sqlite:///{self.path}")

    def close(self):
        assert self.ledger.verify() == []
        self.ledger.close()
        assert verify(self.path) == []
        self._folder.cleanup()


class Installed:
    """A ledger of a package that is not Tacit's, found by its entry point."""

    def __init__(self, **policy):
        self._folder = tempfile.TemporaryDirectory(dir=MEMORY)
        self.place = f"jsonl:{self._folder.name}/site.jsonl"
        with example_installed():
            self.ledger = open_ledger(self.place, policy)

    def crash(self):
        self.ledger.close()
        with example_installed():
            self.ledger = open_ledger(self.place)

    def close(self):
        assert self.ledger.verify() == []
        self.ledger.close()
        self._folder.cleanup()


@contextmanager
def example_installed():
    """As if the example package of the tests were installed: the names of its parts are in its metadata."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        describe(Path(folder))
        places = [folder, str(FOLDER)]
        sys.path[:0] = places
        try:
            yield
        finally:
            for place in places:
                sys.path.remove(place)


class Served:
    """A ledger on a PostgreSQL server, whose connection a crash ends. Databases are used again, their heads are not."""

    _free: ClassVar[list[str]] = []

    def __init__(self, **policy):
        server = shared_server()
        self._database = self._free.pop() if self._free else server.database()
        self.url = server.url(self._database)
        self.ledger = open_ledger(self.url, policy)

    def crash(self):
        # No word to the server: it sees the end of the connection, as after a kill.
        os.close(os.dup2(os.open(os.devnull, os.O_RDWR), self.ledger._store.connection.fileno()))
        self.ledger.close()
        self.ledger = open_ledger(self.url)

    def close(self):
        assert self.ledger.verify() == []
        assert verify(self.url) == []
        Heads().file(self.ledger._memory.ledger).unlink(missing_ok=True)
        self.ledger._store.execute("DROP SCHEMA tacit CASCADE")
        self.ledger.close()
        self._free.append(self._database)


KINDS = [Memory, Durable, Installed, pytest.param(Served, marks=needs_postgres)]
QUICK = KINDS[:-1]


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def house(kind):
    house = kind(clinic=Ceiling(1), other=Ceiling(1, "1e-6"))
    yield house
    house.close()


@pytest.fixture
def ledger(house) -> Ledger:
    return house.ledger


def pay(ledger, request, spend="0.1", account="clinic", purpose="labels", randomness="system", question="c0ffee"):
    spend = Pure(spend) if isinstance(spend, str) else spend
    return ledger.charge(account, spend, purpose, randomness, request, question)


def test_ten_tenths_fit_exactly_and_the_eleventh_is_refused(ledger):
    for number in range(10):
        pay(ledger, f"r-{number}")
    assert ledger.balance("clinic").spent.epsilon == 1
    with pytest.raises(BudgetExceeded, match=r"would reach epsilon 1\.1 by pure composition.*epsilon 0 remains"):
        pay(ledger, "r-10")
    assert ledger.balance("clinic").payments == 10


@pytest.mark.parametrize("least", ["1/1000", "1e-9", "1e-30", "1e-300"])
def test_at_the_ceiling_not_even_the_least_amount_fits(kind, least):
    """A ceiling is exact: a thousandth of slack, or a billionth, is a thousandth too much."""
    for ceiling in (Ceiling("22/7"), Ceiling("22/7", rule=Rule.PLANNED)):
        house = kind(clinic=ceiling)
        pay(house.ledger, "r-1", "15/7")
        pay(house.ledger, "r-2", "1")
        assert house.ledger.balance("clinic").remaining == 0
        with pytest.raises(BudgetExceeded):
            pay(house.ledger, "r-3", least)
        house.crash()
        with pytest.raises(BudgetExceeded):
            pay(house.ledger, "r-3", least)
        house.close()


@pytest.mark.parametrize("rule", list(Rule))
def test_a_ceiling_with_noise_is_exact_too(kind, rule):
    delta = Fraction(1, 10**6)
    reached = total([Gaussian(20)] * 3, delta, rule).epsilon
    for ceiling, fits in ((reached, True), (reached - Fraction(1, 10**9), False)):
        house = kind(clinic=Ceiling(ceiling, delta, rule))
        for number in range(2):
            pay(house.ledger, f"r-{number}", Gaussian(20))
        if fits:
            pay(house.ledger, "r-2", Gaussian(20))
        else:
            with pytest.raises(BudgetExceeded):
                pay(house.ledger, "r-2", Gaussian(20))
        house.close()


def test_the_refusal_names_what_remains_and_costs_nothing(ledger):
    pay(ledger, "r-1", "0.7")
    with pytest.raises(BudgetExceeded, match=r"spent epsilon 0\.7 of 1 .*epsilon 0\.3 remains. Nothing was charged"):
        pay(ledger, "r-2", "0.4")
    # The refused request left no trace: it can be asked for less.
    pay(ledger, "r-2", "0.3")


def test_a_receipt_says_what_was_paid(ledger):
    receipt = pay(ledger, "r-1", randomness="seeded")
    assert (receipt.account, receipt.request, receipt.purpose) == ("clinic", "r-1", "labels")
    assert receipt.spend == Pure("1/10")
    assert receipt.simulated
    assert len(receipt.digest) == 64
    assert pay(ledger, "r-2").sequence > receipt.sequence


def test_a_replay_pays_once_and_returns_the_first_receipt(house):
    first = pay(house.ledger, "r-1", "1")
    house.crash()
    assert pay(house.ledger, "r-1", "1") == first
    assert house.ledger.balance("clinic").payments == 1


def test_the_first_release_that_is_kept_wins_for_ever(house):
    receipt = pay(house.ledger, "r-1")
    assert house.ledger.stored_release(receipt) is None
    assert house.ledger.store_release(receipt, b"first") == b"first"
    house.crash()
    assert house.ledger.store_release(receipt, b"second") == b"first"
    assert house.ledger.stored_release(receipt) == b"first"


def test_an_empty_release_is_a_release(ledger):
    receipt = pay(ledger, "r-1")
    assert ledger.store_release(receipt, b"") == b""
    assert ledger.store_release(receipt, b"second") == b""


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("spend", "0.2"),
        ("spend", Repeated(Pure("0.05"), 2)),
        ("purpose", "counts"),
        ("question", "decaf"),
        ("randomness", "seeded"),
    ],
)
def test_a_request_id_never_stands_for_two_questions(ledger, part, other):
    pay(ledger, "r-1")
    with pytest.raises(RequestConflict, match=rf"'r-1'.*{part} was .* and is now .*Nothing was charged"):
        pay(ledger, "r-1", **{part: other})
    assert ledger.balance("clinic").payments == 1


def test_accounts_are_apart(ledger):
    pay(ledger, "r-1", "1")
    assert pay(ledger, "r-1", "1", account="other").account == "other"
    with pytest.raises(BudgetExceeded):
        pay(ledger, "r-2", account="clinic")


def test_an_unknown_account_is_named_with_the_known_ones(ledger):
    for ask in (lambda: pay(ledger, "r-1", account="hospital"), lambda: ledger.balance("hospital")):
        with pytest.raises(InvalidInput, match="account must be one of clinic, other, got 'hospital'"):
            ask()


@pytest.mark.parametrize("part", ["account", "request", "purpose", "randomness", "question"])
@pytest.mark.parametrize("value", ["", "two\nlines", "nul\0", "\ud800", None])
def test_text_must_be_printable(ledger, part, value):
    with pytest.raises(InvalidInput, match=part):
        pay(ledger, **{"request": "r-1", part: value})


def test_a_receipt_of_another_ledger_buys_nothing(kind, ledger):
    stranger = kind(clinic=Ceiling(1))
    receipt = pay(stranger.ledger, "r-1")
    with pytest.raises(LedgerError, match="r-1"):
        ledger.store_release(receipt, b"payload")
    pay(ledger, "r-1")
    with pytest.raises(LedgerError, match="r-1"):
        ledger.stored_release(receipt)
    stranger.close()


def test_without_delta_a_gaussian_is_refused_and_with_delta_composed(ledger):
    with pytest.raises(BudgetExceeded, match="no accountant bounds its total at delta 0"):
        pay(ledger, "r-1", Gaussian(20))
    pay(ledger, "r-1", Gaussian(20), account="other")
    balance = ledger.balance("other")
    assert 0 < balance.spent.epsilon < 1
    assert balance.spent.accountant in balance.in_words


def test_free_spends_are_paid_with_nothing(ledger):
    pay(ledger, "r-1", "1")
    assert pay(ledger, "r-2", FREE).spend == FREE
    assert ledger.balance("clinic").spent.epsilon == 1


def test_a_preflight_refuses_what_charges_would_and_counts_what_is_paid_once(house):
    ledger = house.ledger
    ledger.preflight("clinic", {"r-1": Pure("0.5"), "r-2": Pure("0.5")})
    with pytest.raises(BudgetExceeded, match=r"would reach epsilon 1\.1 .*0 payments.*Nothing was charged"):
        ledger.preflight("clinic", {"r-1": Pure("0.5"), "r-2": Pure("0.6")})
    pay(ledger, "r-1", "0.5")
    house.crash()
    house.ledger.preflight("clinic", {"r-1": Pure("0.5"), "r-2": Pure("0.5")})
    with pytest.raises(BudgetExceeded, match="1 payment"):
        house.ledger.preflight("clinic", {"r-2": Pure("0.6")})
    assert house.ledger.balance("clinic").payments == 1, "looking ahead pays nothing"
    with pytest.raises(InvalidInput, match="account must be one of clinic, other, got 'hospital'"):
        house.ledger.preflight("hospital", {})


def test_accounts_and_receipts_are_listed_in_order(house):
    paid = [pay(house.ledger, f"r-{number}") for number in range(3)]
    pay(house.ledger, "r-1", account="other")
    house.crash()
    assert list(house.ledger.accounts()) == ["clinic", "other"]
    assert list(house.ledger.receipts("clinic")) == paid
    assert house.ledger.durable == (type(house) is not Memory)


def test_an_account_protects_what_its_ceiling_says(kind):
    person = Unit.person("patient", 3)
    house = kind(clinic=Ceiling(1, unit=person, adjacency=Adjacency.ADD_REMOVE), other=Ceiling(1))
    house.crash()
    assert house.ledger.privacy_unit("clinic") == (person, Adjacency.ADD_REMOVE)
    assert house.ledger.privacy_unit("other") == (Unit(), Adjacency.REPLACE_ONE)
    house.close()


def test_limits_are_kept_beside_the_ceiling(house):
    for number in range(2):
        house.ledger.charge("clinic", Pure("0.1"), "labels", "system", f"r-{number}", "q", PolicyLimits(questions=2))
    house.crash()
    with pytest.raises(LimitExceeded, match="2 questions per day"):
        house.ledger.charge("clinic", Pure("0.1"), "labels", "system", "r-2", "q", PolicyLimits(questions=2))
    assert house.ledger.balance("clinic").payments == 2


def test_a_policy_is_changed_whole_or_not_at_all(house):
    pay(house.ledger, "r-1", "0.9")
    pay(house.ledger, "r-1", Gaussian(50), account="other")
    with pytest.raises(InvalidInput, match="account 'other' cannot be raised"):
        house.ledger.apply({"new": Ceiling(1), "clinic": Ceiling(2), "other": Ceiling(2, "1e-6")})
    assert list(house.ledger.accounts()) == ["clinic", "other"]
    assert house.ledger.balance("clinic").remaining == Fraction(1, 10)
    house.ledger.apply({"clinic": Ceiling(2), "other": Ceiling(1, "1e-6")})
    house.crash()
    assert house.ledger.balance("clinic").remaining == Fraction(11, 10)


AMOUNTS = st.sampled_from(["1/7", "0.1", "0.2", "1/3", "0.5", "1"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("charge"), st.integers(0, 5), AMOUNTS),
        st.tuples(st.just("release"), st.integers(0, 5), AMOUNTS),
        st.tuples(st.just("crash"), st.just(0), st.just("0")),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, ceiling=st.sampled_from(["1", "4/3", "0.3", "22/7"]))
@pytest.mark.parametrize("kind", QUICK)
def test_no_sequence_of_charges_retries_and_crashes_passes_the_ceiling(kind, steps, ceiling):
    require_ceiling(kind, steps, ceiling)


@settings(max_examples=10, deadline=None)
@given(steps=STEPS, ceiling=st.sampled_from(["1", "4/3", "0.3", "22/7"]))
@needs_postgres
def test_no_sequence_passes_the_ceiling_on_a_server(steps, ceiling):
    require_ceiling(Served, steps, ceiling)


def require_ceiling(kind, steps, ceiling):
    house = kind(clinic=Ceiling(ceiling))
    paid, kept = {}, {}
    spent = Fraction(0)
    for number, (step, request, amount) in enumerate(steps):
        if step == "crash":
            house.crash()
            continue
        fits = spent + Fraction(amount) <= Fraction(ceiling)
        try:
            receipt = pay(house.ledger, f"r-{request}", amount)
        except BudgetExceeded:
            assert request not in paid
            assert not fits
            continue
        except RequestConflict:
            assert paid[request] != amount
            continue
        assert paid.setdefault(request, amount) == amount
        if step == "release":
            payload = str(number).encode()
            assert house.ledger.store_release(receipt, payload) == kept.setdefault(request, payload)
        assert house.ledger.stored_release(receipt) == kept.get(request)
        after = house.ledger.balance("clinic").spent.epsilon
        assert after == sum(map(Fraction, paid.values()))
        assert spent <= after <= Fraction(ceiling)
        spent = after
    house.close()


SPENDS = st.sampled_from(
    [
        Pure("1/50"),
        Pure("1/9"),
        Gaussian(12),
        Gaussian(30),
        DiscreteGaussian(15, 2, True),
        Approximate("1/20", "1e-8"),
        Stability("1e-7"),
        Composed(Pure("1/100"), Gaussian(40)),
        Repeated(Gaussian(60), 4),
        FREE,
    ]
)


@settings(max_examples=25, deadline=None)
@given(spends=st.lists(SPENDS, max_size=12), rule=st.sampled_from([Rule.ADAPTIVE, Rule.PLANNED]))
@pytest.mark.parametrize("kind", QUICK)
def test_a_charge_is_allowed_exactly_when_the_accountant_says_so(kind, spends, rule):
    """However payments are grouped and remembered, the answer is that of composing every one of them anew."""
    require_composed(kind, spends, rule)


@settings(max_examples=5, deadline=None)
@given(spends=st.lists(SPENDS, max_size=12), rule=st.sampled_from([Rule.ADAPTIVE, Rule.PLANNED]))
@needs_postgres
def test_a_charge_is_allowed_exactly_when_the_accountant_says_so_on_a_server(spends, rule):
    require_composed(Served, spends, rule)


def require_composed(kind, spends, rule):
    ceiling = Ceiling("0.8", "1e-6", rule)
    house = kind(clinic=ceiling)
    paid = []
    before = 0
    for number, spend in enumerate(spends):
        allowed = total([*paid, spend], ceiling.delta, rule).epsilon <= ceiling.epsilon
        try:
            pay(house.ledger, f"r-{number}", spend)
        except BudgetExceeded:
            assert not allowed
        else:
            assert allowed
            paid.append(spend)
        if number % 5 == 4:
            house.crash()
        spent = house.ledger.balance("clinic").spent
        assert spent == total(paid, ceiling.delta, rule)
        assert before <= spent.epsilon <= ceiling.epsilon
        before = spent.epsilon
    house.close()
