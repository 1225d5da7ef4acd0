"""The benchmark of the engines: the order of measurements, what its page says, and failures that are not silent."""

import argparse
import json

import pytest

import engines
from engines import made, page, wanted


def asked(**options):
    given = {"engines": ["threads"], "rows": [10**5], "engine_rows": 10**6, "speedup_rows": None, "peers": False}
    return argparse.Namespace(**{**given, **options})


def row(name, rows, workers=1, seconds=10.0, others=0.0, **more):
    counted = {"processor": seconds * workers, "start_processor": 1.0, "peak_mb": 100.0, "digest": rows}
    return {"name": name, "rows": rows, "workers": workers, "persons": False, "seconds": seconds, "others": others,
            **counted, **more}  # fmt: skip


def test_speedup_is_measured_first_and_with_clusters_on_many_rows():
    order = wanted(asked(engines=["spark", "threads", "ray"], rows=[10**8, 10**5]))
    first = [(rows, name, workers) for rows, name, workers, _ in order[:6]]
    assert first == [(10**7, name, workers) for name in ("threads", "ray", "spark") for workers in (1, 2)]
    assert order[-1] == (10**8, "threads", 2, False)
    assert wanted(asked())[0] == (10**6, "threads", 1, False)


def test_peers_in_memory_are_measured_on_what_fits_however_many_rows_are_asked():
    order = wanted(asked(engine_rows=3 * 10**7, peers=True))
    assert {rows for rows, name, _, _ in order if name in ("voting", "sklearn", "faiss")} == {10**6}
    assert (10**6, "threads", 2, False) in order
    text = page([row("threads", 10**6, 2), row("sklearn", 10**6, digest=10**6), row("product", 3 * 10**7)], "")
    assert "| scikit-learn NearestNeighbors | 1 | 1,000,000 | 10.0 | 10.0 | 30.0 | 1.0 | 100 | yes |" in text


def test_the_start_of_workers_is_taken_out_of_the_speedup():
    counted = [row("ray", 10**6, 1, 12.0), row("ray", 10**6, 2, 11.0)]
    counted += [row("ray", 10**7, 1, 30.0), row("ray", 10**7, 2, 20.0, processor=36.0)]
    assert "| ray | 10,000,000 | 30.0 | 20.0 | 1.20 | 1.50 | 2.00 | 0.0 |" in page(counted, "")


@pytest.mark.parametrize("busy", [1, 2])
def test_the_clock_is_not_compared_when_other_programs_had_the_cores(busy):
    counted = [row("threads", 10**6, workers, others=0.7 * (workers == busy)) for workers in (1, 2)]
    assert "| not comparable |  | 0.7 |" in page(counted, "")


def test_a_measurement_that_fails_is_named_and_the_others_are_written(tmp_path, monkeypatch):
    def measured(file, name, workers, persons):
        return None if name == "product" else row(name, 10, workers, persons=persons)

    monkeypatch.setattr(engines, "measured", measured)
    monkeypatch.setattr("sys.argv", ["engines", "--rows", "10", "--engine-rows", "10", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="not measured: product with 1 workers at 10 rows"):
        engines.main()
    names = {each["name"] for each in json.loads((tmp_path / "engines-scale.json").read_text())["rows"]}
    assert names == {"threads", "voting", "reading"}


def test_threads_count_the_same_with_one_worker_and_two(tmp_path):
    file = made(tmp_path, 2000)
    one, two = (engines.streamed(file, "threads", workers, persons=False) for workers in (1, 2))
    assert one["votes"] == 2000
    assert one["digest"] == two["digest"] == engines.voting(file, 2000)["digest"]


def test_a_figure_on_paper_names_what_was_not_measured():
    counted = [row("threads", 10**8, 2, 200.0), row("ray", 10**7, 2, start=12.3)]
    said = page(counted, "")
    assert "4.00 µs" in said
    assert "each machine reads 2.6 GB (265 bytes per row), 13 seconds" in said
    assert "ray starts, here in 12 seconds" in said
