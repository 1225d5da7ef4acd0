"""The page of a run: all parts are there and visible, it asks nothing of any other place, and it shows no record."""

import html
import json
import re
import shutil
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.cli import main
from tacit.core.account import Ceiling
from tacit.core.errors import InvalidInput
from tacit.ledger.sqlite import SqliteLedger
from tacit.report.budget import read_book, require_payer, running_totals
from tacit.report.card import statement
from tacit.report.exports import nist_answers
from tacit.report.measured import measure
from tacit.report.page import _numbers, odds_bound, report_page
from tacit.runs.folders import read_record

PARTS = tacit.digits()
DIGITS = (PARTS.private_samples, PARTS.private_labels)
SECTIONS = ["privacy", "budget", "chosen", "labels", "certainty", "queries", "released", "timing", "made"]
EMPTY = {"meta", "img", "br"}


class Reader(HTMLParser):
    """Elements in order, whether each is closed, and the text of the page."""

    def __init__(self, page):
        super().__init__()
        self.open, self.seen, self.text = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.text.append(data)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    tacit.distill(DIGITS, PARTS.public_samples, 1.0, classes=range(10)).save(folder / "hard")
    tacit.distill(DIGITS, PARTS.public_samples, 1.0, delta=1e-6, classes=range(10), labels="soft",
                  mechanism="gaussian").save(folder / "soft")  # fmt: skip
    tacit.distill(DIGITS, PARTS.public_samples, 1.0, classes=range(10), seed=1).save(folder / "simulated")
    tacit.distill(DIGITS, PARTS.public_samples, 20.0, classes=range(10), method="pate", queries=5).save(folder / "pate")
    sets = np.stack([PARTS.private_labels % 2, PARTS.private_labels // 5], axis=1)
    tacit.distill((PARTS.private_samples, sets), PARTS.public_samples, 2.0, max_labels=2).save(folder / "sets")
    return folder


@pytest.mark.parametrize("name", ["hard", "soft", "simulated", "pate", "sets"])
def test_every_part_is_there_and_nothing_is_asked_of_another_place(runs, name):
    page = report_page(read_record(runs / name))
    read = Reader(page)
    assert not read.open
    assert [each["id"] for tag, each in read.seen if tag == "section"] == SECTIONS
    assert "default-src 'none'" in page
    for tag, attributes in read.seen:
        assert tag not in ("link", "iframe", "object", "form", "base")
        assert attributes.get("src", "data:").startswith("data:")
        assert attributes.get("href", "#").startswith("#")
        assert not any(each.startswith("on") for each in attributes)
    assert not re.search(r"https?://|@import|url\(|<script(?! type=.application/json)", page)
    said = json.loads(re.search(r'<script type="application/json" id="statement">(.*?)</script>', page, re.DOTALL)[1])
    assert said["format"] == "tacit run statement 1"
    text = " ".join(read.text)
    assert text.index("The privacy statement") < text.index("What was chosen")
    for line in str(tacit.load(runs / name).guarantee).splitlines():
        assert line in text


def test_what_epsilon_means_is_bayes():
    for prior in (0.001, 0.3, 0.9):
        for epsilon in (0.0, 0.5, 4.0):
            likely = np.exp(epsilon) * prior
            assert odds_bound(prior, epsilon) == pytest.approx(likely / (likely + 1 - prior))
    assert odds_bound(0.01, 5000) == 1


def test_a_simulation_says_so_before_any_number(runs):
    text = " ".join(Reader(report_page(read_record(runs / "simulated"))).text)
    assert text.index("SIMULATION") < text.index("epsilon")
    assert "None of this holds here" in text
    assert "do not publish this page" in text
    assert "may be published" not in text
    assert "None of this holds here" not in " ".join(Reader(report_page(read_record(runs / "hard"))).text)


def test_a_folder_with_figures_that_are_not_private_is_not_called_fit_to_publish(runs, tmp_path):
    shutil.copytree(runs / "hard", tmp_path / "told")
    record = json.loads((tmp_path / "told/run.json").read_text())
    record["metrics"] = {"not private": {"accuracy": [0.971234]}}
    (tmp_path / "told/run.json").write_text(json.dumps(record))
    page = report_page(read_record(tmp_path / "told"))
    assert "run.json may not" in page
    assert "0.971234" not in page


def test_certainty_adds_up(runs):
    text = " ".join(Reader(report_page(read_record(runs / "soft"))).text)
    sure = tacit.load(runs / "soft").probabilities.max(axis=1)
    assert f"{int((sure < 0.5).sum())} are less certain than one half" in text
    assert "This is for δ = 0; with δ = 1e-06 the probability of any outcome may differ by δ more" in text


def test_released_votes_are_shown_and_not_denied(tmp_path):
    tacit.distill(
        DIGITS, PARTS.public_samples, 8.0, delta=1e-6, classes=range(10), method="private_knn", queries=12, neighbors=9
    ).save(tmp_path / "run")
    text = " ".join(Reader(report_page(read_record(tmp_path / "run"))).text)
    assert "These votes were released with noise" in text
    assert not re.search("no counts left the gate|[Oo]nly labels were released", text)


def test_names_of_classes_are_text_and_not_markup(tmp_path):
    evil = "<script>alert(1)</script>"
    labels = np.where(PARTS.private_labels > 4, evil, "</script><b>")
    tacit.distill((PARTS.private_samples, labels), PARTS.public_samples, 1.0, classes=[evil, "</script><b>"]).save(
        tmp_path / "run"
    )
    page = report_page(read_record(tmp_path / "run"))
    assert "<script>alert" not in page
    assert page.count("</script>") == 1
    Reader(page)


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(each) for each in arguments])
    return stopped.value.code


