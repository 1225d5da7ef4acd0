"""One column at a time: what public cells decide, and what becomes of private cells that they do not foresee."""

import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from tacit.core.codec import StrictReader, decode, encode
from tacit.core.errors import InvalidInput
from tacit.core.guarantee import Unit
from tacit.datasets.frame import Frame, as_dates, as_levels, as_numbers, cells_of
from tacit.encoders.columns import CategoryColumn, DateColumn, NumberColumn, few, interval_edges, written_as

AGES = np.array([20.0, 30, 40, 50, 60, 70] * 10)
SEXES = cells_of(["f", "m"] * 29 + ["x"] * 2)
DATES = cells_of([f"2024-{month:02d}-{day:02d}" for month in range(1, 13) for day in (1, 11, 21, 27, 28)])
FITTED = {
    "number": NumberColumn.fit("age", np.append(AGES, [np.nan] * 5)),
    "category": CategoryColumn.fit("sex", cells_of([*SEXES.tolist(), *[None] * 5])),
    "date": DateColumn.fit("seen", cells_of([*DATES.tolist(), *[None] * 5]), "iso"),
}
ANY = st.one_of(
    st.none(), st.text(max_size=8), st.floats(), st.integers(-(2**70), 2**70), st.booleans(), st.dates(),
    st.sampled_from(["f", "x", "2024-02-30", "2024-02-03T10:00:00+02:00", "1e400", "-inf", "NA", "40", "0040.0"]),
)  # fmt: skip


@pytest.mark.parametrize("kind", FITTED)
@settings(max_examples=60, deadline=None)
@given(cells=st.lists(ANY, min_size=1, max_size=6))
def test_any_cell_is_encoded_by_itself_and_none_raises(kind, cells):
    column = FITTED[kind]
    # A column as files and data frames give it: numbers alone are an array of numbers.
    whole = column.encode(cells_of(cells))
    assert whole.shape == (len(cells), column.width)
    assert np.isfinite(whole).all()
    assert (np.abs(whole) <= 4).all()
    for row, cell in enumerate(cells):
        assert np.array_equal(column.encode(cells_of([cell]))[0], whole[row])


@pytest.mark.parametrize("kind", FITTED)
def test_columns_are_written_and_read_as_they_are(kind):
    column = FITTED[kind]
    fields = StrictReader(decode(encode(column.fields())), "column")
    assert type(column).read(fields) == column
    fields.done()


def test_numbers_are_scaled_by_public_quantiles_and_cut_off():
    column = NumberColumn.fit("income", np.append(np.arange(1000.0), 1e15))
    assert column.center == 500
    assert column.scale == pytest.approx(np.arange(1000).std(), rel=0.05)
    assert column.encode(np.array([500.0, 1e17, -1e17, 1e19, np.inf])).ravel().tolist() == [0, 4, -4, 0, 0]


def test_two_values_are_zero_and_one_and_a_rare_event_keeps_its_size():
    assert NumberColumn.fit("flag", np.array([2.0] * 99 + [7.0])).encode(np.array([2.0, 7.0])).ravel().tolist() == [
        0,
        1,
    ]
    gains = NumberColumn.fit("gain", np.array([0.0] * 995 + [5000.0, 7000, 7000, 7000, 9000]))
    assert gains.encode(np.array([0.0, 7000.0])).ravel().tolist() == [0, 1]


def test_gaps_are_marked_where_public_rows_have_them():
    assert FITTED["number"].encode(np.array([np.nan]))[0].tolist() == [0, 1]
    assert NumberColumn.fit("age", AGES).encode(np.array([np.nan]))[0].tolist() == [0]
    assert FITTED["category"].encode(cells_of([None, "f"])).argmax(axis=1).tolist() == [3, 0]


def test_rare_and_unseen_levels_are_the_others():
    column = CategoryColumn.fit("sex", SEXES)
    assert (column.levels, column.others, column.gaps) == (("f", "m"), True, False)
    assert few(len(SEXES)) == 3
    rare = CategoryColumn.fit("sex", cells_of(["f", "m"] * 49 + ["x", "y"]))
    assert rare.encode(cells_of(["x", "zebra", "m"])).argmax(axis=1).tolist() == [2, 2, 1]
    assert rare.unread(cells_of(["x", "zebra", "m", None])) == 2


def test_at_most_fifty_levels_have_a_code():
    cells = cells_of([f"level {each:02d}" for each in range(80) for _ in range(5 + each)])
    column = CategoryColumn.fit("diagnosis", cells)
    assert len(column.levels) == 50
    assert column.levels[0] == "level 30"
    assert column.others


def test_a_level_is_the_same_however_it_is_written():
    assert as_levels(cells_of(["1", " 1.0", "01", "1.5"])).tolist() == ["1", "1", "1", "1.5"]
    assert as_levels(np.array([1.0, np.nan])).tolist() == ["1", None]
    assert as_levels(cells_of(["TRUE", "true", "a  b", "N/A"])).tolist() == ["true", "true", "a b", None]


