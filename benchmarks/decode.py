"""Speed and memory of decoding randomized messages into counts, and speed of encoding them.

Decode: 100,000 local-hashing messages (Collision with one cell per client, ε = 1) over 5,000 cells, against pure-ldp
and multi-freq-ldpy, which are installed into an environment of their own. Each library decodes messages of its own
clients, made from the same true cells; errors are shown, so that nobody is fast by being wrong. The libraries hash
in a Python loop, whose time is proportional to the number of messages, so by default they get a tenth of the
messages and their time is multiplied by ten; ``--full`` gives them all. Tacit decodes before and after each library,
five times each, and the fastest counts: on a busy machine two threads wait for each other. Processor time, of all
threads together, is shown beside. Goal: at least 300 times faster than either, by the clock on the wall.
Memory: 1,000,000 messages, in a process of its own; the peak of resident memory above what was resident with the
messages loaded. Goal: below 300 MB.
Encode: messages per second on one core for each mechanism, and how that changes with the number of cells.
Structured peers (``--structured``): projective geometry response and Hadamard response, whose decoders are one fast
transform, written for this comparison in numpy (peers/structured.py), and Tacit's two. Errors differ, so each gets the
messages that it needs for the error of the best. Writes docs/results/decode-structured.json and .md.

Run: python benchmarks/decode.py [--full | --structured]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tacit.core import LocalMechanism, SystemRandomness
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.keyed_hash import count_hits
from tacit.mechanisms.local.linear_hashing import LinearHashing
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.unary_encoding import LocalLaplace, UnaryEncoding

CLIENTS, CELLS, EPSILON = 100_000, 5_000, 1
MANY = 1_000_000
FASTER, MEGABYTES = 300, 300
# What each library needs beside itself is not all in its own requirements.
PEERS = {
    "pure-ldp": ("pure-ldp", "scikit-learn", "statsmodels", "xxhash<4"),
    "multi-freq-ldpy": ("multi-freq-ldpy", "xxhash<4"),
}
SCRIPT = Path(__file__).with_name("peers") / "decode.py"


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def clocks(work: Callable[[], object]) -> np.ndarray:
    """Seconds on the wall and of all processors together."""
    start = np.array([time.perf_counter(), time.process_time()])
    work()
    return np.array([time.perf_counter(), time.process_time()]) - start


def true_cells(clients: int, cells: int) -> np.ndarray:
    """Cells with a few that are frequent and many that are rare."""
    generator = np.random.default_rng(7)
    return (cells * generator.random(clients) ** 3).astype(np.int64)


def environment(library: str) -> Path | None:
    """The Python of an environment with that library, made on first use; none if it cannot be installed."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tacit" / "peers" / library
    python = cache / "bin" / "python"
    stamp = cache / "installed"
    if not stamp.exists():
        print(f"  installing {library} into an environment of its own", file=sys.stderr)
        venv.create(cache, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PEERS[library]]
        result = subprocess.run(install, capture_output=True, text=True, check=False)
        if result.returncode:
            print(f"  {library} could not be installed: {result.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
            return None
        stamp.touch()
    return python


def peer(library: str, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Seconds (wall, processor) and counts of a library's decode, or nothing if it does not run here."""
    python = environment(library)
    if python is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "truth.npy"
        np.save(path, truth)
        result = subprocess.run(
            [str(python), str(SCRIPT), library, str(path), str(CELLS), str(EPSILON)],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    if result.returncode:
        print(f"  {library} did not run; see its message above", file=sys.stderr)
        return None
    answer = json.loads(result.stdout)
    return np.array([answer["wall"], answer["processor"]]), np.array(answer["counts"])


def positive_and_normal(counts: np.ndarray, clients: int) -> np.ndarray:
    """What multi-freq-ldpy does to its estimates before it returns them."""
    clipped = counts.clip(0)
    return clipped * clients / clipped.sum()


def error(found: np.ndarray, true: np.ndarray) -> str:
    """Squared error per cell and message."""
    return f"{((found - true) ** 2).mean() / true.sum():.3f}"


def short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def decode_row(name: str, spent: np.ndarray, ours: np.ndarray, found: np.ndarray, true: np.ndarray) -> str:
    clipped = error(positive_and_normal(found, true.sum()), true)
    # multi-freq-ldpy never shows the estimates before it clips them.
    raw = error(found, true) if (found < 0).any() else ""
    ratios = " | ".join(f"{short(each)} | {short(each / best)}" for each, best in zip(spent, ours, strict=True))
    return f"| {name} | {ratios} | {raw} | {clipped} |"


def decode_table(full: bool) -> bool:
    """Times, ratios and errors of all decoders; whether the goal was met."""
    truth = true_cells(CLIENTS, CELLS)
    true = np.bincount(truth, minlength=CELLS)
    mechanism = Collision(CELLS, 1, EPSILON)
    messages = mechanism.encode(truth[:, None], SystemRandomness())
    estimates = mechanism.decode(messages).counts
    runs: list[np.ndarray] = []

    def again() -> None:
        runs.extend(clocks(lambda: mechanism.decode(messages)) for _ in range(5))

    again()
    share = CLIENTS if full else CLIENTS // 10
    some = true_cells(share, CELLS)
    answers = {}
    for library in PEERS:
        answers[library] = peer(library, some)
        again()
    ours = np.min(runs, axis=0)
    buckets = messages[:, 2].astype(np.int64)
    plain = clocks(lambda: count_hits(messages[:, :2], buckets, mechanism.length, CELLS, compiled=False))
    linear = LinearHashing(CELLS, 1, EPSILON)
    numbers = linear.encode(truth[:, None], SystemRandomness())
    fast = np.min([clocks(lambda: linear.decode(numbers)) for _ in range(5)], axis=0)

    print(f"\nDecode: {CLIENTS:,} messages over {CELLS:,} cells, epsilon = {EPSILON}")
    print(f"theory: squared error per cell and message {mechanism.mean_squared_error:.3f}\n")
    print("| decoder | wall s | times | processor s | times | error | error, clipped and normalized |")
    print("|---|---|---|---|---|---|---|")
    print(decode_row(f"Tacit, compiled, {len(os.sched_getaffinity(0))} threads", ours, ours, estimates, true))
    print(decode_row("Tacit, numpy only", plain, ours, estimates, true))
    print(decode_row("Tacit, linear hashing", fast, ours, linear.decode(numbers).counts, true))
    met = True
    for library, answer in answers.items():
        if answer is None:
            print(f"| {library} | not available here | | | | | |")
            continue
        spent = answer[0] * CLIENTS / share
        met = met and bool(spent[0] >= FASTER * ours[0])
        name = library if full else f"{library} ({answer[0][0]:.1f} s for {share:,}, times {CLIENTS // share})"
        print(decode_row(name, spent, ours, answer[1], np.bincount(some, minlength=CELLS)))
    if not full:
        there = np.bincount(some, minlength=CELLS)
        found = mechanism.decode(mechanism.encode(some[:, None], SystemRandomness())).counts
        clipped = error(positive_and_normal(found, share), there)
        print(
            f"\nTacit's errors with {share:,} messages, as the libraries had: {error(found, there)}, clipped {clipped}"
        )
    print(f"\nGoal of {FASTER} times: {'met' if met else 'NOT MET'}")
    return met


def memory_child(path: str) -> None:
    """Decode the messages of a file and print how far the peak of resident memory rose above the start."""
    messages = np.load(path)
    mechanism = Collision(CELLS, 1, EPSILON)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    before = pages * resource.getpagesize() / 2**20
    spent = seconds(lambda: mechanism.decode(messages))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(json.dumps({"seconds": spent, "megabytes": peak - before, "input": messages.nbytes / 2**20}))


def memory() -> bool:
    """The peak of memory for a million messages; whether the goal was met."""
    mechanism = Collision(CELLS, 1, EPSILON)
    messages = mechanism.encode(true_cells(MANY, CELLS)[:, None], SystemRandomness())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "messages.npy"
        np.save(path, messages)
        result = subprocess.run(
            [sys.executable, __file__, "--memory-child", str(path)], stdout=subprocess.PIPE, text=True, check=True
        )
    found = json.loads(result.stdout)
    print(f"\nMemory: {MANY:,} messages over {CELLS:,} cells decoded in {found['seconds']:.1f} s with loading;")
    print(f"peak {found['megabytes']:.0f} MB above the {found['input']:.0f} MB of input")
    met = bool(found["megabytes"] < MEGABYTES)
    print(f"Goal of {MEGABYTES} MB: {'met' if met else 'NOT MET'}")
    return met


def encode_table() -> None:
    """Messages a second on one core, by mechanism and number of cells."""
    makers: dict[str, Callable[[int], LocalMechanism]] = {
        "generalized response": lambda cells: GeneralizedRandomizedResponse(cells, 1, EPSILON),
        "linear hashing": lambda cells: LinearHashing(cells, 1, EPSILON),
        "Collision, c = 1": lambda cells: Collision(cells, 1, EPSILON),
        "Collision, c = 4": lambda cells: Collision(cells, 4, EPSILON),
        "bit response": lambda cells: UnaryEncoding(cells, 1, EPSILON),
        "subset selection, c = 1": lambda cells: SubsetSelection(cells, 1, EPSILON),
        "subset selection, c = 4": lambda cells: SubsetSelection(cells, 4, EPSILON),
        "discrete Laplace": lambda cells: LocalLaplace(cells, 1, EPSILON),
    }
    sizes = (100, 1_000, 10_000)
    print("\nEncode: messages per second on one core (one thread, processor time), epsilon = 1, system randomness\n")
    print("| mechanism | " + " | ".join(f"{cells:,} cells" for cells in sizes) + " | cost grows with cells as |")
    print("|---|" + "---|" * (len(sizes) + 1))
    for name, make in makers.items():
        speeds = []
        for cells in sizes:
            mechanism = make(cells)
            clients = 200_000 if mechanism.message_bits < 200 else max(500, 4_000_000 // cells)
            first = np.random.default_rng(1).integers(0, cells - mechanism.ones, (clients, 1))
            held = first + np.arange(mechanism.ones)
            mechanism.encode(held[:10], SystemRandomness())
            started = time.process_time()
            mechanism.encode(held, SystemRandomness())
            speeds.append(clients / (time.process_time() - started))
        power = math.log(speeds[0] / speeds[-1]) / math.log(sizes[-1] / sizes[0])
        print(f"| {name} | " + " | ".join(f"{speed:,.0f}" for speed in speeds) + f" | d^{max(0.0, power):.2f} |")


def structure_table() -> None:
    """What a structured hash costs in variance."""
    print(
        "\nVariance on zeros (c = 1, 5,000 cells): hash with the best number of buckets, linear, Hadamard (2 buckets)\n"
    )
    print("| epsilon | local hashing (l) | linear hashing (l) | Hadamard response |")
    print("|---|---|---|---|")
    for epsilon in ("0.4", "1", "1.6", "2", "3", "4"):
        hashed, linear = Collision(CELLS, 1, epsilon), LinearHashing(CELLS, 1, epsilon)
        two = Collision(CELLS, 1, epsilon, length=2).variance_zero
        print(
            f"| {epsilon} | {hashed.variance_zero:.6f} ({hashed.length}) "
            f"| {linear.variance_zero:.6f} ({linear.size}), {linear.variance_zero / hashed.variance_zero - 1:+.2%} "
            f"| {two:.6f}, {two / hashed.variance_zero - 1:+.2%} |"
        )


def structured_table() -> None:
    """Fast decoders beside each other, with as many messages each as give the same error."""
    from experiments.table import Result, Row, write_result
    from peers.structured import HadamardResponse, ProjectiveResponse

    rows, random = [], np.random.default_rng(11)
    for epsilon in (1, 2):
        collision, linear = Collision(CELLS, 1, epsilon), LinearHashing(CELLS, 1, epsilon)
        hadamard, projective = HadamardResponse(CELLS, epsilon), ProjectiveResponse(CELLS, epsilon)
        places = projective.places()
        ways: dict[str, tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]] = {
            "Tacit, Collision, compiled": (
                lambda cells, made=collision: made.encode(cells[:, None], SystemRandomness()),
                lambda messages, made=collision: made.decode(messages).counts,
            ),
            "Tacit, linear hashing": (
                lambda cells, made=linear: made.encode(cells[:, None], SystemRandomness()),
                lambda messages, made=linear: made.decode(messages).counts,
            ),
            "Hadamard response, numpy": (
                lambda cells, made=hadamard: made.encode(cells, random),
                lambda messages, made=hadamard: made.decode(messages),
            ),
            "projective geometry response, numpy": (
                lambda cells, made=projective: made.encode(cells, random),
                lambda messages, made=projective, known=places: made.decode(messages, known),
            ),
        }
        found = {name: _timed(*way, CLIENTS) for name, way in ways.items()}
        best = min(each["error"] for each in found.values())
        for name, way in ways.items():
            needed = math.ceil(CLIENTS * found[name]["error"] / best)
            equal = _timed(*way, needed)
            run = found[name] | {"messages": needed, "processor, equal error": equal["processor"]}
            rows.append(Row({"decoder": name, "ε": str(epsilon)}, [run]))
    result = Result(
        "decode-structured",
        f"Counts of {CELLS:,} cells from {CLIENTS:,} messages: processor milliseconds of one decode, squared error per "
        "cell and message, how many messages give the smallest error of the four at that ε, and the time for these.",
        rows,
        {"processor": 1000.0, "error": 1.0, "messages": 1.0, "processor, equal error": 1000.0},
        [
            "The fastest of five decodes; compilation and public tables are made before. Errors are of one draw.",
            "Hadamard response and projective geometry response are written anew from their papers in numpy, with "
            "numpy's randomness and float probabilities, for this comparison only.",
        ],
    )  # fmt: skip
    print(result.markdown())
    write_result(result, Path(__file__).parent.parent / "docs" / "results")


def _timed(
    encode: Callable[[np.ndarray], np.ndarray], decode: Callable[[np.ndarray], np.ndarray], clients: int
) -> dict[str, float]:
    """The fastest of five decodes and its error."""
    truth = true_cells(clients, CELLS)
    messages = encode(truth)
    counts = decode(messages)
    processor = min(clocks(lambda: decode(messages))[1] for _ in range(5))
    true = np.bincount(truth, minlength=CELLS)
    return {"processor": float(processor), "error": float(((counts - true) ** 2).mean() / clients)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="give the other libraries all messages: many minutes")
    parser.add_argument("--structured", action="store_true", help="only the decoders that are one fast transform")
    parser.add_argument("--memory-child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_child:
        memory_child(options.memory_child)
        return 0
    if options.structured:
        structured_table()
        return 0
    print(
        f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}, numpy {np.__version__}"
    )
    encode_table()
    structure_table()
    small = memory()
    quick = decode_table(options.full)
    return 0 if small and quick else 1


if __name__ == "__main__":
    raise SystemExit(main())
