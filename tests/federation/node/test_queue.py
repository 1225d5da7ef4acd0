"""A node's queue: in order, on disk, bounded whatever is sent, and canceled by its operator alone."""

import math
import sqlite3
import stat

import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.core.errors import InvalidInput
from tacit.federation.messages import Request
from tacit.federation.node import queue as queue_module
from tacit.federation.node.queue import CancelReport, JobQueue, QueueFull, job_id


@pytest.fixture
def file(tmp_path):
    return tmp_path / "state" / "queue.db"


@pytest.fixture
def queue(file):
    made = JobQueue(file)
    yield made
    made.close()


def put(queue, run="run", number=0, seconds=60.0, size=10):
    request = Request(run, number, 3, b"?" * size)
    return queue.put(request.to_bytes(), request, seconds)


def test_questions_come_out_in_the_order_in_which_they_came(queue, file):
    for number in range(3):
        put(queue, number=number)
    assert [queue.take().round for _ in range(3)] == [0, 1, 2]
    assert queue.take() is None
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_question_that_comes_again_is_there_once_and_one_that_is_over_is_queued_again(queue):
    assert put(queue) == put(queue)
    first = queue.take()
    put(queue)
    assert queue.take() is None
    queue.finish(first, "answered", paid="epsilon 1")
    put(queue)
    again = queue.take()
    queue.finish(again, "answered")
    # What it had cost stays noted.
    assert [each.paid for each in queue.jobs()] == [("epsilon 1",)]


def test_a_queue_that_was_left_in_the_middle_goes_on_in_its_order(queue, file):
    for number in range(3):
        put(queue, number=number)
    assert queue.take().round == 0
    queue.close()
    again = JobQueue(file)
    assert again.recover() == 3
    assert [again.take().round for _ in range(3)] == [0, 1, 2]
    again.close()


def test_what_nobody_waits_for_any_more_is_not_answered(queue):
    for number, seconds in enumerate((0.0, -5.0, math.nan, 60.0, math.inf)):
        put(queue, number=number, seconds=seconds)
    assert [queue.take().state for _ in range(5)] == ["expired", "expired", "expired", "running", "running"]


def test_a_flood_fills_neither_the_queue_nor_another_jobs_place_nor_the_disk(file, monkeypatch):
    monkeypatch.setattr(queue_module, "MOST_REMEMBERED", 20)
    queue = JobQueue(file, most_waiting=24, most_bytes=100_000)
    for number in range(queue_module.MOST_OF_A_JOB):
        put(queue, number=number)
    with pytest.raises(QueueFull, match="16 of them of this job"):
        put(queue, number=99)
    for number in range(8):
        put(queue, run="another", number=number)
    with pytest.raises(QueueFull, match="24 questions"):
        put(queue, run="a third")
    while (taken := queue.take()) is not None:
        queue.finish(taken, "answered")
    put(queue, run="large", size=90_000)
    with pytest.raises(QueueFull):
        put(queue, run="large", number=1, size=20_000)
    queue.finish(queue.take(), "answered")
    # However many come and go, what is kept stays within its limits.
    for number in range(50):
        put(queue, run=f"run {number}", size=50_000)
        queue.finish(queue.take(), "refused", "budget")
    assert len(queue.jobs()) <= 21
    assert file.stat().st_size < 1_000_000
    queue.close()


def test_a_full_disk_is_an_error_that_loses_nothing(file):
    queue = JobQueue(file)
    put(queue, run="before")
    pages = queue._connection.execute("PRAGMA page_count").fetchone()[0]
    queue._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        put(queue, run="too much", size=100_000)
    assert queue.waiting() == 1
    queue._connection.execute("PRAGMA max_page_count = 100000")
    put(queue, run="too much", size=100_000)
    assert [queue.take().run for _ in range(2)] == ["before", "too much"]
    queue.close()


def test_a_canceled_job_is_not_answered_now_or_later(queue, file):
    put(queue, number=0)
    put(queue, number=1)
    put(queue, run="another")
    running = queue.take()
    other = JobQueue(file)  # The operator's command is another process.
    report = other.cancel(job_id("run")[:6])
    assert (report.waiting, report.running, report.paid) == (1, 1, ())
    # Whether the running one is paid for already is in the ledger: nothing is said that may be wrong.
    assert "stops at its next step; what was paid for the running one is listed" in report.in_words
    assert "nothing was paid" not in report.in_words
    other.close()
    assert queue.canceled(running.job)
    assert [queue.take().state for _ in range(2)] == ["canceled", "running"]
    put(queue, number=2)
    assert queue.take().state == "canceled"
    # A flood of other jobs does not take the mark away.
    for number in range(30):
        put(queue, run=f"run {number}")
        queue.finish(queue.take(), "answered")
    assert queue.canceled(running.job)


@pytest.mark.parametrize(
    ("waiting", "running", "paid", "said"),
    [
        (0, 0, (), "no question was waiting or running; nothing was paid for it"),
        (1, 0, (), "1 waiting question is not answered; nothing was paid for it"),
        (2, 0, ("epsilon 1",), "2 waiting questions are not answered; paid and stays paid: epsilon 1"),
        (
            0, 1, ("epsilon 1",),
            "one is running and stops at its next step; paid and stays paid: epsilon 1; "
            "what was paid for the running one is listed with the job once it has stopped, and stays paid",
        ),
    ],
)  # fmt: skip
def test_what_canceling_did_is_said_and_no_more_than_is_known(waiting, running, paid, said):
    assert CancelReport("3f2a", waiting, running, paid).in_words == said


def test_only_one_job_is_canceled_by_a_name(queue):
    with pytest.raises(InvalidInput, match="there is no job 'abc'"):
        queue.cancel("abc")
    for number in range(20):
        put(queue, run=str(number))
        queue.finish(queue.take(), "answered")
    first = min(each.id for each in queue.jobs())
    with pytest.raises(InvalidInput, match="there is no job ''"):
        queue.cancel("")
    assert queue.cancel(first).id == first


def test_a_file_that_is_no_queue_is_left_alone(file):
    file.parent.mkdir(parents=True)
    file.write_bytes(b"something else that is longer than a hundred bytes" * 10)
    with pytest.raises(InvalidInput, match="cannot be read as a node's queue"):
        JobQueue(file)
    assert file.read_bytes().startswith(b"something else")
