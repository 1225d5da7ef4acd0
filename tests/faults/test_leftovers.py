"""A run that is killed while it writes: the next one beside it cleans up, and never what another one is writing."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tacit.cli.request import require_place
from tacit.runs.folders import PREFIX, new_folder, remove_leftovers

WRITER = """
import sys, time
from pathlib import Path
from tacit.runs.folders import new_folder
with new_folder(Path(sys.argv[1])) as partial:
    (partial / "half").write_text("written")
    print("writing", flush=True)
    sys.stdin.readline()
print("written", flush=True)
"""


@pytest.fixture
def writer(tmp_path):
    """A process that is writing a run folder, until it is told to go on."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "other")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "writing\n"
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def hidden(place):
    return [file.name for file in place.iterdir() if file.name.startswith(PREFIX)]


@pytest.mark.parametrize("starting", [False, True])
def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path, writer, starting):
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    assert len(hidden(tmp_path)) == 1
    if starting:
        require_place(tmp_path / "next")
    else:
        with new_folder(tmp_path / "next") as partial:
            (partial / "run.json").write_text("{}")
        assert (tmp_path / "next" / "run.json").exists()
    assert hidden(tmp_path) == []


def test_what_a_living_run_writes_is_left_alone(tmp_path, writer):
    with new_folder(tmp_path / "next"):
        assert len(hidden(tmp_path)) == 2
        # Nor does one run take another one of the same process for a leftover.
        remove_leftovers(tmp_path)
        assert len(hidden(tmp_path)) == 2
    require_place(tmp_path / "third")
    assert len(hidden(tmp_path)) == 1
    print(file=writer.stdin, flush=True)
    assert writer.stdout.readline() == "written\n"
    assert (tmp_path / "other" / "half").read_text() == "written"
    assert hidden(tmp_path) == []


def test_only_folders_are_leftovers(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("")
    (tmp_path / f"{PREFIX}link").symlink_to(elsewhere)
    (tmp_path / f"{PREFIX}file").write_text("")
    (tmp_path / ".tacit-bench").mkdir()
    remove_leftovers(tmp_path)
    assert (elsewhere / "kept").exists()
    assert len(list(tmp_path.iterdir())) == 4
    remove_leftovers(Path("no-such-folder"))
