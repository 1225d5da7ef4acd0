"""A plugin of pytest: the package under test must be the mutated copy, and the same examples are tried every time."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import Phase, settings


def pytest_sessionstart(session):
    # After the suite's own profile. A first failing example is enough, and it must be found again next time.
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", deadline=None, derandomize=True, database=None, phases=phases)
    settings.load_profile("mutants")


def pytest_sessionfinish(session, exitstatus):
    copy = Path(os.environ["TACIT_MUTATED_COPY"]).resolve()
    package = sys.modules.get("tacit")
    if package is None:
        raise pytest.UsageError("the tests of this mutant never imported tacit")
    strangers = [
        name
        for name, module in list(sys.modules.items())
        if (name == "tacit" or name.startswith("tacit."))
        and getattr(module, "__file__", None)
        and copy not in Path(module.__file__).resolve().parents
    ]
    if strangers:
        raise pytest.UsageError(f"not imported from the mutated copy: {strangers[:3]}")
