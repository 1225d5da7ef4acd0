"""A node reads its records once, and again only where their file was changed."""

import gc
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.federation.node import records as records_module
from tacit.federation.node.node import open_node, prepare_ledger
from tacit.federation.node.records import LoadedArrays
from tacit.federation.settings import read_node_file
from tacit.private.records import reveal
from tests.federation.test_settings import folder

__all__ = ["folder"]
FILES = Path("/proc/self/fd")


@pytest.fixture
def file(folder):
    found = read_node_file(folder / "node.toml")
    prepare_ledger(found)
    return found


def records(file, arrays):
    node = open_node(file, arrays)
    node.ledger.close()
    return reveal(node.records)


def test_records_are_read_once_and_again_where_their_file_was_changed(file, folder):
    arrays = LoadedArrays()
    first = [records(file, arrays) for _ in range(3)][-1]
    assert arrays.reads == 1
    lines = (folder / "records.csv").read_text().splitlines(keepends=True)
    (folder / "records.csv").write_text("".join(lines[:-3]))
    assert len(first.labels) - len(records(file, arrays).labels) == 3
    # The same bytes in another file are another file, too.
    (folder / "copy.csv").write_text("".join(lines[:-3]))
    (folder / "copy.csv").replace(folder / "records.csv")
    records(file, arrays)
    assert arrays.reads == 3


@pytest.mark.parametrize("shared", [True, False])
def test_what_is_loaded_is_what_was_read_and_nobody_can_change_it_for_the_next(file, shared, monkeypatch):
    if not shared:
        # Not every system has memory without a file.
        monkeypatch.delattr(records_module.os, "memfd_create")
    arrays, plain = LoadedArrays(), records(file, LoadedArrays())
    for _ in range(2):
        loaded = records(file, arrays)
        for name in ("samples", "labels", "persons"):
            own, other = getattr(plain, name), getattr(loaded, name)
            assert own.dtype == other.dtype
            np.testing.assert_array_equal(own, other)
        loaded.samples[:] = -1
    assert (records(file, arrays).samples >= 0).all()


@pytest.mark.skipif(not FILES.is_dir(), reason="counts open files in /proc")
def test_arrays_that_are_let_go_leave_no_open_file():
    before, arrays = len(list(FILES.iterdir())), LoadedArrays()
    for number in range(20):
        arrays.of(Path(__file__), str(number), lambda: {"a": np.arange(10), "empty": np.zeros((0, 3))})
    gc.collect()
    assert len(list(FILES.iterdir())) <= before + 3