def test_the_command_writes_the_page(runs, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(runs / "hard", "run")
    assert run("report", "run") == 0
    assert Path("run/report.html").read_text() == report_page(read_record("run"))
    assert run("report", "run", "--out", "page.html") == 0
    for wrong, said in (
        (("report", "rum"), "did you mean run?"),
        (("report", "run", "--out", "page.html"), "exists already"),
        (("report", "run", "--out", "page.pdf"), "written as .html"),
        (("report", "run", "--out", "no/page.html"), "no such folder"),
        (("report", "x" * 5000), "not a run folder"),
    ):
        capsys.readouterr()
        assert run(*wrong) == 2
        told = capsys.readouterr().err
        assert said in told
        assert "x" * 81 not in told


def test_released_counts_are_those_of_the_run_and_come_with_the_scale_of_their_noise(runs):
    record = read_record(runs / "soft")
    counts, noise = record.arrays()["counts"], record.written["recipe"]["noise"]
    text = " ".join(Reader(report_page(record)).text)
    assert f"The noise on each of them: {noise}." in text
    assert re.fullmatch(r"Gaussian, scale [\d.]+, standard deviation [\d.]+", noise)
    sigma = record.written["receipts"][0]["spend"]["sigma"]
    assert float(noise.split()[2].rstrip(",")) == pytest.approx(float(Fraction(sigma)), rel=0.01)
    # Each row as it was released, in its place.
    for place, row in enumerate(counts.tolist()):
        assert " ".join(map(str, (place, *row))) in text
    assert "Labels or probabilities alone were released" in report_page(read_record(runs / "hard"))


def test_hard_labels_are_as_certain_as_the_student_holds_them(runs):
    saved = tacit.load(runs / "hard")
    chances = saved.student.predict_proba(PARTS.public_samples)
    place = {name: column for column, name in enumerate(saved.student.classes_.tolist())}
    wanted = [chances[row, place[label]] for row, label in enumerate(saved.labels.tolist())]
    np.testing.assert_allclose(saved.arrays["certainty"], wanted)
    page = report_page(read_record(runs / "hard"))
    assert f"{sum(each < 0.5 for each in wanted)} are less certain than one half" in page
    assert page.count("class='doubt'") == 5


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ({"method": "auto", "chosen": "votes"}, "Counts of votes with noise"),
        ({"method": "auto", "chosen": "votes, then sums"}, "Counts of votes and sums with noise"),
        ({"method": "auto", "chosen": "sums, then a mixture of public samples"}, "Sums with noise"),
        ({"method": "class_sums"}, "Sums with noise"),
        ({"method": "rknn"}, "Labels or probabilities alone were released"),
    ],
)
def test_what_was_released_is_named(recipe, said):
    assert said in _numbers(recipe, {})


def test_what_a_test_part_says_is_marked_as_computed_in_the_clear(runs):
    saved = tacit.load(runs / "hard")
    found = measure(saved.student, PARTS.test_samples, PARTS.test_labels.tolist(), saved.classes, "digits.csv")
    said = saved.student.predict(PARTS.test_samples)
    assert found.accuracy == pytest.approx((said == PARTS.test_labels).mean())
    for true in range(10):
        for guess in range(10):
            assert found.confusion[true][guess] == int(((PARTS.test_labels == true) & (said == guess)).sum())
    assert sum(count for _, _, count in found.bins) == found.samples == 297
    assert 0 <= found.calibration_error < 0.5
    page = report_page(read_record(runs / "hard"), found)
    text = " ".join(Reader(page).text)
    assert "without noise" in text
    assert "Publish this page only if the test samples are public" in text
    assert "may be published with the run" not in text
    assert f"{found.accuracy:.1%}" in text
    assert "Reliability diagram:" in text
    with pytest.raises(InvalidInput, match="not classes of the run"):
        measure(saved.student, PARTS.test_samples[:1], ["x"], saved.classes, "digits.csv")


