"""Of many cases that are alike ``make test`` takes every n-th; ``make slow`` takes all."""

import pytest

__all__ = ["sampled"]


def sampled(cases, one_in, offset=0):
    """The cases as parameters; those between every ``one_in``-th are marked slow.

    >>> [bool(each.marks) for each in sampled("abcd", 2)]
    [False, True, False, True]
    """
    made = []
    for place, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        made.append(pytest.param(*values, marks=pytest.mark.slow if (place - offset) % one_in else ()))
    return made
