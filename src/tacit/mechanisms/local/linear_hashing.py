"""Local hashing with linear hash functions: short messages, and counts by a fast transform, not one hash per cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import Integers, InvalidInput, MessageLaw, Number, Randomness, uniform_below
from tacit.mechanisms.auditing import AUDITED_CELLS, SINGLE, message_checks
from tacit.mechanisms.description import CELLS, Checks, Parameters
from tacit.mechanisms.exact import precision
from tacit.mechanisms.local.collision import collision_rates, hash_blankets
from tacit.mechanisms.local.participants import (
    DOMAIN,
    LAW_DIGITS,
    HitEstimates,
    HitRates,
    checked_messages,
    domain,
    local_epsilon,
    one_participant,
    participant_cells,
)
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
from tacit.mechanisms.messages import IndexCode
from tacit.mechanisms.shuffle.privacy_blanket import Blanket

__all__ = ["FIELD_SIZES", "FiniteField", "LinearHashing", "finite_field", "possible_sizes"]

# Decoding makes a histogram of all possible messages; this many take 128 MB.
LARGEST_HISTOGRAM = 2**24


LARGEST_FIELD = 257


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


FIELD_SIZES = tuple(size for size in range(2, LARGEST_FIELD + 1) if _is_prime(size) or size & (size - 1) == 0)


@dataclass(frozen=True)
class FiniteField:
    """A finite field on the numbers 0, …, size − 1, as tables of sums and products."""

    size: int
    sums: Integers
    products: Integers


def _polynomial_products(degree: int, modulus: int) -> Integers:
    """Products of polynomials over GF(2), written as bits, modulo one of that degree."""
    first = np.arange(2**degree)[:, None]
    second = np.arange(2**degree)[None, :]
    product = np.zeros((2**degree, 2**degree), dtype=np.int64)
    for place in range(degree):
        product ^= np.where((second >> place) & 1, first, 0)
        first = first << 1
        first = np.where(first >> degree, first ^ modulus, first)
    return product


@lru_cache(maxsize=16)
def finite_field(size: int) -> FiniteField:
    """The field with that many elements.

    Polynomials modulo another are a field exactly if no product of two nonzero ones is 0, so moduli are tried until one
    has this property; there is one of every degree.

    >>> finite_field(4).products.tolist()
    [[0, 0, 0, 0], [0, 1, 2, 3], [0, 2, 3, 1], [0, 3, 1, 2]]
    """
    if size not in FIELD_SIZES:
        raise InvalidInput(f"size must be a prime or a power of two in [2, {LARGEST_FIELD}], got {size}")
    numbers = np.arange(size)
    if _is_prime(size):
        return FiniteField(size, np.add.outer(numbers, numbers) % size, np.multiply.outer(numbers, numbers) % size)
    degree = size.bit_length() - 1
    moduli = (_polynomial_products(degree, modulus) for modulus in range(size + 1, 2 * size, 2))
    products = next(table for table in moduli if table[1:, 1:].all())
    return FiniteField(size, numbers[:, None] ^ numbers[None, :], products)


def _digits_needed(cells: int, size: int) -> int:
    """The number of digits of a cell's index in base ``size``."""
    digits = 1
    while size**digits < cells:
        digits += 1
    return digits


def possible_sizes(cells: int) -> list[int]:
    """The field sizes that can be used for this many cells; empty if there are too many cells.

    >>> possible_sizes(10**6)
    [2, 3, 4, 5, 8, 16]
    """
    return [size for size in FIELD_SIZES if size ** (_digits_needed(cells, size) + 1) <= LARGEST_HISTOGRAM]


