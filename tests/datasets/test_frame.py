"""Tables as people bring them: data frames of pandas and polars, Arrow tables, dates, gaps and numbers beyond range."""

import datetime

import numpy as np
import pytest

from tacit.core.errors import InvalidInput
from tacit.datasets.frame import Frame, as_levels, as_numbers, as_texts, cells_of, frame_of, named_values


def test_a_pandas_frame_keeps_gaps_dates_and_categories():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(
        {
            "age": pandas.array([61, None], dtype="Int64"),
            "seen": pandas.to_datetime(["2024-01-31", None]),
            "ward": pandas.Categorical(["north", None]),
            "well": [True, False],
        }
    )
    found = frame_of(table, "samples")
    assert found.columns == ("age", "seen", "ward", "well")
    assert np.array_equal(found.column("age"), [61.0, np.nan], equal_nan=True)
    assert found.column("seen").dtype.kind == "M"
    assert np.isnat(found.column("seen")[1])
    assert found.column("ward").tolist() == ["north", None]
    assert found.column("well").tolist() == [1.0, 0.0]


def test_a_polars_frame_is_a_table():
    polars = pytest.importorskip("polars")
    found = frame_of(polars.DataFrame({"age": [61, 44], "ward": ["north", None]}), "samples")
    assert found.column("age").tolist() == [61.0, 44.0]
    assert found.column("ward").tolist() == ["north", None]


def test_an_arrow_table_is_decoded():
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table(
        {
            "age": arrow.array([61, None]),
            "seen": arrow.array([datetime.date(2024, 1, 31), None]),
            "ward": arrow.array(["north", "north"]).dictionary_encode(),
        }
    )
    found = frame_of(table, "samples")
    assert np.array_equal(found.column("age"), [61.0, np.nan], equal_nan=True)
    assert found.column("seen").dtype.kind == "M"
    assert found.column("ward").tolist() == ["north", "north"]


def test_cells_of_every_kind_become_numbers_text_dates_or_none():
    pandas = pytest.importorskip("pandas")
    found = cells_of(
        [10**400, "x", pandas.NA, pandas.NaT, np.datetime64("2024-01-31"), datetime.date(2024, 2, 1), 1 + 2j]
    )
    assert found[0] == np.inf
    assert found[1:4].tolist() == ["x", None, None]
    assert found[4] == datetime.datetime(2024, 1, 31)
    assert found[5] == datetime.date(2024, 2, 1)
    assert found[6] == "(1+2j)"


def test_columns_are_taken_in_any_order_from_numbers_and_from_cells():
    numbers = Frame(("a", "b"), np.array([[1.0, 2.0]]))
    assert numbers.take(["b", "a"]).cells.tolist() == [[2.0, 1.0]]
    assert numbers.take(["a", "b"]) is numbers
    assert numbers.column("b").tolist() == [2.0]
    assert len(Frame((), (), labels=np.array(["ill", "well"]))) == 2
    assert len(Frame((), ())) == 0
    assert np.asarray(numbers, dtype=np.float32).dtype == np.float32


def test_a_label_that_is_missing_is_refused_by_its_row():
    with pytest.raises(InvalidInput, match=r"a.parquet: row 1, column 'outcome': the value is missing"):
        named_values(np.array(["ill", " "], dtype=object), "a.parquet", "outcome")


def test_a_column_that_is_not_there_is_told_with_the_nearest():
    with pytest.raises(InvalidInput, match="outcome"):
        Frame(("outcome",), (np.array([1.0]),)).apart("outcom")


@pytest.mark.parametrize(
    "text", ["01", " 2.50 ", "-nan", "Infinity", "1e999", "-0", "٣", "1e-7", "12345678901234567890"]
)
def test_a_text_that_a_reader_takes_for_a_number_means_that_number(text):
    """One other row decides whether a column is one of numbers, and must not change what a cell means."""
    texts, numbers = np.array([text], dtype=object), np.array([text]).astype(np.float64)
    assert as_levels(texts).tolist() == as_levels(numbers).tolist()
    assert as_texts(texts) == as_texts(numbers)
    assert np.array_equal(as_numbers(texts), as_numbers(numbers), equal_nan=True)
