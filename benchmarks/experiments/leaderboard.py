"""Any set of methods on the same data: measured as far as it is, kept by content and code, as a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.development import DevelopmentSet
from experiments.leaderboard_lines import LINES, OPACUS
from experiments.leaderboard_parts import DELTA, OWN, Encoded, Line, encoded, references, samples_digest
from experiments.leaderboard_public import OWN_CLASSES, ZERO_SHOT, named_lines, public_lines
from experiments.measured import Memory, code_of
from experiments.table import Result, Row
from tacit.core import InvalidInput, Unit, nearest
from tacit.datasets.samples import samples_of
from tacit.encoders.kinds import recognize

__all__ = ["EPSILONS", "FEATURES", "REFERENCES", "Board", "image_features", "reach"]

EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 8.0)


@dataclass(frozen=True)
class Board:
    """A leaderboard of one data set: measured as far as it is, kept by content and code, and written as a table."""

    data: Encoded
    memory: Memory
    lines: Mapping[str, Line]
    epsilons: Sequence[float] = EPSILONS
    runs: int = 5
    tell: Callable[[str], None] = lambda _: None
    kept: bool = False
    # What an earlier version of the code measured on the same data: shown, and marked, until it is measured again.
    earlier: Mapping[tuple[str, float], Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    found: dict[tuple[str, float], list[Mapping[str, Any]]] = field(default_factory=dict)
    measuring: Collection[str] | None = None  # the lines that are measured, where others are only shown
    # What the bench of the default measured of it on the same parts, and the fixed lines if they were written before.
    defaults: Mapping[tuple[str, float], Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    written: Mapping[str, Sequence[float]] | None = None

    @classmethod
    def of(
        cls,
        parts: DevelopmentSet,
        methods: Sequence[str],
        written: Path | None = None,
        features: str = "",
        **more: Any,  # noqa: ANN401
    ) -> Board:
        """The board of these methods, all of them known; ``written`` is the folder of an earlier one."""
        from tacit.methods.registry import METHODS

        known = {name: line for name, line in LINES.items() if line.method in METHODS or line.method in OWN}
        for each in methods:
            if each not in known:
                close = nearest(each, list(known))
                meant = f"; did you mean {close!r}?" if close else ""
                raise InvalidInput(f"unknown method {each[:80]!r}: choose one of {', '.join(known)}{meant}")
        data = encoded(parts, image_features(parts, features))
        for each in methods:
            if known[each].applies not in ("", data.kind):
                raise InvalidInput(f"{each} is for {known[each].applies}, and {parts.name} is of kind {data.kind}")
        chosen = methods or [name for name, line in known.items() if line.applies in ("", data.kind)]
        earlier = {} if written is None else _earlier(written / f"leaderboard-{parts.name}.json", data.content)
        defaults = {} if written is None else _defaults(written / "defaults.json", parts, data.content)
        more["memory"].adopt(run for runs in earlier.values() for run in runs)
        asked = [name for name in known if name in chosen or any(name == line for line, _ in (*earlier, *defaults))]
        made = cls(data, lines={name: known[name] for name in asked}, earlier=earlier, defaults=defaults, **more)
        return replace(made, measuring=frozenset(chosen))

    @classmethod
    def again(cls, parts: DevelopmentSet, written: Path, memory: Memory) -> Board:
        """The board that was written down, with what is known since; only names that were not asked need samples."""
        file = written / f"leaderboard-{parts.name}.json"
        if not file.is_file():
            raise InvalidInput(f"{file}: no board was written there; leave out --again to measure one")
        rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
        measured = [row for row in rows if row["names"].get("ε")]
        content = samples_digest(parts)
        if all(run.get("settings", {}).get("content") != content for row in measured for run in row["runs"]):
            raise InvalidInput(f"{file}: the board was measured on other samples; leave out --again to measure these")
        empty = [np.empty((len(each), 0)) for each in (parts.private[1], parts.public_labels, parts.test[1])]
        knowledge = next(row["names"]["public knowledge"] for row in measured if row["names"]["method"] != "auto")
        kind = recognize(samples_of(parts.public)).kind
        data = Encoded(parts, empty[0], empty[1], empty[2], knowledge, content, kind, image_features(parts))
        earlier, defaults = _earlier(file, content), _defaults(written / "defaults.json", parts, content)
        memory.adopt(run for runs in earlier.values() for run in runs)
        asked = [name for name in LINES if any(name == line for line, _ in (*earlier, *defaults))]
        fixed = {
            row["names"]["method"]: [run["test"] for run in row["runs"]] for row in rows if not row["names"].get("ε")
        }
        lines = {name: LINES[name] for name in asked}
        return cls(data, memory, lines, earlier=earlier, defaults=defaults, written=fixed, kept=True)

    def measure(self) -> None:
        """All runs: each seed of every line before the next, so that a board that is stopped is even.

        Those of which earlier code has measured nothing come first.
        """
        before = self.shown()
        for name, line, epsilon, seed in sorted(self._runs(), key=lambda run: run[3] in _seeds(before, run[0], run[2])):
            about = line.about(name, self.data, epsilon, seed)
            found = self.memory.kept(about)
            if found is None and not self.kept:
                found = self.memory.recall(about, partial(line.measure, self.data, epsilon, seed))
                self.tell(
                    f"{self.data.parts.name} {name} ε = {epsilon:g} seed {seed}: {found['test']:.4f}, "
                    f"{found['seconds']:.0f} s"
                )
            if found is not None:
                self.found.setdefault((name, epsilon), []).append(found)

    def _runs(self) -> Iterator[tuple[str, Line, float, int]]:
        for seed in range(self.runs):
            for name, line in self.lines.items():
                if self.measuring is None or name in self.measuring:
                    yield from ((name, line, epsilon, seed) for epsilon in self.epsilons)

    def shown(self) -> dict[tuple[str, float], Sequence[Mapping[str, Any]]]:
        """The runs of every line and ε in the order of the lines: of each seed that of this code, else an earlier one.

        An earlier run is one of the default's bench, unless that bench has older ones than the board.
        """
        before = self._before()
        known: dict[tuple[str, float], Sequence[Mapping[str, Any]]] = {}
        for name in self.lines:
            for at in sorted({each for line, each in (*before, *self.found) if line == name}):
                runs = (*before.get((name, at), ()), *self.found.get((name, at), ()))
                by_seed = {_seed(run, place): run for place, run in enumerate(runs)}
                known[name, at] = [by_seed[seed] for seed in sorted(by_seed)]
        return known

    def _before(self) -> dict[tuple[str, float], Sequence[Mapping[str, Any]]]:
        older = {cell: runs for cell, runs in self.defaults.items() if runs[0]["bench"] == "earlier"}
        return {**older, **self.earlier, **{cell: self.defaults[cell] for cell in self.defaults if cell not in older}}

    def references(self) -> Mapping[str, Sequence[float]]:
        """The lines that do not depend on ε: ε = 0 first, no privacy last; several figures where names are drawn."""
        guess, clusters, plain = REFERENCES
        about = {"board": self.data.parts.name, "content": self.data.content, "knowledge": self.data.knowledge,
                 "line": "references", "code": code_of("experiments.leaderboard_parts")}  # fmt: skip
        if self.written is not None:
            about |= {"line": "names of classes", "code": code_of("experiments.leaderboard_public")}
            known = {name: self.written[name] for name in (OWN_CLASSES, ZERO_SHOT) if name in self.written}
            named = known or self.memory.recall(about, lambda: {"lines": named_lines(self.data)})["lines"]
            first = {name: values for name, values in self.written.items() if name not in (clusters, plain)}
            return {**first, **named, clusters: self.written[clusters], plain: self.written[plain]}
        fixed = self.memory.recall(about, partial(references, self.data))
        about |= {"line": "public knowledge", "code": code_of("experiments.leaderboard_public")}
        public = self.memory.recall(about, lambda: {"lines": public_lines(self.data)})["lines"]
        return {guess: [fixed[guess]], **public, clusters: [fixed[clusters]], plain: [fixed[plain]]}

    def result(self) -> Result:
        """The table of what was measured."""
        rows, data = [], self.data
        for (name, epsilon), runs in self.shown().items():
            line, last = self.lines[name], runs[-1]
            rows.append(
                Row(
                    {
                        "method": name,
                        "ε": f"{epsilon:g}",
                        "protects": str(last["unit"]),
                        "adjacency": str(last["adjacency"]),
                        "δ": f"{last['delta']:g}",
                        "trust": str(last["trust"]),
                        "questions": str(last["questions"]),
                        "queries": str(last.get("queries") or ""),
                        "public samples": str(len(data.public)),
                        "public knowledge": data.knowledge if line.method != "auto" else "its own choice of encoders",
                        "test interval": f"± {reach(_mean(runs), len(data.test)):.1f}",
                        "code": self.measured_by(name, epsilon),
                    },
                    runs,
                )
            )
        for name, values in self.references().items():
            said = dict.fromkeys(rows[0].names if rows else ("method",), "") | {"method": name}
            rows.append(Row(said, [{"test": value} for value in values]))
        return Result(
            f"leaderboard-{data.parts.name}",
            f"{len(data.private):,} private records, {len(data.public):,} public samples, {len(data.test):,} for the "
            f"test, {data.classes} classes: mean test accuracy, %.",
            rows,
            {"test": 100.0, "labels": 100.0, "processor seconds": 1.0, "megabytes": 1.0},
            self._notes(),
        ).measured()

    def measured_by(self, name: str, epsilon: float) -> str:
        """Whose code: this one, that of the default's bench, or an earlier one, if only of some runs."""
        cell = (name, epsilon)
        if cell not in self.found and cell in self.defaults and self._before()[cell] is self.defaults[cell]:
            return "defaults"
        code = self.lines[name].code()
        runs = self.shown()[name, epsilon]
        return "this" if all(run.get("settings", {}).get("code") == code for run in runs) else "earlier"

    def _notes(self) -> list[str]:
        count = len(self.data.test)
        shown = {name for name, _ in self.shown()}
        chosen = "; ".join(f"{name}: {line.chosen}" for name, line in self.lines.items() if name in shown)
        missing = ", ".join(name for name in self.lines if name not in shown)
        return [
            "Seeded runs: simulations, on the same parts. One curator has all records. Public samples are assumed to "
            "hold no private one.",
            f"The test part has {count:,} samples. By it alone a figure of 95 % has a 95 % interval of ± "
            f"{reach(95, count):.1f} points, one of 80 % of ± {reach(80, count):.1f}, one of 50 % of ± "
            f'{reach(50, count):.1f}: the column "test interval". The spread ± is over runs, which share that part.',
            f"Settings, none chosen on private records: {chosen}. The schedule of privatekt, and that two layers and "
            "private_knn take raw samples, were chosen with test figures of the digits in sight; so were PATE's rule, "
            "the steps of two layers, (of MNIST) what students of votes and sums see, and (of Adult) that Private k-NN "
            "has fewer neighbors than a class's share: in favor of these lines on most sets.",
            "label_dp protects labels only and is for orientation. privatekt, fedmd response and fedmd ldp protect a "
            "holder with all its records, the others one record: their ε are not to be compared.",
            "Lines at ε = 0 use no record: names drawn at random (runs are draws), ImageNet's classes that have a "
            "class's name, the cosine of MiniLM's vectors of a text and of a class's name. An oracle knows the test "
            "labels: it says what clusters or one answer for all are worth, not what a method reaches.",
            *([FLOATS] if any(self.lines[name].chosen == OPACUS for name in shown) else []),
            "megabytes is the most that the process had held by then. Seconds are of a processor; "
            "features of MiniLM and EfficientNet are computed once and not counted, histograms of gradients once per "
            "process, in the line that asks for them first.",
            *([f"Not measured, for want of processor time: {missing}."] if missing else []),
            "Each run in the JSON file names the digest of the code that it was measured with, and that of the samples "
            "(content), by which this board is known: figures of other parts are never beside these. Lines marked "
            "earlier were measured with an earlier version of the code, on the same samples, and not again, or not in "
            "every run; those marked defaults by the bench of the default (defaults.md), on the same parts.",
        ]


