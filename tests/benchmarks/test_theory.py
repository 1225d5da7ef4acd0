import json
import sys
from fractions import Fraction

import pytest

from experiments.charts import write_chart
from experiments.theory import amplification, central_label_error, local_error, shuffled_messages
from tacit.core.errors import InvalidInput
from tacit.report.charts import Chart, Panel


def test_local_error_is_that_of_the_paper_and_its_bias_is_shown():
    chart = local_error([Fraction(1), Fraction(7, 2)])
    errors, means = (panel.curves for panel in chart.panels)
    assert errors["Collision (published length)"] == pytest.approx([18.1808, 0.528159], rel=1e-5)
    assert errors["Separation"] == pytest.approx([1585.98, 5.42313], rel=1e-5)
    assert errors["Concatenation as published"] == pytest.approx([345.238, 0.496427], rel=1e-5)
    assert means["Concatenation as published"] == pytest.approx([-1.034, -0.062], abs=5e-4)
    assert means["all others"] == pytest.approx([1, 1])
    assert "biased" in chart.caption


def test_permute_and_flip_wins_asked_once_and_the_gaussian_asked_often():
    once, often = central_label_error([50, 100, 150]).panels
    for place in range(3):
        assert min(once.curves, key=lambda name: once.curves[name][place]) == "permute-and-flip"
        assert min(often.curves, key=lambda name: often.curves[name][place]) == "Gaussian counts"


def test_amplification_has_the_golden_values_and_gaps_where_nothing_is_proven():
    bounds, allowed = amplification([1000, 100_000]).panels
    closed, numeric = bounds.curves["closed form (2022)"], bounds.curves["numeric clones (2022)"]
    assert closed[0] is None
    assert closed[1] == pytest.approx(0.407792587)
    assert numeric[1] == pytest.approx(0.118153067)
    blanket = "privacy blanket of local hashing"
    assert bounds.curves[blanket][1] < numeric[1]
    assert allowed.curves[blanket][1] > allowed.curves["numeric clones (2022)"][1]


def test_messages_and_noise_are_those_of_the_plans():
    messages, noise = shuffled_messages([Fraction(1, 10), Fraction(1, 2)]).panels
    assert messages.curves["epsilon = 1"] == pytest.approx([4.93, 1.89], abs=0.01)
    # Discrete Laplace noise is a little wider than its scale says; a curator's is as discrete.
    assert noise.curves["epsilon = 1"] == pytest.approx([1 / 0.9, 2], rel=0.02)


def test_a_chart_is_written_small_and_the_same_every_time(tmp_path):
    query_offsets = {"rising": [1.0, 2.0, 3.0], "with a gap": [None, 0.5, 0.25]}
    panels = [
        Panel("one", "x", "y", [1, 10, 100], query_offsets, log_across=True, log_up=True),
        Panel("two", "x", "y", [1, 2, 3], query_offsets),
    ]
    chart = Chart("example", "what it shows", panels, settings={"delta": 1e-6})
    picture, numbers = write_chart(chart, tmp_path / "first")
    again, _ = write_chart(chart, tmp_path / "second")
    assert picture.read_bytes() == again.read_bytes()
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert picture.stat().st_size < 100_000
    read = json.loads(numbers.read_text(encoding="utf-8"))
    assert (read["name"], read["settings"]) == ("example", {"delta": 1e-6})
    assert read["panels"][0]["curves"]["with a gap"] == [None, 0.5, 0.25]


def test_without_matplotlib_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InvalidInput, match="pip install"):
        write_chart(Chart("example", "", []), tmp_path)
