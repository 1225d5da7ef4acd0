"""Limits per address: a flood is held to its rate, in a memory that does not grow, and touches nobody else."""

import pytest

from tacit.core.errors import InvalidInput
from tacit.federation.intake.worker import AddressLimits


def test_a_flood_of_one_address_is_held_to_its_burst_and_rate():
    limits = AddressLimits(rate=2, burst=10)
    allowed = sum(limits.allows("192.0.2.1", number / 100) for number in range(1000))
    # Ten at once and two for each of the ten seconds, up to one for rounding.
    assert 28 <= allowed <= 30
    assert limits.allows("192.0.2.2", 10.0)


def test_addresses_without_number_take_no_memory_and_share_what_there_is():
    limits = AddressLimits(rate=1, burst=1, buckets=8)
    allowed = sum(limits.allows(f"2001:db8:{number:x}::/64", 0.0) for number in range(1000))
    assert allowed <= 8
    assert len(limits._level) == len(limits._seen) == 8


def test_a_rate_of_zero_is_no_limit_and_a_negative_one_is_refused():
    assert all(AddressLimits(rate=0, burst=1).allows("192.0.2.1", 0.0) for _ in range(100))
    with pytest.raises(InvalidInput):
        AddressLimits(rate=-1, burst=1)
