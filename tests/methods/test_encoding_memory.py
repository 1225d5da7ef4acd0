"""Encodings in a node's memory: the same bits as without it, bounded, and of the right representation and records."""

import numpy as np

from tacit.methods.encoding import EncodingMemory, encoded_chunks
from tacit.representations.scaled import Identity, Standardized

ROWS = np.random.default_rng(1).normal(size=(60, 4))


class Counted:
    """A representation that counts how often it is asked."""

    def __init__(self):
        self.calls, self.digest = 0, "counted"

    def encode(self, samples):
        self.calls += 1
        return samples.astype(np.float32)


def test_encodings_are_computed_once_and_are_the_same_bits():
    memory, representation = EncodingMemory(10**6), Counted()
    for _ in range(3):
        (chunk,) = encoded_chunks(representation, ROWS, memory)
        np.testing.assert_array_equal(chunk, ROWS.astype(np.float32))
        # Who writes into them changes nothing for the next question.
        chunk[:] = 0
    assert representation.calls == 1


def test_other_records_and_other_representations_are_other_encodings():
    memory = EncodingMemory(10**6)
    fitted = Standardized.fit(ROWS)
    for _ in range(2):
        for rows in (ROWS, ROWS + 1, ROWS[:30], ROWS.reshape(30, 8)[:, :4]):
            for representation in (Identity(4), fitted):
                found = memory.encode(representation, rows)
                np.testing.assert_array_equal(found, representation.encode(rows))


def test_memory_is_bounded_and_keeps_what_is_asked_for_now():
    size = ROWS[:1].astype(np.float32).nbytes
    memory, old, new = EncodingMemory(10 * size), Counted(), Identity(4)
    for row in range(8):
        memory.encode(old, ROWS[row : row + 1])
    for row in range(20):
        memory.encode(new, ROWS[row : row + 1])
        assert memory.size <= 10 * size
    # The old ones went, the first of the new ones stay.
    assert memory.size == 10 * size
    memory.encode(old, ROWS[:1])
    assert old.calls == 9
    memory.forget()
    assert memory.size == 0


def test_what_is_larger_than_the_memory_is_not_kept():
    memory = EncodingMemory(0)
    np.testing.assert_array_equal(memory.encode(Identity(4), ROWS), ROWS.astype(np.float32))
    assert memory.size == 0
