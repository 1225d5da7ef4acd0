"""What ``make quick`` runs: the tests that mirror what changed since main, and the examples of the changed modules.

Where nothing changed, or what changed has no tests of its own, it is the core: values, accounting and the gate. A
change of many modules is for ``make test``: here the first of them are run, and the others are counted.
"""

import subprocess
import sys
from pathlib import Path

CORE = ("tests/core", "tests/private", "tests/accounting/test_compose.py")
# Folders whose tests take longer than a quick look may: of those only the test of the changed module is run.
LONG = {"federation", "cli", "faults", "laws", "mutants", "mechanisms", "golden", "benchmarks", "audit", "runs"}
# Files that alone take as long as all others of their folder: they start clusters, servers and many processes.
ALONE = {"tests/engines/test_clusters.py", "tests/ledger/test_postgres_faults.py", "tests/ledger/test_contention.py"}
# About as many as a minute is enough for.
MOST = 12


def changed() -> list[Path]:
    """Files that differ from main, or on main from the commit before, with those that are not committed."""
    branch = _git("rev-parse", "--abbrev-ref", "HEAD").strip()
    since = "HEAD~1" if branch in ("main", "HEAD") else "main"
    names = _git("diff", "--name-only", since).split() + _git("ls-files", "--others", "--exclude-standard").split()
    return [path for path in map(Path, dict.fromkeys(names)) if path.suffix == ".py" and path.exists()]


def targets(files: list[Path]) -> list[str]:
    """Tests and modules to run for these files."""
    found: dict[str, None] = {}
    for file in files:
        if file.parts[0] == "tests":
            if file.name.startswith("test_"):
                found[str(file)] = None
            continue
        if file.parts[:2] != ("src", "tacit"):
            continue
        found[str(file)] = None
        home = Path("tests", *file.parts[2:-1])
        for beside in (home, *home.parents):
            if own := sorted(beside.glob(f"test_{file.stem}*.py")):
                found.update(dict.fromkeys(map(str, own)))
                break
        else:
            # What belongs to the folder itself; of a module beside the folders that would be everything.
            whole = [each for each in map(str, sorted(home.glob("test_*.py"))) if each not in ALONE]
            if whole and len(home.parts) > 1 and home.parts[1] not in LONG:
                found[" ".join(whole)] = None
    return list(found) or list(CORE)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    found = targets(changed())
    if len(found) > MOST:
        print(f"{len(found) - MOST} more belong to the change: make test runs them", file=sys.stderr)
    print(" ".join(found[:MOST]))
