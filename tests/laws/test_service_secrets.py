"""Law: nothing that a node which stays up writes, logs, counts or shows depends on a record, also where it fails.

Records carry marks: numbers and words that appear nowhere else. Jobs are run that are answered, refused and that fail
in every part that touches records, with the mark in the error's own words. Then all that was written is searched for
the marks, as text and as bytes.
"""

import json
import logging
import shutil
import threading

import numpy as np
import pytest

pytest.importorskip("prometheus_client", reason="needs tacit[federated]")

from tacit.federation.messages import RefusalReason
from tacit.federation.node import node as node_module
from tacit.federation.node.telemetry import LOG_BYTES, NodeWeb, log_events
from tacit.methods.rknn import holder
from tests.federation.node.test_service import Place, folder, question
from tests.federation.node.test_telemetry import Asked

__all__ = ["folder", "question"]

NUMBER, WORD = 8675309.25, "Ada-Lovelace-HIV"


@pytest.fixture
def logged():
    """The library's logging as it was before."""
    logger = logging.getLogger("tacit")
    before, level, hook, raising = list(logger.handlers), logger.level, threading.excepthook, logging.raiseExceptions
    yield
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()
    for handler in before:
        logger.addHandler(handler)
    logger.setLevel(level)
    threading.excepthook, logging.raiseExceptions = hook, raising


def marked(folder, label=None, cell=None):
    """Put the marks into the records: into a person's name, into a number, and if asked for into a wrong cell."""
    lines = (folder / "records.csv").read_text().splitlines()
    for row in (3, 4, 5):
        fields = lines[row].split(",")
        fields[0], fields[1] = WORD, str(NUMBER)
        fields[2] = cell or fields[2]
        fields[-1] = label or fields[-1]
        lines[row] = ",".join(fields)
    (folder / "records.csv").write_text("\n".join(lines) + "\n")


def failing(*_, **__):
    raise ValueError(f"could not convert {WORD} to {NUMBER}")


def everything(place, capfd, web):
    """All that anybody but the records' owner could see, by where it was found."""
    client = Asked(web.app)
    found = {f"page {path}": client.get(path).content for path in ("/health", "/ready", "/metrics", "/nothing")}
    found["metrics"] = client.get("/metrics", headers={"Authorization": "Bearer a-token-of-a-test"}).content
    found["jobs"] = repr(place.queue.jobs()).encode()
    found["screen"] = "".join(capfd.readouterr()).encode()
    for file in place.folder.rglob("*"):
        if file.is_file() and file.name not in ("records.csv", "policy.toml", "node.toml"):
            found[str(file.relative_to(place.folder))] = file.read_bytes()
    return found


def test_no_mark_of_a_record_is_in_anything_that_is_written_or_shown(folder, question, monkeypatch, capfd, logged):
    marked(folder)
    place = Place(folder, question)
    log = place.settings.state / "service.jsonl"
    log_events(log)
    web = NodeWeb(place.metrics, "a-token-of-a-test", lambda: place.service.ready)
    place.start()
    assert isinstance(place.ask("r-0"), bytes)
    # Counting fails on the records, with a mark in its words: paid for, answered with nothing but noise.
    monkeypatch.setattr(holder, "vote_counts", failing)
    assert isinstance(place.ask("r-1"), bytes)
    # Everything around it fails.
    monkeypatch.setattr(node_module.Node, "_in_order", failing)
    assert place.ask("r-2") is RefusalReason.FAILED
    monkeypatch.setattr("tacit.federation.node.service.open_node", failing)
    assert place.ask("r-3") is RefusalReason.FAILED
    monkeypatch.undo()
    # A cell that is no number, and a class that nobody has heard of: empty votes, which only the log tells.
    for number, broken in enumerate(({"cell": WORD}, {"label": WORD})):
        marked(folder, **broken)
        assert isinstance(place.ask(f"r-{4 + number}"), bytes)
    thread = threading.Thread(target=failing)
    thread.start()
    thread.join()
    logging.getLogger("tacit.node").error("a failure", exc_info=ValueError(WORD))
    place.queue.cancel(place.queue.jobs()[0].id)
    assert place.ask("r-6") is RefusalReason.CANCELED
    found = everything(place, capfd, web)
    place.stop()
    assert place.paid == 4
    marks = [
        WORD.encode(), b"Lovelace", b"8675309", str(NUMBER).encode(),
        *(np.array([NUMBER], dtype=kind).tobytes() for kind in (np.float64, np.float32)),
    ]  # fmt: skip
    hits = {name: mark for name, content in found.items() for mark in marks if mark in content}
    assert hits == {}
    assert {"metrics", "page /metrics", "screen", "clinic.state/queue.db", "clinic.state/service.jsonl"} <= set(found)
    # Every line is one event, and what went wrong is there by its kind.
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert all({"time", "level", "event"} <= set(each) for each in events)
    assert sum("ValueError" in json.dumps(each) for each in events) >= 4
    assert sum("cast empty votes" in json.dumps(each) for each in events) == 2


def test_counters_are_the_same_whatever_the_records_are(folder, question, tmp_path_factory):
    texts = []
    for size in (90, 30):
        own = tmp_path_factory.mktemp(str(size)) / "node"
        shutil.copytree(folder, own)
        lines = (own / "records.csv").read_text().splitlines(keepends=True)
        (own / "records.csv").write_text("".join(lines[: size + 1]))
        place = Place(own, question).start()
        for number in range(2):
            assert isinstance(place.ask(f"r-{number}"), bytes)
        # The same name for another question.
        assert place.ask("r-0", "another") is not None
        texts.append(place.metrics.text())
        place.stop()
    assert texts[0] == texts[1]


def test_an_asker_cannot_fill_the_log_or_forge_a_line(folder, question, tmp_path, logged):
    place = Place(folder, question)
    log = tmp_path / "logs" / "service.jsonl"
    log_events(log)
    place.start()
    run = 'a"}, {"event": "forged", "level": "info", "time": "now", "b": "'
    assert isinstance(place.ask("r-0", run), bytes)
    place.stop()
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert "forged" not in events
    assert {"loaded", "began", "finished"} <= set(events)
    (handler,) = logging.getLogger("tacit").handlers
    assert (handler.maxBytes, handler.backupCount) == (LOG_BYTES, 5)
