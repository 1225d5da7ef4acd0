"""The command line in a forked copy of the test's process: a kill is as real, and nothing is imported anew."""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

from tacit.cli import main

__all__ = ["ended", "kill"]


def kill(*_: Any, **__: Any) -> None:
    """End this process with no warning."""
    os.kill(os.getpid(), signal.SIGKILL)


def ended(*arguments: Any, first: Callable[[], None] = lambda: None) -> tuple[int, str]:
    """How a command ended, by its code or minus the signal, and all that it said; ``first`` is done in the copy.

    The copy has one thread, as the test's process has where it computes (``OMP_NUM_THREADS``).
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    copy = os.fork()
    if copy == 0:
        code = 99
        try:
            os.close(reading)
            os.dup2(writing, 1)
            os.dup2(writing, 2)
            sys.stdout, sys.stderr = (os.fdopen(each, "w", buffering=1, closefd=False) for each in (1, 2))
            first()
            main([str(each) for each in arguments])
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            # Nothing of the test's own is flushed or cleaned up twice.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as said:
        text = said.read()
    return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]), text
