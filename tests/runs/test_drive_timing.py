"""The public side has a time, records have none."""

import json

import numpy as np
import pytest

import tacit
from tacit.report.page import report_page
from tacit.runs.drive import ASKING, LEARNING, PublicTiming, TimedCoordinator, drive
from tacit.runs.folders import read_record


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr("tacit.runs.drive.clock", made)
    return made


def test_the_time_of_answers_is_not_that_of_the_coordinator(clock):
    class Thrice:
        def begin(self):
            clock.now += 0.5
            return 0

        def ask(self, state):
            clock.now += 1
            return None if state == 3 else "how many?"

        def fold(self, state, answers):
            clock.now += 2
            return state + len(answers)

        def result(self, state):
            clock.now += 4
            return state

    def holders(ask):
        clock.now += 1000
        return ["so many"]

    spent = PublicTiming()
    assert drive(TimedCoordinator(Thrice(), spent), holders) == 3
    assert spent.seconds() == {ASKING: 14}  # 0.5 + 4·1 + 3·2 + 4 = 14.5, cut


def test_a_run_has_the_seconds_of_its_public_steps_and_keeps_them(clock, tmp_path):
    random = np.random.default_rng(0)
    labels = np.arange(200) % 2
    samples = random.normal(size=(200, 3)) + 9 * labels[:, None]
    run = tacit.distill((samples, labels), samples + 0.1, 5, classes=[0, 1], method="rknn", queries=4, seed=1)
    assert run.timing == {ASKING: 0, LEARNING: 0}
    run.save(tmp_path / "run")
    assert tacit.load(tmp_path / "run").timing == run.timing
    file = tmp_path / "run" / "run.json"
    written = json.loads(file.read_text())
    written["timing"] = {ASKING: 7, LEARNING: 0}
    file.write_text(json.dumps(written))
    page = report_page(read_record(tmp_path / "run"))
    assert f"<td>{ASKING}</td><td>7</td>" in page
    assert f"<td>{LEARNING}</td><td class='short'>less than 1</td>" in page
    assert "depends on the records and no noise covers it" in page
    for strange in (None, [3], {ASKING: "long", LEARNING: -1}):
        written["timing"] = strange
        file.write_text(json.dumps(written))
        assert read_record(tmp_path / "run").timing == {}


def test_where_holders_learn_at_the_end_that_has_no_time(clock):
    random = np.random.default_rng(0)
    labels = np.arange(80) % 2
    samples = random.normal(size=(80, 3)) + 9 * labels[:, None]
    run = tacit.distill(
        (samples, labels), samples + 0.1, 20, method="fedmd", classes=[0, 1], holders=2, rounds=1, models=["logistic"],
        seed=1,
    )  # fmt: skip
    assert list(run.timing) == [ASKING]
