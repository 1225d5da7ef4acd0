"""A worker over HTTP: the question as a static file, one message per device, and strangers of every kind."""

import contextlib
import http.client
import time

import pytest

from tacit.core.errors import InvalidInput
from tacit.federation.intake.device import IntakeAddress, IntakeUnreachable, fetch_question, post_message
from tacit.federation.intake.messages import DeviceMessage, IntakeRefusal, IntakeRefused, issue_tokens, message_bytes
from tacit.federation.intake.store import StoreUnavailable, open_intake_store
from tacit.federation.intake.worker import WorkerLimits, make_worker
from tests.federation.intake.questions import a_device, local_question, sealed_question

FREE = WorkerLimits(rate=0)


@contextlib.contextmanager
def serving(question, place, **options):
    with open_intake_store(place) as store:
        service = make_worker("127.0.0.1", 0, question, store, **{"limits": FREE, **options})
        service.start()
        try:
            yield IntakeAddress(f"http://127.0.0.1:{service.address[1]}", timeout=10), store
        finally:
            service.stop()


@pytest.fixture
def here(tmp_path):
    return f"sqlite:///{tmp_path}/intake.db"


def called(address, method, path, body=None, headers=None):
    connection = address.connection()
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    found = response.status, dict(response.headers), response.read()
    connection.close()
    return found


def counted(address, reason, number):
    """Wait until so many were counted: counts are written down once a second, or when somebody looks."""
    end = time.monotonic() + 20
    while (found := called(address, "GET", "/status")[2]) and time.monotonic() < end:
        if f'"{reason}":{number}'.encode() in found:
            return True
        time.sleep(0.05)
    raise AssertionError(found)


def message(question, number=1, payload=None):
    return DeviceMessage(bytes([number]) * 16, payload or bytes(question.payload_bytes)).to_bytes(question)


def test_the_question_is_a_static_file_with_its_digest_for_a_tag(here):
    question = local_question()
    with serving(question, here) as (address, _):
        status, headers, content = called(address, "GET", "/question")
        assert (status, content) == (200, question.to_bytes())
        assert headers["etag"] == f'"{question.digest}"'
        assert headers["cache-control"] == "public, max-age=60"
        status, headers, content = called(address, "GET", f"/question/{question.digest}")
        assert (status, content) == (200, question.to_bytes())
        assert headers["cache-control"] == "public, max-age=31536000, immutable"
        known = {"If-None-Match": f'"other", "{question.digest}"'}
        assert called(address, "GET", "/question", headers=known)[::2] == (304, b"")
        assert called(address, "GET", f"/question/{'00' * 32}")[0] == 404
        assert fetch_question(address, 2**20, question.digest) == question.to_bytes()
        assert fetch_question(address, 2**20, known=question.to_bytes()) == question.to_bytes()
        with pytest.raises(IntakeUnreachable, match="more than"):
            fetch_question(address, 10)
        with pytest.raises(IntakeUnreachable, match="no such question"):
            fetch_question(address, 2**20, "00" * 32)


@pytest.mark.parametrize("question", [local_question(), sealed_question()], ids=["local", "shuffle"])
def test_a_device_fetches_answers_and_is_counted_once_however_often_it_posts(question, place, tmp_path):
    with serving(question, place) as (address, store):
        body = a_device(tmp_path).answer(fetch_question(address, 2**20), question.digest)
        for _ in range(3):
            post_message(address, body)
        assert store.status()["questions"][0]["taken"] == 1
        assert counted(address, "duplicate", 2)
        if question.sealed:
            (payload,) = next(store.pages(question.digest))
            assert question.mechanism.code.size + 97 == len(payload) == question.payload_bytes


def test_whatever_strangers_post_is_refused_by_a_stated_reason_counted_and_changes_nothing(here):
    question, other = local_question(most=1), local_question(request="r-2")
    with serving(question, here) as (address, store):
        good = message(question)
        assert called(address, "POST", "/", good)[0] == 200
        for body, reason in (
            (message(question, payload=b"\1"), IntakeRefusal.CONFLICT),
            (message(other), IntakeRefusal.FOREIGN),
            (b"hello", IntakeRefusal.MALFORMED),
            (good[:-1], IntakeRefusal.MALFORMED),
            (good + b"\0", IntakeRefusal.OVERSIZED),
            (message(question, 2), IntakeRefusal.FULL),
        ):
            status, _, word = called(address, "POST", "/", body)
            assert (status, word.decode()) == (reason.status, str(reason))
        assert counted(address, "oversized", 1)
        assert sum(store.status()["dropped"].values()) == 6
        assert [payload for page in store.pages(question.digest) for payload in page] == [bytes(1)]
        with pytest.raises(IntakeRefused) as refused:
            post_message(address, b"hello")
        assert refused.value.reason is IntakeRefusal.MALFORMED


