"""Ray and Spark count what threads count, also where a task fails, a worker dies, and a task runs twice."""

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 560
# In every run one task fails and one worker is killed.
pytestmark = pytest.mark.fault
needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs tacit[ray]")
needs_spark = pytest.mark.skipif(
    importlib.util.find_spec("pyspark") is None
    or not (shutil.which("java") or Path(os.environ.get("JAVA_HOME", "none"), "bin", "java").is_file()),
    reason="needs tacit[spark] and Java 17: make engines sets them up",
)


def ran(task, name, folder, workers, *address):
    """What the program says in a process group of its own, of which nothing is left."""
    program = [sys.executable, str(ROOT / "tests" / "engines" / "cluster_program.py")]
    program += [task, name, str(folder), str(workers), *address]
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "RAY_TMPDIR": "/tmp"}
    # Beside other work Ray's workers would hardly run at the low priority that it gives them.
    environment |= {"RAY_worker_niceness": "0"}
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


def check(name, folder, workers=2, *address):
    said, everything = ran("count", name, folder, workers, *address)
    assert said["fragments"] == 4
    assert said["same"]
    assert said["fewer"]
    assert said["marks"] == [True, True]
    # Whole numbers and nothing else: a table of votes, or the empty one of a task that failed, if its engine went on.
    assert said["kinds"] == [["Partial", "int", "int", "int64"]]
    assert {tuple(shape) for shape in said["shapes"]} - {(0, 0)} == {(9, 3)}
    assert "Nothing was charged" in said["refused"]
    assert "Nothing was charged" in said["in memory"]
    # A cluster that is open already is not quietly taken for the one at another address.
    assert "already" in said["elsewhere"]
    assert "Ada" not in everything
    return said, everything


@contextlib.contextmanager
def at_work(command, folder, ready, **environment):
    """A server in a session of its own, once its output says that it is ready; all that it started ends with it."""
    log = folder / "server.log"
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with log.open("a") as out:
        started = subprocess.Popen(
            command, stdout=out, stderr=out, start_new_session=True,
            env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"} | environment,
        )  # fmt: skip
    try:
        until = time.monotonic() + 180
        while ready not in log.read_text():
            assert started.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < until, log.read_text()[-3000:]
            time.sleep(0.5)
        yield
    finally:
        own = [psutil.Process(started.pid), *psutil.Process(started.pid).children(recursive=True)]
        started.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            started.wait(20)
        for each in own:
            with contextlib.suppress(psutil.Error):
                each.kill()
        started.wait(20)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def check_ends(name, folder):
    """Each of three attempts may lose three workers: then it is said, and the empty table is released."""
    said, _ = ran("die", name, folder, 1)
    assert said["ended"].endswith("of 4 parts of the records could not be counted")
    assert 3 <= said["deaths"] <= 9


@needs_ray
def test_ray_counts_the_same_and_tells_nothing(tmp_path):
    check("ray", tmp_path)


@pytest.mark.slow
@needs_ray
def test_ray_on_one_core_does_not_wait_for_another(tmp_path):
    check("ray", tmp_path, workers=1)


@pytest.mark.slow
@needs_ray
def test_ray_ends_where_a_record_kills_every_worker(tmp_path):
    check_ends("ray", tmp_path)


@pytest.mark.slow
@needs_ray
def test_ray_at_an_address_counts_the_same_and_writes_nothing_on_the_screen(tmp_path):
    port = free_port()
    ray = [sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", "--head", "--block"]
    ray += [f"--port={port}", "--node-ip-address=127.0.0.1", "--num-cpus=2", "--include-dashboard=false"]
    # The names of Ray's sockets are longer than a test's folder allows.
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as short:
        ray += [f"--object-store-memory={2**27}", "--disable-usage-stats", f"--temp-dir={short}"]
        with at_work(ray, tmp_path, "Ray runtime started", RAY_worker_niceness="0"):
            (tmp_path / "records").mkdir()
            _, everything = check("ray", tmp_path / "records", 2, f"127.0.0.1:{port}")
    assert "core_worker.cc" not in everything


@needs_spark
def test_spark_counts_the_same_and_tells_nothing(tmp_path):
    check("spark", tmp_path)


@pytest.mark.slow
@needs_spark
def test_spark_ends_where_a_record_kills_every_worker(tmp_path):
    check_ends("spark", tmp_path)


@pytest.mark.slow
@needs_spark
def test_spark_at_an_address_counts_the_same_on_as_many_cores_as_workers(tmp_path):
    import pyspark

    address = f"spark://127.0.0.1:{free_port()}"
    spark = [str(Path(pyspark.__file__).parent / "bin" / "spark-class")]
    here = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    _, port = address.rsplit(":", 1)
    for name in ("master", "worker", "records"):
        (tmp_path / name).mkdir()
    master = [*spark, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", port]
    worker = [*spark, "org.apache.spark.deploy.worker.Worker", address, "--host", "127.0.0.1", "--cores", "4"]
    worker += ["--memory", "1g", "--work-dir", str(tmp_path / "worker"), "--webui-port", "0"]
    with (
        at_work([*master, "--webui-port", "0"], tmp_path / "master", "New state: ALIVE", **here),
        at_work(worker, tmp_path / "worker", "Successfully registered with master", **here),
    ):
        said, _ = check("spark", tmp_path / "records", 2, address)
    assert said["cores"] == "2"
