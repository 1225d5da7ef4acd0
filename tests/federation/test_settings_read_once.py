"""A node reads its records once per job, although every message is a process of its own."""

import os
import stat

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tacit.core.errors import InvalidInput
from tacit.federation.coordinator import RoundPolicy
from tacit.federation.flower.client import NODE_FILE, InProcessGrid, client_app, configured_node, contexts
from tacit.federation.flower.processes import ARRAYS_VARIABLE
from tacit.federation.flower.server import FlowerExchange
from tacit.federation.messages import RefusalReason, read_response
from tacit.federation.node import node as node_module
from tacit.federation.node.node import open_node, prepare_ledger
from tacit.federation.settings import RunArrays, private_folder, read_node_file
from tacit.private.records import reveal
from tests.federation.test_settings import POLICY, folder, wire_request

__all__ = ["folder"]


@pytest.fixture
def reads(monkeypatch):
    """The files that were read, in order."""
    found, read = [], node_module.read_table

    def counted(file, *arguments):
        found.append(file.name)
        return read(file, *arguments)

    monkeypatch.setattr(node_module, "read_table", counted)
    return found


@pytest.fixture
def grid(folder, monkeypatch):
    (folder / "policy.toml").write_text(POLICY.format(epsilon=100.0).replace("participants = 2", "participants = 1"))
    prepare_ledger(read_node_file(folder / "node.toml"))
    monkeypatch.setenv(ARRAYS_VARIABLE, str(folder / "arrays"))
    (context,) = contexts(1, ["clinic"])
    context.node_config[NODE_FILE] = str(folder / "node.toml")
    made = InProcessGrid(client_app(configured_node), [context], keep=True)
    made.context = context
    return made


def ask(grid, request):
    return FlowerExchange(grid, "run", RoundPolicy(1, 1, deadline=5, grace=0, patience=5))(
        wire_request(request=request)[0]
    )


def test_one_read_per_job_however_many_messages(folder, grid, reads):
    for number in range(4):
        ask(grid, f"r-{number}")
    assert reads == ["records.csv"]
    # Another job reads for itself, and what was of the one before is gone.
    grid.context.run_id = 2
    before = {each.name for each in (folder / "arrays").iterdir() if each.is_dir()}
    for number in range(4, 7):
        ask(grid, f"r-{number}")
    assert reads == ["records.csv"] * 2
    after = {each.name for each in (folder / "arrays").iterdir() if each.is_dir()}
    assert (len(before), len(after)) == (1, 1)
    assert before != after


def test_a_file_that_was_changed_is_read_again(folder, grid, reads):
    ask(grid, "r-0")
    first = reveal(configured_node(grid.context).records)
    lines = (folder / "records.csv").read_text().splitlines(keepends=True)
    (folder / "records.csv").write_text("".join(lines[:-3]))
    second = reveal(configured_node(grid.context).records)
    assert len(first.labels) - len(second.labels) == 3
    # The same bytes in another file are another file, too.
    (folder / "copy.csv").write_text("".join(lines[:-3]))
    (folder / "copy.csv").replace(folder / "records.csv")
    ask(grid, "r-1")
    assert len(reads) == 3


def test_what_is_mapped_is_what_was_read(folder, grid):
    file = read_node_file(folder / "node.toml")
    plain = open_node(file)
    for _ in range(2):
        mapped = open_node(file, RunArrays("run", folder / "arrays"))
        assert mapped.features == plain.features
        for name in ("samples", "labels", "persons"):
            own, other = (getattr(reveal(each.records), name) for each in (plain, mapped))
            assert own.dtype == other.dtype
            assert own.flags.c_contiguous == other.flags.c_contiguous
            np.testing.assert_array_equal(own, other)
    # Who writes into them changes nothing for the next message.
    reveal(mapped.records).samples[:] = -1
    np.testing.assert_array_equal(
        reveal(open_node(file, RunArrays("run", folder / "arrays")).records).samples, reveal(plain.records).samples
    )


def test_the_copies_are_their_owners_alone_and_go_with_the_node(folder, grid):
    before = os.umask(0)
    try:
        with private_folder(folder / "arrays"):
            ask(grid, "r-0")
            found = [folder / "arrays", *(folder / "arrays").rglob("*")]
            assert any(each.suffix == ".npy" for each in found)
            assert [each for each in found if stat.S_IMODE(each.stat().st_mode) & 0o077] == []
        assert not (folder / "arrays").exists()
    finally:
        os.umask(before)
    # What a killed node left is gone when it is started again.
    (folder / "arrays").mkdir()
    (folder / "arrays" / "left.npy").write_bytes(b"left")
    with private_folder(folder / "arrays"):
        assert list((folder / "arrays").iterdir()) == []


def test_a_disk_without_room_for_a_copy_does_not_keep_a_node_from_answering(folder, grid, reads, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    for number in range(2):
        assert len(ask(grid, f"r-{number}")) == 1
    assert len(reads) == 2
    assert not list((folder / "arrays").rglob("*.npy"))


def test_records_that_are_wrong_are_told_to_the_operator_and_to_nobody_who_asks(folder, grid, caplog):
    text = (folder / "records.csv").read_text().splitlines(keepends=True)
    (folder / "records.csv").write_text("".join([*text[:2], text[2].replace(",", ",HIV", 1), *text[3:]]))
    with pytest.raises(InvalidInput, match="row"):
        open_node(read_node_file(folder / "node.toml"))
    with pytest.raises(Exception, match="the reason is in its operator's log"):
        ask(grid, "r-0")
    said = read_response(grid.sent[-1].content["tacit"]["letter"]).answer
    assert said is RefusalReason.FAILED
    assert "HIV" not in caplog.text
