"""Published splits are those of the settings, and a file that is there is never changed."""

import pytest

from splits import RESULTS, SPLITS, write_split
from tacit.core.errors import InvalidInput
from tacit.datasets.published import split


@pytest.mark.parametrize("name", SPLITS)
def test_the_published_file_is_the_split(name):
    write_split(split(name, *SPLITS[name]), RESULTS / f"{name}.txt")
    assert (RESULTS / f"{name}.txt").exists()


def test_a_published_split_never_changes(tmp_path):
    file = tmp_path / "splits" / "toy.txt"
    write_split("put" * 50, file)
    assert [len(line) for line in file.read_text().splitlines()] == [100, 50]
    write_split("put" * 50, file)
    with pytest.raises(InvalidInput, match="published splits never change"):
        write_split("tup" * 50, file)
