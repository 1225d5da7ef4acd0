"""The page of a run: all parts are there and visible, it asks nothing of any other place, and it shows no record."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tacit.report.page import odds_bound, report_page
from tacit.runs.folders import read_record

PARTS = tacit.digits()
DIGITS = (PARTS.private_samples, PARTS.private_labels)
SECTIONS = ["privacy", "chosen", "labels", "certainty", "queries", "payments", "made"]
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
        assert "href" not in attributes
        assert not any(each.startswith("on") for each in attributes)
    assert not re.search(r"https?://|@import|url\(", page)
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
    assert "δ = 1e-06 is the probability with which this bound may fail altogether" in text


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
        (("report", "rum"), "is run meant?"),
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


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_chromium_shows_it_without_a_complaint(runs, tmp_path, scheme):
    page = tmp_path / "report.html"
    page.write_text(report_page(read_record(runs / "soft")))
    shown = tmp_path / "page.png"
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr",
         f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1000,2600", f"--screenshot={shown}",
         *(["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []), page.as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0
    assert "CONSOLE" not in done.stderr
    import matplotlib.image

    pixels = matplotlib.image.imread(shown)[..., :3]
    brightness = np.median(pixels)
    assert brightness > 0.9 if scheme == "light" else brightness < 0.2
    # Something is drawn in every part of it.
    assert all(part.std() > 0.02 for part in np.array_split(pixels[:2400], 8))