def image_features(parts: DevelopmentSet, asked: str = "") -> tuple[str, str] | None:
    """The features of images for sums and for votes: those asked for, else the default's; None for other samples."""
    if recognize(samples_of(parts.public)).kind != "images":
        if asked:
            raise InvalidInput(f"features are for images, and {parts.name} is of another kind: leave them out")
        return None
    if not asked:
        from tacit.methods.auto.plan import image_parts

        return image_parts(np.asarray(parts.public))[:2]
    if asked not in FEATURES:
        raise InvalidInput(f"unknown features {asked[:80]!r}: choose one of {', '.join(FEATURES)}")
    return asked, FEATURES[asked]


def reach(accuracy: float, samples: int) -> float:
    """Half of the 95 % interval that a test part of so many samples gives an accuracy in percent, in points.

    >>> round(reach(80.0, 10_000), 1)
    0.8
    """
    return float(1.96 * np.sqrt(max(accuracy * (100 - accuracy), 0.0) / samples))


def _mean(runs: Sequence[Mapping[str, Any]]) -> float:
    return 100 * float(np.mean([run["test"] for run in runs]))


def _seed(run: Mapping[str, Any], place: int) -> int:
    """The seed of a run; of one that does not say it, its place."""
    return int(run.get("settings", {}).get("seed", place))


