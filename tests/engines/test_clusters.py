"""Ray and Spark count what threads count, also where a task fails, a worker dies, and a task runs twice."""

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 400
# In every run one task fails and one worker is killed.
pytestmark = pytest.mark.fault


def ran(name, folder, workers):
    """What the program says in a process group of its own, of which nothing is left."""
    program = [sys.executable, str(ROOT / "tests" / "engines" / "cluster_program.py"), name, str(folder), str(workers)]
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "RAY_TMPDIR": "/tmp"}
    started = subprocess.Popen(
        program, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        out, told = started.communicate(timeout=PATIENCE)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
    assert started.returncode == 0, told[-3000:]
    return json.loads(out.splitlines()[-1]), out + told


def check(name, folder, workers=2):
    said, everything = ran(name, folder, workers)
    assert said["fragments"] == 4
    assert said["same"]
    assert said["fewer"]
    assert said["marks"] == [True, True]
    # Whole numbers and nothing else: a table of votes, or the empty one of a task that failed, if its engine went on.
    assert said["kinds"] == [["Partial", "int", "int", "int64"]]
    assert {tuple(shape) for shape in said["shapes"]} - {(0, 0)} == {(9, 3)}
    assert "Nothing was charged" in said["refused"]
    assert "Ada" not in everything


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs tacit[ray]")
def test_ray_counts_the_same_and_tells_nothing(tmp_path):
    check("ray", tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs tacit[ray]")
def test_ray_on_one_core_does_not_wait_for_another(tmp_path):
    check("ray", tmp_path, workers=1)


@pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="needs tacit[spark]: make engines sets it up")
@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java 17: apt-get install openjdk-17-jre-headless")
def test_spark_counts_the_same_and_tells_nothing(tmp_path):
    check("spark", tmp_path)
