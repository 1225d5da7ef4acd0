"""A job file has the library's defaults: the same method, and the same trust model over nodes."""

from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("pydantic", reason="needs tacit[federated]")

import tacit
from tacit.core import Adjacency, InvalidInput, Unit
from tacit.methods.registry import METHODS, chosen_method
from tacit.methods.task import Task
from tacit.runs.federation import JOB_EXAMPLE, read_job

PUBLIC = np.random.default_rng(0).normal(size=(60, 4))
PLAIN = JOB_EXAMPLE.replace('method = "rknn"\n', "")
# Whatever a trust model may need.
PLACES = 'peers = "peers.toml"\n'
SUMS = {"releases": "sums"}


def job(folder, text):
    file = folder / "job.toml"
    file.write_text(text)
    return read_job(file)


def over_nodes(method, given):
    """The job of the library, over nodes that are not asked."""
    nodes = tacit.Nodes(lambda ask: [], nodes=4, records=100)
    chosen, options = chosen_method(method, given)
    # FedMD's votes spend no delta, and refuse one.
    delta = Fraction(0) if method == "fedmd" else Fraction("1e-5")
    task = Task(
        public=PUBLIC, classes=np.array(["a", "b"]), epsilon=Fraction(20), delta=delta, unit=Unit(),
        adjacency=Adjacency.REPLACE_ONE, trust=None, units=100, request="r", nodes=nodes,
    )  # fmt: skip
    return chosen.load_prepare()(task, options)


@pytest.mark.parametrize(("method", "given"), [*((name, {}) for name in METHODS), ("auto", SUMS)])
@pytest.mark.filterwarnings("ignore::tacit.core.errors.TacitWarning")
def test_the_trust_model_is_the_library_s(tmp_path, method, given):
    lines = "".join(f'{name} = "{value}"\n' for name, value in given.items())
    found = job(tmp_path, f'method = "{method}"\n{lines}{PLACES}{PLAIN}')
    assert found.trust == str(over_nodes(method, given).trust)


def test_the_method_is_the_library_s(tmp_path):
    assert (job(tmp_path, PLAIN).method, job(tmp_path, PLAIN).trust) == ("auto", "local")
    # As in the library, an option of votes selects them.
    found = job(tmp_path, f"queries = 30\n{PLAIN}")
    assert (found.method, found.options) == ("rknn", tacit.ReverseKNN(queries=30))


def test_what_a_default_needs_is_told_with_the_way_out(tmp_path):
    with pytest.raises(InvalidInput, match=r"masked trust needs peers\. It is the default of pate: name another"):
        job(tmp_path, f'method = "pate"\n{PLAIN}')
    assert job(tmp_path, f'method = "pate"\ntrust = "local"\n{PLAIN}').trust == "local"