def test_a_body_that_is_too_large_or_does_not_say_its_length_is_not_read(here):
    question = local_question()
    with serving(question, here) as (address, store):
        for head in (f"Content-Length: {2**40}", "Transfer-Encoding: chunked"):
            connection = address.connection()
            connection.connect()
            connection.sock.sendall(f"POST / HTTP/1.1\r\nHost: intake\r\n{head}\r\n\r\n".encode())
            response = http.client.HTTPResponse(connection.sock)
            response.begin()
            assert response.status == 413
            connection.close()
        assert store.status()["questions"][0]["taken"] == 0


def test_late_messages_and_those_without_a_token_are_refused(here):
    question = local_question(admission="tokens", closes=1000)
    now = [999.0]
    (token,) = issue_tokens(b"k" * 32, question, 1)
    with serving(question, here, tokens=b"k" * 32, clock=lambda: now[0]) as (address, store):
        body = DeviceMessage(token, b"\1").to_bytes(question)
        assert called(address, "POST", "/", body[:-1] + b"\2")[0] == 200
        stranger = DeviceMessage(bytes(32), b"\1").to_bytes(question)
        assert called(address, "POST", "/", stranger)[::2] == (403, b"no valid token")
        now[0] = 1000.0
        assert called(address, "POST", "/", body)[::2] == (410, b"too late")
        assert counted(address, "too late", 1)
        assert store.status()["questions"][0]["taken"] == 1
    with open_intake_store(here) as store, pytest.raises(InvalidInput, match="needs the secret"):
        make_worker("127.0.0.1", 0, question, store)


def test_who_fetches_the_question_and_keeps_the_connection_keeps_nobody_out(here):
    question = local_question()
    with (
        serving(question, here, limits=WorkerLimits(connections=4, per_address=4, rate=0)) as (address, _),
        contextlib.ExitStack() as stack,
    ):
        for _ in range(4):
            kept = stack.enter_context(contextlib.closing(address.connection()))
            kept.request("GET", "/question")
            assert kept.getresponse().read() == question.to_bytes()
        assert fetch_question(address, 2**24) == question.to_bytes()
        post_message(address, message(question))


def test_a_flood_of_one_address_is_turned_away_and_counted(here):
    question = local_question()
    with serving(question, here, limits=WorkerLimits(rate=1e-9, burst=4)) as (address, store):
        found = [called(address, "POST", "/", message(question, number)) for number in range(1, 8)]
        assert [status for status, _, _ in found] == [200] * 4 + [429] * 3
        assert found[-1][1]["retry-after"] == "30"
        assert store.status()["questions"][0]["taken"] == 4
        assert called(address, "GET", "/status")[0] == 429


def test_a_database_that_is_down_is_told_as_such_and_the_same_bytes_are_posted_later(here, tmp_path, monkeypatch):
    question = local_question()
    with serving(question, here) as (address, store):
        body = a_device(tmp_path).answer(question.to_bytes(), question.digest)
        put, down = store.put, [True]

        def sometimes(*arguments):
            if down[0]:
                raise StoreUnavailable("the store does not answer")
            return put(*arguments)

        monkeypatch.setattr(store, "put", sometimes)
        status, headers, word = called(address, "POST", "/", body)
        assert (status, headers["retry-after"], word) == (503, "30", b"try again")
        with pytest.raises(IntakeUnreachable):
            post_message(address, body)
        assert store.status()["questions"][0]["taken"] == 0
        waited = []

        def sleep(seconds):
            waited.append(seconds)
            down[0] = len(waited) < 3

        post_message(address, a_device(tmp_path).answer(question.to_bytes(), question.digest), 9, 1.0, sleep)
        assert waited == [1.0, 2.0, 4.0]
        assert list(store.pages(question.digest)) == [[body[-1:]]]


def test_no_more_messages_wait_for_the_disk_than_are_allowed(here):
    question = local_question()
    with serving(question, here, limits=WorkerLimits(rate=0, pending=0)) as (address, _):
        assert called(address, "POST", "/", message(question))[0] == 503
    assert len(message(question)) == message_bytes(question)


def test_a_worker_outside_loopback_needs_a_certificate(here):
    with open_intake_store(here) as store, pytest.raises(InvalidInput, match="needs a certificate"):
        make_worker("0.0.0.0", 0, local_question(), store)
