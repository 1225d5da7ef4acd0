"""Splits: what cannot be one is refused."""

import pytest

from tacit.core.errors import InvalidInput
from tacit.datasets.published import split


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"public": 6, "secret": 4}, "a part is one of .*, got secret"),
        ({"public": 6, "test": 5}, "add up to the 10 samples"),
        ({"public": 10, "test": 0}, "at least 1 each"),
    ],
)
def test_parts_that_are_none_or_do_not_add_up_are_refused(sizes, said):
    with pytest.raises(InvalidInput, match=said):
        split("toy", 10, sizes)
