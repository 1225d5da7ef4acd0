"""The privacy blanket of each local mechanism that has a simple one.

Where a message has either a floor probability or e^ε times that, two numbers say how well shuffled messages hide each
other (see ``privacy_blanket.py``): the floor's whole mass γ, and its mass a on the messages that one of
two inputs makes likely and the other does not. Inputs that share j of their c cells have a smaller a; as it is not
obvious which two are the worst, all cases are listed.

- Naming one of d cells: the floor is 1/Ω on each; c − j cells are likely under one input only.
- A subset of w cells: the floor is 1/Ω on each of C(d, w); those that meet one set of cells and miss the other number
  C(d−c, w) − C(d−2c+j, w).
- One cell hashed to l buckets: the floor is 1/Ω on each; the two cells fall into different ones with probability
  1 − 1/l, as far as the hash of two cells is independent.
- Bits, one cell: an input's law is that of no cell at all times a quotient of its own bit's probabilities, of which
  the smaller makes the floor. Messages with the bits (1, 0) of the two cells are the likely ones.
"""

from __future__ import annotations

import math

from tacit.core.protocols import LocalMechanism
from tacit.mechanisms.local.bit_response import BitResponse
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.generalized_response import GeneralizedResponse
from tacit.mechanisms.local.linear_hashing import LinearHashing
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.shuffle.privacy_blanket import Blanket

__all__ = ["blankets"]


def blankets(mechanism: LocalMechanism) -> list[Blanket]:
    """One blanket for each way in which two inputs can overlap; none where none is proven.

    >>> [round(each.total, 6) for each in blankets(GeneralizedResponse(cells=10, ones=2, epsilon=1))]
    [0.744238, 0.744238]
    """
    epsilon, ones, cells = float(mechanism.epsilon), mechanism.ones, mechanism.cells
    shared = range(max(0, 2 * ones - cells), ones)
    match mechanism:
        case GeneralizedResponse():
            floor = 1 / (ones * math.exp(epsilon) + cells - ones)
            return [Blanket(epsilon, (ones - j) * floor, cells * floor) for j in shared]
        case SubsetSelection(size=size):
            # Everything is divided by C(d, w), so that nothing overflows.
            floor = 1 / (math.exp(epsilon) - math.expm1(epsilon) * _missed(cells, size, ones))
            return [
                Blanket(epsilon, (_missed(cells, size, ones) - _missed(cells, size, 2 * ones - j)) * floor, floor)
                for j in shared
            ]
        case Collision(length=length) | LinearHashing(size=length) if ones == 1:
            floor = 1 / (math.exp(epsilon) + length - 1)
            return [Blanket(epsilon, (1 - 1 / length) * floor, length * floor)]
        case BitResponse(symmetric=symmetric, rates=rates) if ones == 1:
            raised = rates.zero
            if symmetric:
                return [Blanket(epsilon, raised**2, raised / (1 - raised))]
            return [Blanket(epsilon, raised / 2, 1 / (2 * (1 - raised)))]
        case _:
            return []


def _missed(cells: int, size: int, held: int) -> float:
    """C(d−h, w)/C(d, w): how likely a uniform subset misses h cells."""
    return math.prod((cells - size - i) / (cells - i) for i in range(min(held, cells - size + 1)))
