"""A node that is told to end does, whatever its threads are doing."""

import subprocess
import sys

import pytest

COUNTING = """
import time
from concurrent.futures import ThreadPoolExecutor
from tacit.cli.federation_node import _leave
ThreadPoolExecutor(1).submit(time.sleep, 300)
_leave({signaled!r}, 60.0)
"""


@pytest.mark.parametrize(
    ("signaled", "code", "said"),
    [("a second SIGTERM", 1, "error: ended by a second SIGTERM"), ("", 0, "ended after 60 seconds")],
)
def test_a_thread_that_counts_does_not_keep_a_node_that_has_ended(signaled, code, said):
    """Its lock was free and its count went on, beside that of the node that was started in its place."""
    program = [sys.executable, "-c", COUNTING.format(signaled=signaled)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code
    words = " ".join((done.stdout + done.stderr).split())
    assert said in words
    assert "in the middle of a question; started again, the node resumes it, and nothing is paid twice" in words
