"""Decoding is for many messages on a small machine."""

import os
import subprocess
import sys


def test_decoding_does_not_load_what_planning_needs():
    code = "import sys, tacit.federation.intake.coordinator; "
    code += "print([each for each in ('sklearn', 'pandas', 'pyarrow') if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.strip() == "[]"