def test_numbers_and_dates_are_read_from_whatever_a_cell_is():
    assert as_numbers(cells_of(["1e3", True, "x", None, " 2 "])).tolist()[:2] == [1000, 1]
    day = datetime.date(1970, 1, 3)
    assert as_dates(cells_of([day, "1970-01-03", "1970-01-03T12:00:00", 7.0, "soon"])).tolist()[:3] == [2, 2, 2.5]
    assert np.isnan(as_dates(cells_of([day, 7.0, "soon"]))[1:]).all()
    typed = np.array(["1970-01-02", "NaT"], dtype="datetime64[ms]")
    assert as_dates(typed)[0] == 1


@pytest.mark.parametrize(
    ("cells", "written"),
    [
        (["2024-01-31", "2023-12-01 10:30"], "iso"),
        (["2024/01/31"], "%Y/%m/%d"),
        (["31.01.2024"], "%d.%m.%Y"),
        (["01/31/2024", "02/01/2024"], "%m/%d/%Y"),
        (["31/01/2024", "02/01/2024"], "%d/%m/%Y"),
        (["soon", "later"], None),
        ([None, ""], None),
    ],
)
def test_the_way_dates_are_written_is_found(cells, written):
    assert written_as(cells_of(cells)) == written


def test_a_year_of_dates_goes_through_the_year_and_the_week():
    assert FITTED["date"].cycles == ("year", "week")
    spring = DateColumn.fit("seen", cells_of(["2024-03-01", "2024-03-02", "2024-03-03"]), "iso")
    assert spring.cycles == ()


def test_a_date_varies_as_much_as_a_number_whatever_it_is_made_of():
    assert FITTED["date"].encode(DATES).var(axis=0).sum() == pytest.approx(1, abs=0.15)
    fields = FITTED["date"].fields()
    del fields["weight"]
    # A run that was saved when all parts had full weight is read as it was.
    before = DateColumn.read(StrictReader(decode(encode(fields)), "column"))
    assert before.encode(DATES).var(axis=0).sum() == pytest.approx(3, abs=0.4)


def test_a_date_that_tells_nothing_does_not_take_the_place_of_what_does():
    chance = np.random.default_rng(7)

    def visits(count):
        ill = chance.random(count) < 0.5
        ward = np.where(chance.random(count) < 0.3, "west", np.where(ill, "north", "south"))
        seen = np.datetime64("2024-01-01") + chance.integers(0, 365, count)
        columns = {"age": chance.normal(np.where(ill, 70, 45), 10), "ward": ward, "seen": seen.astype(str)}
        return Frame(tuple(columns), tuple(map(cells_of, columns.values()))), ill

    (private, labels), (public, truth) = visits(600), visits(400)
    run = tacit.distill(
        (private, labels), public, 1, delta=1e-6, classes=[False, True], persons=np.arange(600) // 3,
        unit=Unit.person("patient", 3), seed=1,
    )  # fmt: skip
    assert (run.labels == truth).mean() > 0.85


def test_intervals_are_public_quantiles_and_what_many_share_has_its_own():
    assert interval_edges(np.arange(100.0), 4) == (24.75, 49.5, 74.25)
    gains = np.append(np.zeros(900), np.linspace(10, 100, 100))
    assert interval_edges(gains, 8)[0] == 5.0
    assert interval_edges(np.array([3.0] * 50), 8) == ()
    assert interval_edges(np.zeros(0), 8) == ()
    # One value far out is no interval.
    assert max(interval_edges(np.append(np.arange(1000.0), 1e9), 8)) < 1000


def test_a_number_is_in_one_interval_and_a_gap_in_none():
    column = NumberColumn.fit("age", np.arange(100.0), 4)
    found = column.encode(np.array([0.0, 30.0, 49.5, 1e300, np.nan, np.inf]))
    assert found.shape == (6, column.width) == (6, 5)
    assert found[:, 1:].argmax(axis=1)[:3].tolist() == [0, 1, 2]
    assert found[:, 1:].sum(axis=1).tolist() == [1, 1, 1, 0, 0, 0]
    assert NumberColumn.read(StrictReader(decode(encode(column.fields())), "column")) == column


@pytest.mark.parametrize("edges", [[2.0, 1.0], [1.0, 1.0], list(range(64))])
def test_edges_that_do_not_rise_or_are_too_many_are_refused(edges):
    fields = NumberColumn.fit("age", np.arange(100.0), 4).fields() | {"edges": np.array(edges, dtype=np.float64)}
    with pytest.raises(InvalidInput, match="edges must be increasing"):
        NumberColumn.read(StrictReader(decode(encode(fields)), "column"))