def _seeds(known: Mapping[tuple[str, float], Sequence[Mapping[str, Any]]], name: str, epsilon: float) -> set[int]:
    return {_seed(run, place) for place, run in enumerate(known.get((name, epsilon), ()))}


def _earlier(file: Path, content: str) -> dict[tuple[str, float], list[Mapping[str, Any]]]:
    """The runs that were written down before, of the same data."""
    if not file.is_file():
        return {}
    found: dict[tuple[str, float], list[Mapping[str, Any]]] = {}
    for row in json.loads(file.read_text(encoding="utf-8"))["rows"]:
        runs = [run for run in row["runs"] if run.get("settings", {}).get("content") == content]
        if runs and row["names"].get("ε") and row["names"]["method"] in LINES:
            found[row["names"]["method"], float(row["names"]["ε"])] = runs
    return found


def _defaults(file: Path, parts: DevelopmentSet, content: str) -> dict[tuple[str, float], list[Mapping[str, Any]]]:
    """The runs of the default that its own bench has written down: the same call, on the same samples if it says so."""
    if not file.is_file():
        return {}
    unit = str(parts.settings().get("unit", Unit()).in_words)
    said = {"unit": unit, "adjacency": "replace-one", "delta": DELTA, "trust": "central", "questions": ""}
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    ours = {"data": parts.name, "line": f"default, δ = {DELTA:g}"}.items()
    found: dict[tuple[str, float], list[Mapping[str, Any]]] = {
        ("auto", float(row["names"]["ε"])): [
            {**run, **said, "bench": row["names"].get("code", "this")}
            for run in row["runs"]
            if run.get("content", content) == content
        ]
        for row in rows
        if ours <= row["names"].items()
    }
    return {cell: runs for cell, runs in found.items() if runs}


# What images are summed by, and what they are voted on in: a map of the pixels themselves.
FEATURES = {"identity": "spectral", "gradients": "gradients", "imagenet": "imagenet"}
FLOATS = (
    "noisy_sgd two layers and fine-tuned: noise in floating point by Opacus, from no cryptographic generator, as their "
    "guarantee says; for records that are added or removed."
)
REFERENCES = (
    "ε = 0: a guess among the classes",
    "ε = 0: public clusters, named by an oracle",
    "no privacy: the same regression on the records",
)
