import math

from hypothesis import given
from hypothesis import strategies as st

from tacit.core.rational import bisect


@given(st.floats(-1e6, 1e6), st.floats(1e-9, 1e6), st.floats(0, 1))
def test_finds_the_edge_from_either_side(low, width, place):
    high = low + width
    edge = low + place * width
    up, down = bisect(lambda x: x <= edge, low, high), bisect(lambda x: x >= edge, high, low)
    assert low <= up <= edge <= down <= high
    assert math.isclose(up, edge, rel_tol=1e-12, abs_tol=1e-9)
    assert math.isclose(down, edge, rel_tol=1e-12, abs_tol=1e-9)


def test_what_is_returned_was_seen_to_hold():
    seen = []

    def holds(x):
        seen.append((x, x**3 <= 10))
        return seen[-1][1]

    found = bisect(holds, 0.0, 10.0, tolerance=1e-3)
    assert (found, True) in seen
    assert 10 - 0.02 < found**3 <= 10


def test_the_far_end_may_hold_too():
    assert bisect(lambda x: True, 0.0, 5.0) == 5.0
