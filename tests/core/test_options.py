"""Limits of a method's options."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from tacit.core.errors import InvalidInput
from tacit.core.options import check, option


@dataclass(frozen=True)
class Limited:
    """Options with every kind of limit."""

    renamed: ClassVar[dict[str, str]] = {}
    width: int = option(3, "Units.", least=1, most=10)
    widths: object = option(None, "Units of several layers.", least=1, most=10, typed=False)
    share: float = option(0.5, "A share.", least=0.0, most=1)
    rule: str | None = option("one", "A rule.", choices=("one", "two"))

    def __post_init__(self) -> None:
        check(self)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"width": 0}, "width must be at least 1, got 0"),
        ({"width": 11}, "width must be at most 10, got 11"),
        ({"width": 2.5}, "width must be a whole number, got 2.5"),
        ({"widths": [3, 11]}, "widths must be at most 10, got 11"),
        ({"share": 0.0}, "share must be above 0 and at most 1, got 0.0"),
        ({"share": 1.5}, "share must be above 0 and at most 1, got 1.5"),
        ({"share": True}, "share must be above 0 and at most 1, got True"),
        ({"rule": "three"}, "rule must be one of one, two, got 'three'"),
        ({"rule": 3}, "rule must be one of one, two, got 3"),
    ],
)
def test_a_value_beyond_its_limits_is_refused(given, message):
    with pytest.raises(InvalidInput) as refused:
        Limited(**given)
    assert str(refused.value) == message


def test_limits_themselves_are_allowed():
    assert Limited(width=10, widths=(1, 10), share=1, rule="two").width == 10
