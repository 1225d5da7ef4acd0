"""A node that stays up: one load, one payment, canceled where its operator says so, and it ends in good order."""

import dataclasses
import sqlite3
import threading
import time

import numpy as np
import pytest

pytest.importorskip("prometheus_client", reason="needs tacit[federated]")

from tacit.core.errors import InvalidInput
from tacit.federation.messages import RefusalReason, Request, read_response
from tacit.federation.node.local_socket import forward_request
from tacit.federation.node.node import open_node, prepare_ledger
from tacit.federation.node.queue import JobQueue, job_id, queue_file
from tacit.federation.node.service import NodeService, budgets
from tacit.federation.node.telemetry import NodeMetrics
from tacit.federation.settings import read_node_file
from tacit.ledger import inspected
from tacit.wire import ask_to_bytes
from tests.federation.test_settings import POLICY, folder, wire_request

__all__ = ["folder"]


class Place:
    """A node's folder with a service in it; ``restart`` is what comes after a crash."""

    def __init__(self, folder, ask):
        self.folder, self._ask = folder, ask
        (folder / "policy.toml").write_text(POLICY.format(epsilon=100.0))
        self.settings = read_node_file(folder / "node.toml")
        prepare_ledger(self.settings)
        self.queue = self.service = None
        self.restart()

    def restart(self):
        self.stop()
        self.queue = JobQueue(queue_file(self.settings.state))
        self.metrics = NodeMetrics("clinic", self.queue.waiting, lambda: budgets(self.settings))
        self.service = NodeService(self.folder / "node.toml", self.queue, self.metrics)
        return self.service

    def start(self):
        self.service.load()
        self.socket = self.service.start(self.settings.state)
        return self

    def stop(self):
        if self.service is not None and self.service._worker.is_alive():
            self.service.drain()
            assert self.service.idle(20) or self.service._idle.is_set()
        if self.service is not None:
            self.service.close()
        if self.queue is not None:
            self.queue.close()

    def payload(self, request="r", run="run"):
        ask = dataclasses.replace(self._ask, request=request)
        return Request(run, 0, 2, ask_to_bytes(ask)).to_bytes()

    def ask(self, request="r", run="run", seconds=60.0):
        reply = forward_request(self.socket, self.payload(request, run), seconds)
        return read_response(reply).answer

    def later(self, *arguments):
        """Ask in a thread; what comes of it."""
        found = []
        thread = threading.Thread(target=lambda: found.append(self.ask(*arguments)))
        thread.start()
        return thread, found

    @property
    def paid(self):
        with inspected(self.settings.ledger) as book:
            return len(book.payments("clinic"))

    @property
    def counted(self):
        lines = self.metrics.text().decode().splitlines()
        return {line.split()[0]: float(line.split()[1]) for line in lines if not line.startswith("#")}


@pytest.fixture(scope="module")
def question():
    return wire_request()[0]


@pytest.fixture
def place(folder, question):
    made = Place(folder, question)
    yield made
    made.stop()


def until(happened):
    end = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_it_answers_as_the_node_does_from_one_load_and_one_encoding(place):
    place.start()
    answers = [place.ask(f"r-{number}") for number in range(3)]
    assert all(isinstance(each, bytes) for each in answers)
    assert place.paid == 3
    assert place.service._arrays.reads == 1
    assert 0 < place.service._encodings.size <= 256 * 2**20
    # A question that was paid for is answered again, by the service and by the node itself.
    assert place.ask("r-0") == answers[0]
    node = open_node(place.settings)
    assert read_response(node.reply(place.payload("r-0"))).answer == answers[0]
    node.ledger.close()
    assert place.paid == 3
    assert place.counted['tacit_node_requests_total{state="answered"}'] == 4
    (job,) = place.queue.jobs()
    assert (job.id, job.states, job.paid) == (job_id("run"), {"answered": 3}, ("epsilon 1",) * 3)


def test_records_that_were_changed_are_read_and_encoded_anew(place):
    place.start()
    place.ask("r-0")
    before = place.service._encodings.size
    lines = (place.folder / "records.csv").read_text().splitlines(keepends=True)
    (place.folder / "records.csv").write_text("".join(lines[:40]))
    place.ask("r-1")
    assert place.service._arrays.reads == 2
    assert place.service._encodings.size < before


