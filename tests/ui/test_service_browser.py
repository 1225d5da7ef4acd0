"""The live view clicked through in real Chromium."""

import threading
import time

import pytest

import tacit
from tacit.core.account import Ceiling
from tacit.ledger.sqlite import SqliteLedger
from tacit.runs.progress import watched_run
from tests.browser import MISSING, wait

service = pytest.importorskip("tacit.ui.service", reason="tacit[ui] is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="tacit[ui] is not installed")
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)
PARTS = tacit.digits()
TOKEN = "a-token-for-this-test"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    with SqliteLedger.create(folder / "main.ledger", {"clinic": Ceiling(3)}) as ledger:
        tacit.distill(
            (PARTS.private_samples, PARTS.private_labels), PARTS.public_samples, 1.0, classes=range(10), ledger=ledger,
            account="clinic",
        ).save(folder / "first-run")  # fmt: skip
    with service.listening(0) as opened:
        port = opened.getsockname()[1]
        server = uvicorn.Server(
            uvicorn.Config(service.make_app(folder, port, TOKEN), log_level="error", lifespan="off", ws="none")
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield folder, f"http://127.0.0.1:{port}"
        server.should_exit = True
        thread.join(timeout=30)


def test_it_is_clicked_through(browser, served):
    folder, home = served
    browser.open(f"{home}/")
    assert browser.text() == "Forbidden"
    assert "first-run" not in browser.driver.page_source
    browser.complaints()
    browser.open(f"{home}/?token={TOKEN}")
    assert browser.driver.current_url.startswith(f"{home}/")
    assert TOKEN not in browser.driver.current_url
    assert browser.seen("#runs table")
    assert browser.seen("#ledgers svg")
    assert "No job is running" in browser.text("#jobs")
    # A job that begins shows up by itself, moves on, and goes.
    with watched_run(folder / "second-run", "privatekt", 10) as progress:
        progress.stage("counting votes")
        progress.round(3)
        wait(lambda: "round 3 of 10" in browser.text("#jobs"))
        progress.round(7)
        wait(lambda: "round 7 of 10" in browser.text("#jobs"))
        assert browser.seen("#jobs progress")
    wait(lambda: "No job is running" in browser.text("#jobs"))
    browser.one("#runs a").click()
    wait(lambda: "What this run reveals about private records" in browser.text("h1"))
    assert browser.seen("#privacy .statement")
    browser.driver.back()
    browser.one("#ledgers a").click()
    wait(lambda: browser.text("h1") == "main.ledger")
    assert browser.seen("#account-1 svg.chart")
    browser.driver.back()
    browser.one("nav.menu a[href$='plan']").click()
    browser.fill("#records", "60000")
    # Without it neither a shuffler's noise nor PATE's is solved for, which takes seconds.
    browser.fill("#delta", "0")
    browser.one("button").click()
    wait(lambda: "What to expect" in browser.text("main"), 180)
    assert browser.seen("svg.chart")
    assert "90 % interval" in browser.text("table")
    browser.fill("#epsilon", "none")
    browser.one("button").click()
    assert "epsilon: must be a number" in browser.one("[role=alert]").text
    assert browser.complaints() == []
    assert browser.asked() - {"data"} == {home.removeprefix("http://")}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_schemes_fit_their_window(browser, served, scheme):
    _, home = served
    browser.open(f"{home}/?token={TOKEN}", scheme)
    assert browser.background() > 0.9 if scheme == "light" else browser.background() < 0.2
    assert browser.overflow() == 0
    browser.complaints()
