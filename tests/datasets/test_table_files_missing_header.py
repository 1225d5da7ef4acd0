"""A table whose header was forgotten: its first row is a record, and no message shows it."""

import numpy as np
import pytest

from tacit.core.errors import InvalidInput
from tacit.core.samples import Named, in_order
from tacit.datasets.table_files import read_csv

SENTINEL = "Ada Lovelace"


@pytest.mark.parametrize(
    "first",
    [
        f"1.5,2,{SENTINEL}",
        f"NA,?,{SENTINEL}",
        f"n/a,NaN,{SENTINEL}",
        f"-,.5,{SENTINEL}",
        f"1980-02-03,<5,{SENTINEL}",
        f'"1,5";"2,5";{SENTINEL}',
        f"1,5;2,5;{SENTINEL}",
        f"null;none;{SENTINEL}",
    ],
)
def test_the_first_record_is_not_listed_as_column_names(tmp_path, first):
    file = tmp_path / "records.csv"
    file.write_text(f"{first}\n1,2,well\n")
    with pytest.raises(InvalidInput, match="the first row must name the columns, and seems to contain values") as told:
        read_csv(file, "diagnosis", None)
    assert "Ada" not in str(told.value)


def test_a_header_is_still_listed(tmp_path):
    file = tmp_path / "records.csv"
    file.write_text("age,nausea,diagnose\n1,2,well\n")
    with pytest.raises(InvalidInput, match="the columns are age, nausea, diagnose; did you mean 'diagnose'"):
        read_csv(file, "diagnosis", None)


def test_numbered_columns_keep_their_numbers_when_they_change_places():
    """What pandas gives for frame[[1, 0]] of a frame without names."""
    swapped = Named(np.array([[2.0, 1.0]]), ("1", "0"))
    assert np.asarray(in_order(swapped, None, "samples", "the others")).tolist() == [[1.0, 2.0]]