@pytest.mark.parametrize(
    ("digit", "pixel", "words"),
    [
        ("none", "0", "a label that is not one of the 10 classes"),
        ("1", "much", "not a finite number"),
        ("1", "1e300", "not a finite number"),
    ],
)
def test_a_record_that_is_not_usable_changes_neither_the_kind_of_reply_nor_the_price(
    place, digit, pixel, words, caplog
):
    """Its file is changed while the node serves: the coordinator would learn of the record for free."""
    place.start()
    with (place.folder / "records.csv").open("a") as file:
        file.write(",".join(["p99", *["0"] * 63, pixel, digit]) + "\r\n")
    with caplog.at_level("ERROR", "tacit"):
        assert isinstance(place.ask("r-0"), bytes)
    assert place.paid == 1
    assert place.service._arrays.reads == 2
    assert words in caplog.text
    # The operator who starts the node hears of it at once.
    with pytest.raises(InvalidInput):
        open_node(place.settings)


def test_a_file_that_cannot_be_read_again_leaves_the_last_records(place, caplog):
    place.start()
    lines = (place.folder / "records.csv").read_text()
    (place.folder / "records.csv").write_text(lines + "p99,1\n")
    with caplog.at_level("ERROR", "tacit"):
        assert all(isinstance(place.ask(request), bytes) for request in ("r-0", "r-1"))
    assert caplog.text.count("the last ones are kept") == 1
    assert (place.paid, place.service._arrays.reads) == (2, 1)
    # Without a record there is nothing to count, and no other reply.
    (place.folder / "records.csv").write_text(lines.splitlines(keepends=True)[0])
    assert isinstance(place.ask("r-2"), bytes)
    assert (place.paid, place.service._arrays.reads) == (3, 2)


def test_a_policy_that_was_changed_counts_from_the_next_question_on(place):
    place.start()
    place.ask("r-0")
    text = (place.folder / "policy.toml").read_text()
    (place.folder / "policy.toml").write_text(text.replace("reverse k-NN labels", "something else"))
    assert place.ask("r-1") is RefusalReason.PURPOSE
    assert place.counted['tacit_node_refusals_total{reason="purpose"}'] == 1
    assert place.paid == 1


def test_a_node_that_was_killed_goes_on_with_its_queue_and_pays_nothing_twice(place):
    # Killed after the payment and before the question was settled, with another one waiting.
    for request in ("r-0", "r-1"):
        payload = place.payload(request)
        place.queue.put(payload, Request("run", 0, 2, b""), 60.0)
    taken = place.queue.take()
    node = open_node(place.settings)
    first = read_response(node.reply(taken.payload)).answer
    node.ledger.close()
    assert place.paid == 1
    place.restart()
    place.start()
    until(lambda: place.queue.waiting() == 0 and place.paid == 2)
    assert place.ask("r-0") == first
    assert isinstance(place.ask("r-1"), bytes)
    assert place.paid == 2


def test_the_same_question_from_two_at_once_is_paid_for_once(place):
    place.start()
    asked = [place.later("r") for _ in range(4)]
    for thread, _ in asked:
        thread.join(30)
    assert len({found[0] for _, found in asked}) == 1
    assert place.paid == 1


