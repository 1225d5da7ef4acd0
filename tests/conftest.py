"""The suite's false-positive budget: what all statistical tests together may fail by chance."""

import signal

import pytest
from hypothesis import settings

BUDGET = 1e-6

# A slow or busy machine is not a failing law.
settings.register_profile("tacit", deadline=None)
settings.load_profile("tacit")


def pytest_collection_modifyitems(items):
    rates = {}
    for item in items:
        for mark in item.iter_markers("statistical"):
            if not 0 < mark.kwargs.get("rate", 0) < 1:
                raise pytest.UsageError(f"{item.nodeid}: a statistical test declares its false-positive rate")
            rates[item.nodeid] = mark.kwargs["rate"]
    if sum(rates.values()) > BUDGET:
        worst = sorted(rates, key=rates.get, reverse=True)[:5]
        raise pytest.UsageError(f"statistical tests may fail by chance with {sum(rates.values()):.2g}: {worst}")


def pytest_report_header():
    return f"statistical tests share a false-positive budget of {BUDGET:g}"


@pytest.fixture(autouse=True, scope="session")
def heard_signals():
    """Under nohup, or behind ``&``, a suite ignores signals, and so would every process that its tests interrupt.

    A handler is not inherited as an ignored signal is: the suite goes on ignoring it, and what it starts does not.
    """
    ignored = [each for each in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(each) is signal.SIG_IGN]
    for each in ignored:
        signal.signal(each, lambda *_: None)
    yield
    for each in ignored:
        signal.signal(each, signal.SIG_IGN)


@pytest.fixture(autouse=True)
def brief_networks(monkeypatch):
    """The default's networks for images are trained for one epoch; what is returned makes the whole ones."""
    from tacit.methods.auto import teaching

    made = teaching.image_network
    monkeypatch.setattr(teaching, "image_network", lambda *given: made(*given).set_params(epochs=1))
    return made


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """One Chromium for all tests of a process."""
    from tests.browser import Browser

    opened = Browser.start(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture
def browser(chromium):
    """Chromium with an empty page, which has complained of nothing and asked nobody yet."""
    chromium.open("about:blank")
    chromium.complaints()
    chromium.asked()
    yield chromium
    chromium.open("about:blank")


@pytest.fixture(scope="session")
def postgres():
    """One PostgreSQL server for all tests of a process; it ends with the session."""
    from tests.postgres import shared_server

    return shared_server()


@pytest.fixture
def ledger_database(postgres):
    """The name of an empty database for one test."""
    name = postgres.database()
    yield name
    postgres.drop(name)


def pytest_unconfigure():
    from tests.postgres import close_shared_server

    close_shared_server()
