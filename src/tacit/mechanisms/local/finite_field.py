"""Finite fields as tables of sums and products, for the sizes that linear hashing needs: primes and powers of two."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Integers

__all__ = ["FIELD_SIZES", "FiniteField", "finite_field"]

LARGEST = 257


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


FIELD_SIZES = tuple(size for size in range(2, LARGEST + 1) if _is_prime(size) or size & (size - 1) == 0)


@dataclass(frozen=True)
class FiniteField:
    """The numbers 0, …, size − 1 with a sum and a product of every two; 0 and 1 are neutral as usual."""

    size: int
    sums: Integers
    products: Integers


def _polynomial_products(degree: int, modulus: int) -> Integers:
    """Products of polynomials over two elements, written as bits, modulo one of that degree."""
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

    Polynomials modulo some other are a field exactly when no two of them but 0 multiply to 0, so moduli are tried
    until one passes; there is one of every degree.

    >>> finite_field(4).products.tolist()
    [[0, 0, 0, 0], [0, 1, 2, 3], [0, 2, 3, 1], [0, 3, 1, 2]]
    """
    if size not in FIELD_SIZES:
        raise InvalidInput(f"size must be a prime or a power of two in [2, {LARGEST}], got {size}")
    numbers = np.arange(size)
    if _is_prime(size):
        return FiniteField(size, np.add.outer(numbers, numbers) % size, np.multiply.outer(numbers, numbers) % size)
    degree = size.bit_length() - 1
    moduli = (_polynomial_products(degree, modulus) for modulus in range(size + 1, 2 * size, 2))
    products = next(table for table in moduli if table[1:, 1:].all())
    return FiniteField(size, numbers[:, None] ^ numbers[None, :], products)