def test_the_budget_of_a_run_is_what_its_receipts_add_up_to(tmp_path):
    ledger = SqliteLedger.create(tmp_path / "main.ledger", {"clinic": Ceiling(3)})
    with ledger:
        tacit.distill(
            DIGITS, PARTS.public_samples, 1.0, classes=range(10), iterations=2, ledger=ledger, account="clinic"
        ).save(tmp_path / "run")
    record = read_record(tmp_path / "run")
    text = " ".join(Reader(report_page(record, None, read_book(tmp_path / "main.ledger"))).text)
    spent = running_totals([each.spend for each in record.receipts], Fraction(0), planned=True)
    assert [place for place, _ in spent] == [1, 2]
    assert spent[-1][1] == pytest.approx(1)
    assert "This run spent ε = 1 at δ = 0, by pure composition, of account “clinic”." in text
    # With the ledger, when each was paid.
    when = r"20\d\d-\d\d-\d\d \d\d:\d\d"
    assert re.search(f"1 {spent[0][1]:.6g} {when} 2 {spent[1][1]:.6g} {when}", text)
    assert "ceiling 3" in text
    other = SqliteLedger.create(tmp_path / "other.ledger", {"clinic": Ceiling(3)})
    other.close()
    with pytest.raises(InvalidInput, match="did not pay for this run"):
        require_payer(read_book(tmp_path / "other.ledger"), record)
    assert "What is left now" in text
    assert "2 What is left" not in " ".join(Reader(report_page(record)).text)


def test_queries_of_a_mixed_table_are_said_in_words_and_no_private_cell_is_anywhere(tmp_path):
    random = np.random.default_rng(0)
    kind = [("age", "f8"), ("town", "U12"), ("state", "U4")]

    def rows(count, town):
        ill = random.random(count) < 0.5
        ages = np.where(ill, 70, 30) + random.integers(0, 5, count)
        return np.array([(age, town, "ill" if each else "well") for age, each in zip(ages, ill, strict=True)], kind)

    private, public = rows(400, "Hidden"), rows(200, "Open")
    private["town"][7] = "Confidential"
    tacit.distill(
        private, public[["age", "town"]], 2.0, label="state", classes=["ill", "well"], method="rknn", queries=4
    ).save(tmp_path / "run")
    page = report_page(read_record(tmp_path / "run"))
    assert "one of them" in page
    assert re.search(r"<td>age \d+, town Open</td>", page)
    written = b"".join(each.read_bytes() for each in (tmp_path / "run").iterdir()) + page.encode()
    assert b"Confidential" not in written
    assert b"Hidden" not in written


def test_what_class_sums_released_is_not_called_labels_alone(tmp_path):
    random = np.random.default_rng(0)
    labels = np.arange(120) % 2
    samples = random.normal(size=(120, 3)) + 5 * labels[:, None]
    run = tacit.distill((samples, labels), samples + 0.1, 5, classes=[0, 1], method="class_sums", seed=1)
    page = report_page(read_record(run.save(tmp_path / "sums")))
    assert "Labels or probabilities alone were released" not in page
    assert "Sums with noise in them were released" in page or "These sums were released with noise" in page


@pytest.mark.parametrize("delta", [0, "1e-6"])
def test_the_default_on_a_table_shows_what_it_released_and_the_scale_of_its_noise(tmp_path, delta):
    draws = np.random.default_rng(0)
    samples = draws.normal(size=(900, 4))
    data = {"kind": draws.choice(["a", "b"], size=900)} if delta == 0 else {}
    table = pd.DataFrame({**{f"x{place}": samples[:, place] for place in range(4)}, **data})
    labels = np.where(samples[:600, 0] > 0, "ill", "well")
    run = tacit.distill((table[:600], labels), table[600:], 2.0, delta=delta, classes=["ill", "well"])
    run.save(tmp_path / "run")
    record = read_record(tmp_path / "run")
    page = report_page(record)
    released = record.written["recipe"]["released"]
    assert [each["what"] for each in released] == (["sums"] if delta == 0 else ["sums", "a gradient"])
    text = html.unescape(re.sub("<[^>]+>", " ", page))
    for number, each in enumerate(released, start=1):
        numbers = run.arrays[f"release_{number}"]
        assert all(f" {value:,} " in text for value in numbers[0, :4].tolist())
        assert f"The noise on each of them: {each['noise']}." in text
    assert "not kept as a table" not in text
    assert "as computed from noisy sums" in text
    assert not re.search(r"noise_multiplier = \d+/\d+", text)
    assert "less certain than 70%" in text
    answers = nist_answers(statement(record))
    assert f"sums by {released[0]['mechanism']}" in answers
    assert f"Sensitivity of sums: {released[0]['sensitivity']}" in answers
    assert "as in the payments" not in answers