@dataclass(frozen=True)
class LinearHashing(HitEstimates):
    """Local hashing by a random linear map to a field of l elements; sends the map and one element.

    **Law.** A cell is the vector x of its t digits in base l, an element of F^t for the field F with l elements.
    A vector a in F^t is drawn uniformly, independent of the data. The message is (a, u), where u = ⟨a, x⟩ with
    probability e^ε/(e^ε + l − 1) and each other element with probability 1/(e^ε + l − 1).

    **Spend.** ``Pure(epsilon)``, between any two cells.

    **Proof.** Given a, u is generalized randomized response on ⟨a, x⟩, and the distribution of a does not depend on
    x. Cells x ≠ y with ⟨a, x⟩ ≠ ⟨a, y⟩ for some a exist, and reach the bound.

    **Estimate.** A message hits cell y when ⟨a, y⟩ = u: with probability p = e^ε/(e^ε + l − 1) if y = x. Otherwise
    ⟨a, y⟩ − ⟨a, x⟩ = ⟨a, y − x⟩ is uniform on F and independent of u − ⟨a, x⟩, so q = 1/l exactly. Variances are
    those of Collision with c = 1 and the same l, but here nothing is assumed about the hash. Counting hits for all
    cells replaces the digits of a by those of y one after the other, in O(n + l²·d·log d) altogether.

    **Source.** Local hashing as in T. Wang et al., USENIX Security 2017, with linear maps in place of a hash family;
    V. Feldman, J. Nelson, H. Nguyen and K. Talwar, Private frequency estimation via projective geometry, ICML 2022,
    use the same geometry for the subset mechanism.

    A message is one integer, (a, u) in base l. Only for participants with a single cell: linear maps are not
    independent on three cells.

    >>> mechanism = LinearHashing(cells=5000, ones=1, epsilon=1)
    >>> mechanism.size, round(mechanism.variance_zero, 6), mechanism.message_bits
    (4, 3.691655, 16)
    """

    name = "linear-hashing"
    parameters: ClassVar[Parameters] = {**DOMAIN, "size": CELLS}

    cells: int
    ones: int
    epsilon: Fraction
    size: int

    def __init__(self, cells: int, ones: int, epsilon: Number, size: int | None = None) -> None:
        cells, ones = domain(cells, ones)
        number = local_epsilon(epsilon)
        if ones != 1:
            raise InvalidInput(f"ones must be 1 for linear hashing, got {ones}")
        possible = possible_sizes(cells)
        if not possible:
            raise InvalidInput(f"cells must be at most {LARGEST_HISTOGRAM // 2} for linear hashing, got {cells}")
        if size is None:
            size = min(possible, key=lambda each: collision_rates(1, number, each).variance_zero)
        if size not in possible:
            raise InvalidInput(
                f"size must be a prime or a power of two in [2, 257] whose messages for {cells} cells number at "
                f"most 2^24, got {size}"
            )
        object.__setattr__(self, "cells", cells)
        object.__setattr__(self, "ones", 1)
        object.__setattr__(self, "epsilon", number)
        object.__setattr__(self, "size", int(size))

    @property
    def digits(self) -> int:
        """The length t of the vectors of cells."""
        return _digits_needed(self.cells, self.size)

    @property
    def message_bits(self) -> int:
        """The map and the element."""
        return (self._possible - 1).bit_length()

    @property
    def rates(self) -> HitRates:
        """How often a message hits the held cell, and any other."""
        return collision_rates(1, self.epsilon, self.size)

    @property
    def _possible(self) -> int:
        """The number of possible messages."""
        return int(self.size ** (self.digits + 1))

    @property
    def _element(self) -> GeneralizedRandomizedResponse:
        """The randomized response on the hash."""
        return GeneralizedRandomizedResponse(self.size, 1, self.epsilon)

    def _hashes(self, maps: Integers, cells: Integers) -> Integers:
        """⟨a, x⟩ for a map a and the vector x of a cell, each given by its digits as one integer."""
        field = finite_field(self.size)
        product = np.zeros(np.broadcast_shapes(maps.shape, cells.shape), dtype=np.int64)
        for _ in range(self.digits):
            product = field.sums[product, field.products[maps % self.size, cells % self.size]]
            maps, cells = maps // self.size, cells // self.size
        return product

    def encode(self, cells: NDArray[Any], randomness: Randomness) -> Integers:
        """One integer per participant."""
        held = participant_cells(cells, self.cells, 1)[:, 0]
        maps = uniform_below(self.size**self.digits, len(held), randomness)
        return maps * self.size + self._element.encode(self._hashes(maps, held)[:, None], randomness)

    def hit_counts(self, messages: NDArray[Any]) -> Integers:
        """How many messages hit each cell, by a transform of their histogram."""
        numbers = checked_messages(messages, np.int64, ())
        if not self.code.valid(numbers).all():
            raise InvalidInput(f"messages must be in [0, {self._possible - 1}]")
        return self._hits(np.bincount(numbers, minlength=self._possible))

    def _hits(self, histogram: Integers) -> Integers:
        """How many messages (a, u) have ⟨a, y⟩ = u, for every cell y."""
        field, size = finite_field(self.size), self.size
        # Digits of y replace digits of a, highest first: the lower digits must then match u − a_t·y_t. The highest
        # digit of a cell takes only the values that occur.
        values = -(-self.cells // size ** (self.digits - 1))
        table = histogram.reshape(1, size, -1, size)  # digits of y done, digit of a, lower digits of a, u
        for _ in range(self.digits):
            replaced = np.zeros((table.shape[0], values, *table.shape[2:]), dtype=np.int64)
            for value in range(values):
                for digit in range(size):
                    replaced[:, value] += table[:, digit][:, :, field.sums[:, field.products[digit, value]]]
            done = table.shape[0] * values
            values = size
            table = replaced.reshape(done, size, -1, size) if table.shape[2] > 1 else replaced.reshape(done, 1, 1, size)
        hits: Integers = table[: self.cells, 0, 0, 0]
        return hits

    def law(self, cells: Sequence[int]) -> MessageLaw:
        """The probability of every message."""
        held = one_participant(cells, self.cells, 1)
        context = precision(LAW_DIGITS)
        share = context.divide(Decimal(1), Decimal(self.size**self.digits))
        numbers = np.arange(self._possible, dtype=np.int64)
        hashes = self._hashes(numbers // self.size, np.array(held))
        hit, miss = self._element.law([0]).probabilities[:2]
        chances = {True: context.multiply(share, hit), False: context.multiply(share, miss)}
        return MessageLaw(numbers, tuple(chances[bool(same)] for same in hashes == numbers % self.size))

    @property
    def code(self) -> IndexCode:
        """One integer."""
        return IndexCode(self._possible)

    def blankets(self) -> list[Blanket]:
        """The blankets of a hash."""
        return hash_blankets(self.ones, self.epsilon, self.size)

    @classmethod
    def audits(cls) -> Mapping[str, Checks]:
        """Over four elements there are few enough messages to count each."""
        return {
            cls.name: lambda epsilon, delta: message_checks(
                cls.name, cls(AUDITED_CELLS, 1, epsilon, size=4), SINGLE, np.asarray
            )
        }
