"""What a node keeps of a FedMD run: what it was paid to learn from, and nothing else."""

import numpy as np
import pytest

from tacit.core.account import Ceiling
from tacit.core.errors import BudgetExceeded, InvalidInput
from tacit.federation.node.steps import FolderMemory, NodeMemory
from tacit.ledger.memory import MemoryLedger
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse, Responses
from tacit.methods.fedmd.holder import RandomizedParty
from tacit.methods.fedmd.models import ConsensusStore
from tacit.methods.fedmd.wire import Feedback, PredictAsk, PredictionForm, array_digest
from tacit.private.gate import Gate
from tacit.private.records import Private, Records
from tacit.students.weighted import logistic
from tacit.students.wrapped import Refitted

PUBLIC = np.arange(4.0)[:, None]
ROWS = np.arange(4)


def agreed(number):
    return Feedback(number, ROWS, np.full((4, 2), 0.5, dtype=np.float32))


def asked(room, gate, number):
    feedback = agreed(number - 1) if number else None
    form, noise = PredictionForm("argmax", 2), Responses(GeneralizedRandomizedResponse(2, 1, 1), 4)
    ask = PredictAsk(number, ROWS, form, noise, array_digest(PUBLIC), feedback, "labels", f"run round {number}")
    records = Private(Records(np.array([[0.0], [3.0]]), np.array([0, 1])))
    return room.answer(ask, RandomizedParty(records, gate, room.study()).answer)


class CountedMemory(NodeMemory):
    """Counts how often something is read."""

    reads = 0

    def read(self, name):
        self.reads += 1
        return super().read(name)


def test_a_round_far_away_reads_nothing_before_it_is_paid_for():
    """A million small files were looked for, whoever asked and whether or not it could be paid."""
    memory = CountedMemory()
    room = ConsensusStore(lambda: Refitted(logistic(), 2), PUBLIC, memory)
    gate = Gate(MemoryLedger({"clinic": Ceiling(5)}), "clinic")
    asked(room, gate, 0)
    memory.reads = 0
    with pytest.raises(BudgetExceeded):
        asked(room, gate, 9_999)
    assert memory.reads <= 3


@pytest.mark.parametrize("folder", [False, True])
def test_what_was_agreed_on_is_kept_for_rounds_that_were_paid_for_only(folder, tmp_path):
    """After one paid answer every further round could be told for nothing, up to a full disk."""
    memory = FolderMemory(tmp_path / "agreements") if folder else NodeMemory()
    room = ConsensusStore(lambda: Refitted(logistic(), 2), PUBLIC, memory)
    gate = Gate(MemoryLedger({"clinic": Ceiling(100)}), "clinic")
    with pytest.raises(InvalidInput, match="did not answer"):
        room.conclude("run", agreed(0))
    for number in range(3):
        asked(room, gate, number)
        with pytest.raises(InvalidInput, match="did not answer"):
            room.conclude("run", agreed(number + 1))
        room.conclude("run", agreed(number))
        with pytest.raises(InvalidInput, match="did not answer"):
            room.conclude("run", agreed(number + 1))
    # A round that is asked again does not take back how far the run has come.
    asked(room, gate, 0)
    room.conclude("run", agreed(2))
    with pytest.raises(InvalidInput, match="did not answer"):
        room.conclude("another run", agreed(0))
