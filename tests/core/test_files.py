"""Files that are there whole or not at all, and locks that end with their process."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tacit.core.files import locked, new_file, try_lock, write_file

HOLDING = "import sys, pathlib, tacit.core.files as files\nwith files.{}: print(flush=True); sys.stdin.read()"


def holding(what, path):
    """A process inside a ``with`` block."""
    program = HOLDING.format(what)
    command = [sys.executable, "-c", program, str(path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()
    return process


def end(process):
    process.kill()
    process.communicate()


def test_a_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"before")

    def fail():
        with new_file(path) as file:
            file.write(b"half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_there_is_replaced_or_stays(tmp_path):
    path = tmp_path / "file"
    write_file(path, b"first", replace=False)
    with pytest.raises(FileExistsError):
        write_file(path, b"second", replace=False)
    assert path.read_bytes() == b"first"
    write_file(path, b"third")
    assert path.read_bytes() == b"third"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("private", "mode"), [(True, 0o600), (False, 0o644)])
def test_a_private_file_is_never_readable_by_others(tmp_path, private, mode):
    before = os.umask(0)
    try:
        with new_file(tmp_path / "file", private=private):
            (draft,) = tmp_path.iterdir()
            assert stat.S_IMODE(draft.stat().st_mode) == mode
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


def test_content_is_on_disk_before_the_name_is(tmp_path, monkeypatch):
    events = []
    monkeypatch.setattr(os, "fsync", lambda descriptor, own=os.fsync: events.append("sync") or own(descriptor))
    monkeypatch.setattr(Path, "replace", lambda self, to, own=Path.replace: events.append("name") or own(self, to))
    monkeypatch.setattr(os, "link", lambda *names, own=os.link: events.append("name") or own(*names))
    write_file(tmp_path / "one", b"content")
    assert events == ["sync", "name"]
    write_file(tmp_path / "two", b"content", replace=False)
    assert events == ["sync", "name", "sync", "name", "sync"], "a new name is made to last too"


def test_what_a_killed_process_left_is_removed_and_a_living_ones_draft_is_not(tmp_path):
    path = tmp_path / "with [brackets]"
    what = "new_file(pathlib.Path(sys.argv[1]))"
    end(holding(what, path))
    (left,) = tmp_path.iterdir()
    living = holding(what, path)
    try:
        (draft,) = tmp_path.iterdir()
        assert draft != left
        write_file(path, b"content")
        assert set(tmp_path.iterdir()) == {path, draft}
    finally:
        end(living)


def test_a_lock_ends_with_its_process(tmp_path):
    file = tmp_path / "lock"
    other = holding("locked(pathlib.Path(sys.argv[1]))", file)
    with file.open() as opened:
        assert not try_lock(opened.fileno())
        end(other)
        assert try_lock(opened.fileno())
    with locked(file):
        pass
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
