"""Mulan's multi-label format: an ARFF file of samples with their labels, and an XML file that names the labels.

Attributes that the XML file lists are labels, all others features. Rows are dense (``0.5,1,0``) or sparse
(``{3 1,7 1}``: the attributes that are not 0). The XML file lies beside the ARFF file and has its name, without
``-train`` or ``-test``: ``yeast-train.arff`` and ``yeast.xml``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput, listed
from tacit.core.samples import Named
from tacit.datasets.table_files import open_text

__all__ = ["read_mulan"]

_PART = re.compile(r"-(train|test)$")
# The name, quoted if it has blanks, and the type.
_ATTRIBUTE = re.compile(r"""@attribute\s+('(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\S+)\s+(.+)""", re.IGNORECASE)
_NUMBERS = ("numeric", "real", "integer")


def read_mulan(path: str | Path) -> tuple[Named, Named]:
    """The samples and their label sets, each with the names of its columns.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "toy-train.arff"
    >>> _ = file.write_text("@relation toy\\n@attribute x numeric\\n@attribute sad {0,1}\\n@data\\n0.5,1\\n{0 2}\\n")
    >>> _ = file.with_name("toy.xml").write_text('<labels><label name="sad"></label></labels>')
    >>> samples, sets = read_mulan(file)
    >>> samples.values.tolist(), sets.columns, sets.values.tolist()
    ([[0.5], [2.0]], ('sad',), [[True], [False]])
    """
    path = Path(path)
    labels = _label_names(path.with_name(f"{_PART.sub('', path.name.partition('.arff')[0])}.xml"))
    with open_text(path) as file:
        lines = ((number, line.strip()) for number, line in enumerate(file, start=1))
        lines = ((number, line) for number, line in lines if line and not line.startswith("%"))
        names = _attributes(path, lines)
        rows = [_row(path, number, line, len(names)) for number, line in lines]
    if missing := [name for name in labels if name not in names]:
        raise InvalidInput(f"{path}: no attribute {listed(missing)}, which the XML file lists as a label")
    if not rows:
        raise InvalidInput(f"{path}: the file has no rows")
    table = np.array(rows)
    chosen = [names.index(name) for name in labels]
    others = [place for place in range(len(names)) if place not in set(chosen)]
    sets = table[:, chosen]
    if not np.isin(sets, (0, 1)).all():
        raise InvalidInput(f"{path}: labels must be 0 or 1")
    features = Named(np.ascontiguousarray(table[:, others]), tuple(names[place] for place in others))
    return features, Named(sets.astype(np.bool_), tuple(labels))


def _label_names(file: Path) -> list[str]:
    """The labels in the XML file, in its order; nothing that a document type declares is used."""
    names: list[str] = []

    def element(tag: str, attributes: dict[str, str]) -> None:
        if tag.rpartition(":")[2] == "label" and "name" in attributes:
            names.append(attributes["name"])

    def declared(*_: object) -> None:
        raise InvalidInput(f"{file}: a document type is not read")

    parser = expat.ParserCreate()
    parser.StartElementHandler = element
    parser.StartDoctypeDeclHandler = declared
    try:
        parser.Parse(file.read_bytes(), True)
    except FileNotFoundError:
        raise InvalidInput(f"{file}: no such file; Mulan names the labels in it") from None
    except expat.ExpatError as error:
        raise InvalidInput(f"{file}: not an XML file of labels (line {error.lineno})") from None
    if not names or len(set(names)) < len(names):
        raise InvalidInput(f"{file}: must list at least one label, and none twice")
    return names


def _attributes(path: Path, lines: Iterator[tuple[int, str]]) -> list[str]:
    """The names of the attributes; the lines after the header are left."""
    names: list[str] = []
    for number, line in lines:
        word = line.split(None, 1)[0].lower()
        if word == "@data":
            if not names or len(set(names)) < len(names):
                raise InvalidInput(f"{path}: must declare attributes, and none twice")
            return names
        if word == "@attribute":
            found = _ATTRIBUTE.fullmatch(line)
            if found is None or not _numeric(found[2]):
                raise InvalidInput(f"{path}: row {number}: an attribute must be numeric, or {{0,1}}")
            name = found[1]
            names.append(re.sub(r"\\(.)", r"\1", name[1:-1]) if name[0] in "'\"" else name)
        elif word != "@relation":
            raise InvalidInput(f"{path}: row {number}: not a line of an ARFF file")
    raise InvalidInput(f"{path}: no @data: not an ARFF file, or cut short")


def _numeric(kind: str) -> bool:
    return kind.strip().lower() in _NUMBERS or {each.strip() for each in kind.strip(" {}").split(",")} == {"0", "1"}


def _row(path: Path, number: int, line: str, width: int) -> NDArray[np.float64]:
    try:
        if not line.startswith("{"):
            row = np.array(line.split(","), dtype=np.float64)
        else:
            row = np.zeros(width)
            for cell in filter(None, (each.strip() for each in line.removeprefix("{").removesuffix("}").split(","))):
                place, value = cell.split()
                if not place.isdigit():
                    raise ValueError
                row[int(place)] = float(value)
    except (ValueError, IndexError):
        raise InvalidInput(f"{path}: row {number}: not {width} numbers, or pairs of a place and a number") from None
    if row.shape != (width,) or not np.isfinite(row).all():
        raise InvalidInput(f"{path}: row {number}: must have {width} finite numbers")
    return row
