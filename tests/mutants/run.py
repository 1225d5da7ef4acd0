"""Apply every privacy mutant to a copy of the sources and see whether its tests notice.

First all named tests run on an unchanged copy and must pass. Then each mutant is applied alone and its own tests run;
the table of what killed it goes to docs/results. Exit code 1 if one survives, 2 if the list does not fit the tree.
Run: python -m tests.mutants.run [--only AREA/NAME] [--list]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutants import AREAS, ROOT, Mutant, WrongMutant, read

RESULTS = ROOT / "docs" / "results"
SECONDS = 120
# A test by its name. A file that cannot even be imported has no "::", and proves nothing.
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?::.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant: killed, killed by timeout, survived, equivalent, or an error of the list."""

    mutant: Mutant
    verdict: str
    by: str
    seconds: float


class Copy:
    """The sources in a folder of their own, where one file at a time is changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(Path(__file__).with_name("imported_copy.py"), folder / "imported_copy.py")

    def write(self, file: str, text: str) -> None:
        path = self.folder / "src" / "tacit" / file
        path.write_text(text, encoding="utf-8")
        # Python compares whole seconds and sizes: a mutant of equal length could be taken for the original.
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)

    def test(self, tests: list[str], seconds: float) -> tuple[int | None, str]:
        """pytest's exit code, or None if it did not end, and what it said."""
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(self.folder / "src"), str(self.folder)]),
            "TACIT_MUTATED_COPY": str(self.folder),
            "OMP_NUM_THREADS": "1",
            # Temporary folders of its own: runs side by side remove each other's old ones.
            "PYTEST_DEBUG_TEMPROOT": str(self.folder),
        }
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=line", "-p", "imported_copy", *tests]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            # Its own group, so that what a test started ends with it.
            os.killpg(process.pid, 9)
            process.communicate()
            return None, ""
        return process.returncode, output


def tried(mutant: Mutant, copies: queue.Queue[Copy]) -> Outcome:
    """The verdict on one mutant."""
    if mutant.equivalent:
        return Outcome(mutant, "equivalent", mutant.equivalent, 0.0)
    original = (ROOT / "src" / "tacit" / mutant.file).read_text(encoding="utf-8")
    copy = copies.get()
    started = time.perf_counter()
    try:
        copy.write(mutant.file, mutant.applied(original))
        code, output = copy.test(list(mutant.tests), SECONDS)
        seconds = time.perf_counter() - started
    finally:
        copy.write(mutant.file, original)
        copies.put(copy)
    if code is None:
        return Outcome(mutant, "killed by timeout", f"no end within {SECONDS} seconds", seconds)
    if code == 0:
        return Outcome(mutant, "survived", "", seconds)
    failed = FAILED.search(output)
    # Exit code 1 is a failed test. Anything else (nothing collected, another package imported) proves nothing.
    if code != 1 or failed is None:
        return Outcome(mutant, "error", output.strip()[-2000:], seconds)
    return Outcome(mutant, "killed", failed.group(1), seconds)


def write_results(outcomes: list[Outcome]) -> None:
    """The table, as text and as data."""
    killed = sum(each.verdict.startswith("killed") for each in outcomes)
    counted = sum(each.verdict != "equivalent" for each in outcomes)
    rows = [
        {
            "area": each.mutant.area,
            "mutant": each.mutant.name,
            "file": each.mutant.file,
            "breaks": each.mutant.breaks,
            "verdict": each.verdict,
            "by": each.by,
            "seconds": round(each.seconds, 1),
        }
        for each in outcomes
    ]
    caption = f"{killed} of {counted} single-line privacy mutants are killed by the tests named for them."
    content = {"name": "mutants", "caption": caption, "rows": rows}
    lines = [
        "# mutants",
        "",
        f"{caption} Run again: `make mutants`.",
        "",
        "| area | killed | survived | equivalent | seconds |",
        "| --- | --- | --- | --- | --- |",
    ]
    for area in AREAS:
        of = [each for each in outcomes if each.mutant.area == area]
        numbers = [sum(each.verdict.startswith(word) for each in of) for word in ("killed", "survived", "equivalent")]
        lines.append(f"| {area} | {' | '.join(map(str, numbers))} | {sum(each.seconds for each in of):.0f} |")
    lines += [
        "",
        "| area | mutant | what it breaks | verdict | by | seconds |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        by = str(row["by"]).removeprefix("tests/").replace("|", "\\|")
        cells = (row["area"], row["mutant"], row["breaks"], row["verdict"], by, row["seconds"])
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    replace_file(RESULTS / "mutants.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    replace_file(RESULTS / "mutants.md", "\n".join(lines) + "\n")


def replace_file(path: Path, text: str) -> None:
    """Never a half-written file."""
    beside = path.with_suffix(path.suffix + ".part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def chosen(only: list[str]) -> list[Mutant]:
    """The mutants of these areas or names; all of them if none is named."""
    mutants = read()
    if not only:
        return mutants
    if unknown := [each for each in only if not any(each in (m.title, m.area) for m in mutants)]:
        raise WrongMutant(f"no such mutant or area: {', '.join(unknown)}; --list shows all")
    return [mutant for mutant in mutants if mutant.title in only or mutant.area in only]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", action="append", default=[], metavar="AREA[/NAME]", help="only these; no file is written"
    )
    parser.add_argument("--list", action="store_true", help="show the mutants and run nothing")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    try:
        mutants = chosen(arguments.only)
        for mutant in mutants:
            mutant.applied((ROOT / "src" / "tacit" / mutant.file).read_text(encoding="utf-8"))
    except (WrongMutant, OSError, SyntaxError) as error:
        print(f"the list of mutants does not fit the tree: {error}", file=sys.stderr)
        return 2
    if arguments.list:
        for mutant in mutants:
            print(f"{mutant.title}: {mutant.breaks}{' (equivalent)' if mutant.equivalent else ''}")
        return 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies: queue.Queue[Copy] = queue.Queue()
        for number in range(arguments.workers):
            copies.put(Copy(Path(folder) / str(number)))
        unchanged = copies.get()
        named = sorted({test for mutant in mutants if not mutant.equivalent for test in mutant.tests})
        code, output = unchanged.test(named, 60.0 + 10 * len(named))
        copies.put(unchanged)
        if code != 0:
            print(f"the named tests fail without any mutant:\n{output[-4000:]}", file=sys.stderr)
            return 2
        print(f"{len(named)} named tests or files pass without a mutant", flush=True)
        outcomes = []
        with ThreadPoolExecutor(arguments.workers) as pool:
            for outcome in pool.map(lambda mutant: tried(mutant, copies), mutants):
                print(
                    f"{outcome.verdict:<18} {outcome.mutant.title:<44} {outcome.seconds:5.1f} s  {outcome.by}",
                    flush=True,
                )
                outcomes.append(outcome)
    if not arguments.only:
        write_results(outcomes)
    survived = [each.mutant.title for each in outcomes if each.verdict == "survived"]
    errors = [each.mutant.title for each in outcomes if each.verdict == "error"]
    killed = sum(each.verdict.startswith("killed") for each in outcomes)
    print(f"{killed} killed, {len(survived)} survived, {len(errors)} errors")
    for title in survived:
        print(f"survived: {title}")
    for title in errors:
        print(f"error: {title}")
    return 1 if survived else 2 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
