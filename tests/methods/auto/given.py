"""Small data for the default: three far clouds, one cloud that a plane divides, and tasks over them."""

from fractions import Fraction

import numpy as np

from tacit.core.guarantee import Adjacency, Unit
from tacit.methods.task import Task
from tacit.private.records import Private, Records

CLASSES = ("a", "b", "c")
CENTERS = np.array([[0.0, 0, 0, 0], [9, 0, 9, 0], [0, 9, 0, 9]])


def clouds(size, seed):
    """Samples of three far clouds, a class each: clusters are classes."""
    drawn = np.random.default_rng(seed)
    labels = drawn.integers(0, 3, size)
    return CENTERS[labels] + drawn.normal(size=(size, 4)), labels


def planes(size, seed):
    """Samples of one cloud, whose classes are thirds of a direction: clusters are no classes."""
    drawn = np.random.default_rng(seed)
    samples = drawn.normal(size=(size, 4))
    return samples, np.digitize(samples[:, 0] + samples[:, 1], [-0.6, 0.6])


def halves(size, seed):
    """Samples of one cloud that a plane divides into two classes."""
    samples, labels = planes(size, seed)
    return samples, np.minimum(labels, 1)


def task(private, public, **more):
    """A task over these records and public samples, as the door makes it."""
    samples, labels = private
    values = {
        "public": public, "classes": np.array(CLASSES), "epsilon": Fraction(8), "delta": Fraction(1, 10**5),
        "unit": Unit(), "adjacency": Adjacency.REPLACE_ONE, "trust": None, "units": len(labels), "request": "r",
        "own_budget": True, "parts": (Private(Records(samples, labels)),),
    }  # fmt: skip
    return Task(**values | more)
