"""The benchmark of formats: the same records in each, and a page that says whether they were counted alike."""

import engine_formats
from engine_formats import FORMATS, made, page, streamed


def test_every_format_has_the_same_records(tmp_path):
    found = [streamed(made(tmp_path, name, 3000)) for name in FORMATS]
    assert {each["rows"] for each in found} == {3000}
    assert len({each["digest"] for each in found}) == 1


def test_a_format_that_counts_otherwise_is_marked():
    row = {"rows": 10, "parts": 1, "file_mb": 2.0, "before_mb": 50.0, "peak_mb": 60.0, "open": 0.1, "count": 0.2}
    row |= {"processor": 0.3, "load": 0.4}
    text = page([{"format": "CSV", "digest": 1, **row}, {"format": "Parquet", "digest": 2, **row}])
    assert "| CSV | 10 | 2 | 60 | 50 | 1 | 0.1 | 0.2 | 0.3 | yes | 0.4 |" in text
    assert "| Parquet | 10 | 2 | 60 | 50 | 1 | 0.1 | 0.2 | 0.3 | no | 0.4 |" in text


def test_what_was_measured_is_not_measured_again(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "sys.argv", ["engine_formats", "--rows", "500", "--scratch", str(tmp_path), "--out", str(tmp_path)]
    )
    engine_formats.main()
    monkeypatch.setattr(engine_formats, "measured", None)
    engine_formats.main()
    assert (tmp_path / "engines-formats.md").read_text().count("| 500 |") == len(FORMATS)