@pytest.mark.parametrize(("looks", "paid"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_a_running_job_that_is_canceled_stops_at_its_next_step_and_what_is_paid_stays_paid(
    place, looks, paid, monkeypatch
):
    looked = []

    def canceled(job):
        # Canceled before the question is read, before it is paid for, after that, or while it waits for its pace.
        looked.append(job)
        return len(looked) > looks

    monkeypatch.setattr(place.queue, "canceled", canceled)
    place.start()
    assert place.ask() is RefusalReason.CANCELED
    assert place.paid == paid
    (job,) = place.queue.jobs()
    assert job.states == {"canceled": 1}
    assert job.paid == (("epsilon 1",) if paid else ())
    assert place.queue.cancel(job.id).paid == job.paid
    assert place.counted['tacit_node_requests_total{state="canceled"}'] == 1


def test_waiting_and_later_questions_of_a_canceled_job_are_refused_and_others_are_not(place, monkeypatch):
    place.start()
    assert isinstance(place.ask("r-0"), bytes)
    place.queue.cancel(job_id("run"))
    assert place.ask("r-1") is RefusalReason.CANCELED
    # Also one that was paid for: its operator wants no more of it to leave.
    assert place.ask("r-0") is RefusalReason.CANCELED
    assert isinstance(place.ask("r-2", "another"), bytes)
    assert place.paid == 2


def test_told_to_end_it_finishes_one_answer_and_turns_all_others_away_unpaid(place, monkeypatch):
    at_work, go_on = threading.Event(), threading.Event()
    answered = NodeService._answered

    def slowly(service, request):
        at_work.set()
        assert go_on.wait(30)
        return answered(service, request)

    monkeypatch.setattr(NodeService, "_answered", slowly)
    place.start()
    running, first = place.later("r-0")
    assert at_work.wait(30)
    waiting, second = place.later("r-1")
    until(lambda: place.queue.waiting() == 1)
    assert place.service.ready
    place.service.drain()
    waiting.join(30)
    assert second == [RefusalReason.BUSY]
    assert place.ask("r-2") is RefusalReason.BUSY
    assert not place.service.ready
    assert not place.service.idle(0.05)
    go_on.set()
    running.join(30)
    until(lambda: place.service.idle(1))
    assert isinstance(first[0], bytes)
    assert place.paid == 1
    assert place.queue.waiting() == 0
    assert place.counted["tacit_node_draining"] == 1


def test_a_full_disk_refuses_and_the_node_goes_on_when_there_is_room(place, monkeypatch):
    place.start()
    put = place.queue.put

    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(place.queue, "put", full)
    assert place.ask("r-0") is RefusalReason.FAILED
    monkeypatch.setattr(place.queue, "put", put)
    # Where it fills up in the middle, the answer still leaves, and is paid for once.
    finish = place.queue.finish
    monkeypatch.setattr(place.queue, "finish", full)
    assert isinstance(place.ask("r-0"), bytes)
    monkeypatch.setattr(place.queue, "finish", finish)
    place.restart().load()
    place.start()
    assert isinstance(place.ask("r-0"), bytes)
    assert place.paid == 1


@pytest.mark.parametrize("payload", [b"", b"TACIT1 and something else", bytes(10**6), b"\xff" * 100])
def test_what_cannot_be_read_is_refused_and_never_queued(place, payload):
    place.start()
    assert read_response(forward_request(place.socket, payload, 60.0)).answer is RefusalReason.QUESTION
    assert place.queue.jobs() == []
    assert place.paid == 0


def test_a_flood_of_questions_is_turned_away_and_answered_in_order_when_there_is_room(place, monkeypatch):
    go_on, answered = threading.Event(), NodeService._answered
    order = []

    def slowly(service, request):
        assert go_on.wait(60)
        order.append(request.place)
        return answered(service, request)

    monkeypatch.setattr(NodeService, "_answered", slowly)
    place.start()
    first = place.later("r-0")
    until(lambda: place.queue.jobs() and place.queue.waiting() == 0)
    asked = [first, *(place.later(f"r-{number}") for number in range(1, 20))]
    until(lambda: place.queue.waiting() == 15 and sum(bool(found) for _, found in asked) == 4)
    go_on.set()
    for thread, _ in asked:
        thread.join(60)
    answers = [found[0] for _, found in asked]
    assert answers.count(RefusalReason.BUSY) == 4
    assert place.paid == 16
    assert order == sorted(order)


def test_a_door_in_a_deep_folder_can_be_opened(place, tmp_path):
    place.service.load()
    deep = tmp_path / ("a" * 60) / ("b" * 60)
    deep.mkdir(parents=True)
    place.socket = place.service.start(deep)
    assert isinstance(place.ask(), bytes)


def test_nothing_of_the_records_or_their_encodings_is_written(place):
    place.start()
    place.ask()
    rows = np.genfromtxt(place.folder / "records.csv", delimiter=",", skip_header=1, usecols=range(1, 65))
    marks = [rows[0, ::-1].astype(kind).tobytes() for kind in (np.float64, np.float32)]
    for file in (each for each in place.folder.rglob("*") if each.is_file() and each.name != "records.csv"):
        content = file.read_bytes()
        assert not any(mark in content for mark in marks), file


def test_a_response_that_cannot_be_read_fails_one_question_and_not_the_node(place, monkeypatch):
    """The queue would give it the same question at every start."""
    place.start()
    reply, read = NodeService._answered, []

    def unreadable(service, request):
        read.append(request.key)
        return (b"no response", "") if len(read) == 1 else reply(service, request)

    monkeypatch.setattr(NodeService, "_answered", unreadable)
    assert place.ask("r-0") is RefusalReason.FAILED
    assert place.service.alive
    assert isinstance(place.ask("r-1"), bytes)
