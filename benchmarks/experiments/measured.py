"""One measurement at a time, kept as soon as it is made: a bench that is stopped goes on where it was."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import resource
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tacit.core import InvalidInput

__all__ = ["Memory", "code_of", "code_version", "megabytes"]

# Modules that name code in strings, which is loaded when asked for; others do so for what a run does not use.
BY_NAME = ("tacit.students.registry", "tacit.representations.registry")
# A method imports its own parts: what other methods register is not gone through.
NAMED = re.compile(r"tacit(?!\.methods\b)(\.\w+)+")
# Exporters know every kind of student; a measurement exports none.
EXPORTS = "tacit.runs.onnx"


def megabytes() -> float:
    """The most memory this process has held so far.

    >>> 1 < megabytes() < 1e7
    True
    """
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held / (1024**2 if sys.platform == "darwin" else 1024)


@cache
def code_version() -> str:
    """A digest of the package's own source, so that what was measured with other code is measured again.

    >>> len(code_version())
    16
    """
    import tacit

    digest = hashlib.sha256()
    for file in sorted(Path(str(tacit.__file__)).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


@cache
def code_of(*roots: str) -> str:
    """A digest of the statements of these modules and of all of ours that they import, by whatever way.

    >>> code_of("tacit.core.spend") == code_of("tacit.core.spend") != code_of("tacit.core.account")
    True
    """
    found: dict[str, bytes] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        source = None if name in found or name.startswith(EXPORTS) else _source_of(name)
        if source is None:
            continue
        found[name] = _statements(source)
        waiting += _imported(name, source)
    digest = hashlib.sha256()
    for name in sorted(found):
        digest.update(name.encode() + b"\0" + found[name] + b"\0")
    return digest.hexdigest()[:16]


@cache
def _statements(source: bytes) -> bytes:
    """The source without its comments and docstrings, which change no figure."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree).encode()


def _source_of(name: str) -> bytes | None:
    """The source of one of our modules, which is not imported for it; None where it is no module of ours."""
    import tacit

    homes = {"tacit": Path(str(tacit.__file__)).parent, "experiments": Path(__file__).parent}
    first, *rest = name.split(".")
    if first not in homes:
        return None
    place = homes[first].joinpath(*rest)
    files = (place.with_suffix(".py"), place / "__init__.py")
    return next((each.read_bytes() for each in files if each.is_file()), None)


@cache  # lines share most of their modules
def _imported(name: str, source: bytes) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
        elif name in BY_NAME and isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += [each.group() for each in [NAMED.match(node.value)] if each]
    return found


class Memory:
    """A folder of measurements, each named by its settings.

    >>> import tempfile
    >>> memory = Memory(Path(tempfile.mkdtemp()))
    >>> memory.recall({"seed": 1}, lambda: {"accuracy": 0.9})["accuracy"]
    0.9
    >>> memory.recall({"seed": 1}, lambda: 1 / 0)["accuracy"]
    0.9
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def recall(self, settings: Mapping[str, Any], measure: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """What was measured under these settings, or what is measured now; with its time and the memory held."""
        kept = self.kept(settings)
        if kept is not None:
            return kept
        begun, worked = time.perf_counter(), time.process_time()
        found = dict(measure())
        found |= {
            "seconds": round(time.perf_counter() - begun, 2),
            "processor seconds": round(time.process_time() - worked, 2),
            "megabytes": round(megabytes()),
            "settings": dict(settings),
        }
        self._write(settings, found)
        return found

    def adopt(self, runs: Iterable[Mapping[str, Any]]) -> None:
        """Take over measurements that were published with their settings, so that they are not made again.

        >>> import tempfile
        >>> memory = Memory(Path(tempfile.mkdtemp()))
        >>> memory.adopt([{"accuracy": 0.9, "settings": {"seed": 1}}])
        >>> memory.kept({"seed": 1})["accuracy"]
        0.9
        """
        for run in runs:
            if "settings" in run and not self._file(run["settings"]).exists():
                self._write(run["settings"], run)

    def kept(self, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """What was measured under these settings, if it was."""
        file = self._file(settings)
        if not file.exists():
            return None
        try:
            kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InvalidInput(f"{file}: not a measurement ({error}); remove it to measure again") from error
        return kept

    def _write(self, settings: Mapping[str, Any], found: Mapping[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self._file(settings)
        partial = file.with_suffix(f".{os.getpid()}.partial")
        partial.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        partial.replace(file)

    def _file(self, settings: Mapping[str, Any]) -> Path:
        words = json.dumps(settings, sort_keys=True, ensure_ascii=False)
        return self.folder / f"{hashlib.sha256(words.encode()).hexdigest()[:24]}.json"
