"""What a target needs and cannot get ends it, instead of leaving tests out."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("target", ["engines", "faults"])
def test_a_machine_where_java_cannot_be_installed_is_told_so(target, tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("make", "sh", "id"):
        (programs / name).symlink_to(shutil.which(name))
    # A Python that is content with everything: only the target itself can fail.
    (programs / "python").write_text("#!/bin/sh\nexit 0\n")
    (programs / "python").chmod(0o755)
    command = ["make", target, f"STAMP={tmp_path}", f"BIN={programs}", "VENV=nowhere"]
    environment = {"PATH": str(programs)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Spark needs Java 17" in done.stdout
    (programs / "java").symlink_to(programs / "python")
    assert subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False).returncode == 0
