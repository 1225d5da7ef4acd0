"""The report in real Chromium: its parts are there and visible, it complains of nothing and asks nobody."""

import numpy as np
import pytest

import tacit
from tacit.core.account import Ceiling
from tacit.ledger.sqlite import SqliteLedger
from tacit.report.budget import ledger_page, read_book
from tacit.report.measured import measure
from tacit.report.page import report_page
from tacit.runs.folders import read_record
from tests.browser import MISSING

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)
PARTS = tacit.digits()
# No public sample has such a number.
SECRET = 8191.25


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    private = PARTS.private_samples.copy()
    private[7] = SECRET
    with SqliteLedger.create(folder / "main.ledger", {"clinic": Ceiling(3)}) as ledger:
        run = tacit.distill(
            (private, PARTS.private_labels), PARTS.public_samples, 1.0, classes=range(10), labels="soft", iterations=2,
             ledger=ledger, account="clinic", student="logistic",
        )  # fmt: skip
    run.save(folder / "run")
    tested = measure(run.student, PARTS.test_samples, PARTS.test_labels.tolist(), np.arange(10), "test.csv")
    book = read_book(folder / "main.ledger")
    (folder / "run.html").write_text(report_page(read_record(folder / "run"), tested, book))
    (folder / "ledger.html").write_text(ledger_page(book))
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_part_of_a_run_is_visible_and_nobody_is_asked(browser, pages, scheme):
    browser.open((pages / "run.html").as_uri(), scheme)
    parts = ["privacy", "budget", "chosen", "labels", "certainty", "test", "queries", "released", "timing", "made"]
    assert [each.get_attribute("id") for each in browser.find("section")] == parts
    assert all(browser.seen(f"#{name}") for name in parts)
    assert browser.seen("section svg.chart")
    # A table beside every chart.
    assert all(len(each.find_elements("css selector", "table")) == 1 for each in browser.find(".pair"))
    # Times below a second have no chart.
    assert len(browser.find(".pair")) == 6 + len(browser.find("#timing .pair"))
    first = browser.find("main section")[0]
    assert "Differential privacy: epsilon = 1" in first.text
    assert browser.find(".statement")[0].location["y"] < 700
    assert browser.background() > 0.9 if scheme == "light" else browser.background() < 0.2
    assert browser.overflow() == 0
    assert browser.complaints() == []
    assert browser.asked() == {"file"}
    assert str(SECRET)[:4] not in browser.driver.page_source


def test_a_narrow_window_is_not_wider_than_itself(browser, pages):
    browser.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    )
    try:
        browser.open((pages / "run.html").as_uri())
        assert browser.overflow() == 0
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_on_paper_it_is_dark_on_light_without_the_menu(browser, pages):
    browser.open((pages / "run.html").as_uri(), "dark", "print")
    assert browser.background() > 0.9
    assert not browser.find("nav")[0].is_displayed()
    assert browser.seen("#privacy")
    printed = browser.pdf()
    assert printed.startswith(b"%PDF")
    assert 2 <= printed.count(b"/Type /Page\n") <= 12


def test_a_ledger_is_visible_too(browser, pages):
    browser.open((pages / "ledger.html").as_uri())
    assert browser.seen("#accounts table")
    assert browser.seen("#account-1 svg.chart")
    assert "clinic" in browser.text("#accounts")
    assert browser.complaints() == []
    assert browser.asked() == {"file"}
