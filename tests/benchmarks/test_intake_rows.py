"""The benchmark of the intake: rows that were measured stay, and a lost connection is one post more."""

import asyncio
import json

import pytest

from intake import Results, load, main


def row(store="sqlite", workers=1, **others):
    counts = {"posts": 10, "retries": 0, "refused": 0, "lost": 0, "per_second": 5.0, "worker_cpu_ms": 1.0}
    return {"store": store, "workers": workers, **counts, "worker_mb": 60.0, "stored_all": True, "load": 1.0, **others}


def test_a_row_stays_until_it_is_measured_anew(tmp_path):
    Results(tmp_path).note(row(workers=2))
    Results(tmp_path).note(row(workers=1))
    Results(tmp_path).note(row(workers=2, posts=20))
    stored = json.loads((tmp_path / "intake.json").read_text())
    assert [(each["workers"], each["posts"]) for each in stored["workers"]] == [(1, 10), (2, 20)]
    assert (tmp_path / "intake.md").read_text().count("| sqlite |") == 2


def test_rows_of_another_machine_are_not_mixed(tmp_path):
    (tmp_path / "intake.json").write_text(json.dumps({"machine": "96 cores", "workers": [], "messages": []}))
    with pytest.raises(SystemExit, match="another machine"):
        Results(tmp_path)


def test_a_part_alone_is_measured_and_one_that_fails_ends_with_an_error(tmp_path, monkeypatch):
    Results(tmp_path).note(row())
    said = {"trust": "local", "message_bytes": 1, "question_bytes": 1, "labels_right": 1.0, "counts_equal": True}
    said |= dict.fromkeys(("collect_s", "collect_cpu_s", "collect_peak_mb", "decode_s", "decode_cpu_s"), 1.0)

    def pipeline(trust, messages, folder):
        if messages == 1:
            raise OSError("no space")
        return {**said, "messages": messages, "decode_peak_mb": 1.0, "labels_equal": True}

    monkeypatch.setattr("intake.pipeline", pipeline)
    monkeypatch.setattr("sys.argv", ["intake", "--out", str(tmp_path), "--only", "local", "--messages", "1", "2"])
    with pytest.raises(SystemExit, match="1 measurements failed"):
        main()
    stored = json.loads((tmp_path / "intake.json").read_text())
    assert [each["messages"] for each in stored["messages"]] == [2]
    assert len(stored["workers"]) == 1


def test_a_reset_connection_is_tried_again_and_counted():
    seen = []

    async def answer(reader, writer):
        body = (await reader.readuntil(b"\r\n\r\n"), await reader.readexactly(1))[1]
        seen.append(body)
        if body == b"b":
            writer.write(b"HTTP/1.1 429 Too Many Requests\r\n\r\n")
        elif seen.count(body) > 1:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            writer.transport.abort()
        writer.close()

    async def run():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            return await load([server.sockets[0].getsockname()[1]], [b"a", b"b"], 10)

    found = asyncio.run(run())
    assert {name: found[name] for name in ("taken", "refused", "retries", "lost")} == {
        "taken": 1, "refused": 1, "retries": 1, "lost": 0,
    }  # fmt: skip
