"""Messages go into boxes that all look alike and come out without a sender; spoiled ones are left out and counted."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

pytest.importorskip("cryptography", reason="needs tacit[federated]")


from tacit.core.account import Ceiling
from tacit.core.codec import decode, encode
from tacit.core.errors import InvalidInput, RequestConflict, TooFewParticipants
from tacit.core.randomness import SeededRandomness
from tacit.federation.collector.batches import empty_boxes, plan_batch, read_shuffled, sealed_messages, shuffled
from tacit.federation.collector.messages import Batch, Submission
from tacit.federation.keys import OVERHEAD, public_key, seal, unseal
from tacit.ledger.memory import MemoryLedger
from tacit.mechanisms.local.bucket_labels import Concatenation, Separation
from tacit.mechanisms.local.collision import Collision
from tacit.mechanisms.local.linear_hashing import LinearHashing
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.local.unary_encoding import LocalLaplace, UnaryEncoding
from tacit.mechanisms.local.vote_shape import VoteShape
from tacit.mechanisms.shuffle.multi_message_noise import plan_noise_messages
from tacit.mechanisms.shuffle.single_message import SealedMessages, SingleMessage, from_pieces, to_pieces
from tacit.methods.rknn.holder import OneRecordHolders
from tacit.methods.rknn.wire import VoteAsk
from tacit.private.gate import Gate
from tacit.private.records import Private, Records
from tacit.representations.scaled import Identity as Unchanged

SECRET = b"s" * 32
NODES = ("ada", "bob", "cyd")
SHAPE = VoteShape(queries=2, classes=3)
CELLS = 6
FLOOD = plan_noise_messages(4, 1e-3, cells=CELLS, participants=30, prefer="1/2")
LOCAL = [
    UnaryEncoding(CELLS, 1, 4),
    Collision(CELLS, 1, 4),
    Concatenation(SHAPE, 4, corrected=True),
    GeneralizedRandomizedResponse(CELLS, 1, 4),
    LinearHashing(CELLS, 1, 4),
    LocalLaplace(CELLS, 1, 4),
    Separation(SHAPE, 4),
    SubsetSelection(CELLS, 1, 4),
]
PLANS = [FLOOD, *(SingleMessage(each, 30, 1e-3) for each in LOCAL)]
VOTES = np.arange(10)[:, None] % CELLS


def named(plan):
    return type(plan.mechanism if isinstance(plan, SingleMessage) else plan).__name__


def batch_of(plan, **more):
    return plan_batch(plan, "run", 0, "r-1", (*NODES, "dan"), public_key(SECRET), participants=10, **more)


def handed_in(plan, batch, node="ada", seed=1):
    return Submission(10, sealed_messages(plan, batch, node, 10).sample(VOTES, SeededRandomness(seed)))


@pytest.mark.parametrize("plan", PLANS, ids=named)
def test_messages_come_through_the_shuffler_as_they_were(plan):
    batch = batch_of(plan, block=8)
    outcome = shuffled(batch, [handed_in(plan, batch, node, seed) for seed, node in enumerate(NODES)])
    found = read_shuffled(outcome.content, batch, SECRET, plan)
    direct = np.concatenate([plan.sample(VOTES, SeededRandomness(seed)) for seed in range(3)])
    assert sorted(map(bytes, found.messages)) == sorted(map(bytes, direct))
    assert (found.participants, found.nodes, found.unreadable, found.invalid) == (30, 3, 0, 0)
    assert outcome.pieces == len(found.messages) + found.empty
    assert outcome.pieces % 8 == 0
    one, other = found.estimates(plan), plan.decode(direct, 30)
    assert one.counts == pytest.approx(other.counts)


@pytest.mark.parametrize("plan", PLANS, ids=named)
def test_pieces_come_back(plan):
    messages = plan.sample(VOTES, SeededRandomness(1))
    pieces = to_pieces(plan, messages)
    assert {len(piece) for piece in pieces} == {plan.code.size}
    again = from_pieces(plan, pieces)
    assert again.dtype == messages.dtype
    assert np.array_equal(again, messages)
    assert plan.code.valid(again).all()
    with pytest.raises(InvalidInput, match="must have"):
        from_pieces(plan, [pieces[0][:-1]])


def test_boxes_of_full_and_empty_look_alike():
    batch = batch_of(PLANS[4], block=8)
    boxes = handed_in(PLANS[4], batch).pieces
    assert boxes.shape == (16, OVERHEAD + 1 + 1)
    assert len(np.unique(boxes, axis=0)) == 16
    assert empty_boxes(batch, 2).shape == (2, boxes.shape[1])


def test_which_of_a_nodes_boxes_are_empty_is_not_told_by_their_places():
    """Ten of sixteen are full; that they come first every time happens by chance once in 10^19 tries."""
    batch = batch_of(PLANS[4], block=8)
    tries = [handed_in(PLANS[4], batch).pieces for _ in range(5)]
    full = [[unseal(SECRET, box.tobytes(), batch.digest)[:1] == b"\1" for box in boxes] for boxes in tries]
    assert all(sum(each) == 10 for each in full)
    assert any(not all(each[:10]) for each in full)


@pytest.mark.parametrize(("block", "draws"), [(1, 8), (64, 3)])
def test_the_number_of_a_nodes_boxes_does_not_depend_on_what_it_drew(block, draws):
    """The coordinator chooses the block: with one of 1, counts of boxes would tell each node's noise."""
    batch = batch_of(FLOOD, block=block)
    sealed = sealed_messages(FLOOD, batch, "ada", 1)
    votes = [np.array([[seed % CELLS]]) for seed in range(draws)]
    counts = {len(FLOOD.sample(vote, SeededRandomness(seed))) for seed, vote in enumerate(votes)}
    boxes = [len(sealed.sample(vote, SeededRandomness(seed))) for seed, vote in enumerate(votes)]
    assert len(counts) > 1
    assert boxes == [batch.blocks(FLOOD.most_messages(1))] * draws


def test_a_draw_beyond_the_room_is_cut_and_tells_nothing():
    batch = batch_of(FLOOD, block=1)
    room = FLOOD.most_messages(1)
    piece = to_pieces(FLOOD, np.array([[0, 1]]))
    boxes = sealed_messages(FLOOD, batch, "ada", 1).seal(piece * (room + 9))
    assert boxes.shape == (room, batch.size)


def hostile(plan, batch, contents, context=None):
    boxes = [seal(batch.key, content, context or batch.digest) for content in contents]
    return np.frombuffer(b"".join(boxes), dtype=np.uint8).reshape(len(contents), batch.size)


@pytest.mark.parametrize("plan", PLANS, ids=named)
def test_spoiled_boxes_are_left_out_and_counted(plan):
    batch = batch_of(plan, block=1)
    size = plan.code.size
    honest = [handed_in(plan, batch, node, seed) for seed, node in enumerate(NODES)]
    nonsense = b"\xff" * size if not isinstance(getattr(plan, "mechanism", None), LocalLaplace) else b"\x7f" * size
    spoiled = np.concatenate(
        [
            np.zeros((1, batch.size), dtype=np.uint8),
            np.full((1, batch.size), 7, dtype=np.uint8),
            hostile(plan, batch, [b"\2" + b"\0" * size]),
            hostile(plan, batch, [b"\1" + nonsense]),
            hostile(plan, batch, [b"\1" + b"\0" * size], context="another batch"),
            honest[0].pieces[:1],
        ]
    )
    outcome = shuffled(batch, [*honest, Submission(1, spoiled)])
    found = read_shuffled(outcome.content, batch, SECRET, plan)
    assert len(found.messages) == len(read_shuffled(shuffled(batch, honest).content, batch, SECRET, plan).messages)
    assert (found.unreadable, found.invalid, found.duplicates) == (4, 1, 1)
    assert "4 unreadable and 1 invalid" in found.in_words


def test_what_belongs_to_another_batch_is_refused():
    plan = PLANS[4]
    batch, other = batch_of(plan), plan_batch(plan, "another", 0, "r-1", NODES, public_key(SECRET), participants=10)
    outcome = shuffled(batch, [handed_in(plan, batch, node, seed) for seed, node in enumerate(NODES)])
    with pytest.raises(InvalidInput, match="another batch"):
        read_shuffled(outcome.content, other, SECRET, plan)
    with pytest.raises(InvalidInput, match="another key"):
        read_shuffled(outcome.content, batch, b"t" * 32, plan)
    with pytest.raises(InvalidInput):
        read_shuffled(encode(decode(outcome.content) | {"participants": 29}), batch, SECRET, plan)
    # Replayed into the other batch, every box is one that cannot be opened.
    replayed = shuffled(other, [Submission(10, handed_in(plan, batch, node, 1).pieces) for node in NODES])
    found = read_shuffled(replayed.content, other, SECRET, plan)
    assert len(found.messages) == 0
    assert found.unreadable == 3 * 64
    with pytest.raises(TooFewParticipants):
        found.estimates(plan)


def test_a_node_refuses_a_batch_that_would_hide_its_clients_less():
    plan = PLANS[4]
    weak = Batch(**{name: getattr(batch_of(plan), name) for name in Batch.__dataclass_fields__} | {"minimum": 29})
    with pytest.raises(InvalidInput, match="needs at least 30"):
        sealed_messages(plan, weak, "ada", 10)
    with pytest.raises(InvalidInput, match="does not expect"):
        sealed_messages(plan, batch_of(plan), "eve", 10)
    with pytest.raises(InvalidInput, match="boxes does not fit"):
        sealed_messages(PLANS[2], batch_of(plan), "ada", 10)
    small = batch_of(plan, block=1)
    with pytest.raises(InvalidInput, match="room for 10"):
        sealed_messages(plan, small, "ada", 10).sample(np.zeros((11, 1), dtype=np.int64), SeededRandomness(1))
    with pytest.raises(InvalidInput, match="participants must be"):
        plan_batch(plan, "run", 0, "r", NODES, public_key(SECRET), participants=0)


def test_an_honest_flood_always_fits():
    batch = batch_of(FLOOD, block=1)
    sizes = [len(FLOOD.sample(VOTES, SeededRandomness(seed))) for seed in range(300)]
    assert max(sizes) < batch.most
    assert batch.most < 20 * np.mean(sizes)


def crowd(records=10):
    gate = Gate(MemoryLedger({"ada": Ceiling(10, "1e-2")}), "ada")
    samples = np.tile([[0.0], [9.0]], (records // 2, 1))
    return OneRecordHolders([Private(Records(samples, np.arange(records) % 3))], gate), gate


def test_a_crowd_pays_seals_and_replays():
    plan = PLANS[4]
    holder, _gate = crowd()
    batch = batch_of(plan)
    queries = np.array([[0.0], [9.0]], dtype=np.float32)

    def ask(mechanism):
        return VoteAsk(queries, Unchanged(1), 1, ("a", "b", "c"), "", mechanism, "votes", "r-1")

    first = holder.answer(ask(sealed_messages(plan, batch, "ada", 10)))
    again = holder.answer(ask(sealed_messages(plan, batch, "ada", 10)))
    assert np.array_equal(first.value, again.value)
    assert first.receipts == again.receipts
    assert first.receipts[0].spend == plan.spend
    other = plan_batch(plan, "another", 0, "r-1", NODES, public_key(SECRET), participants=10)
    with pytest.raises(RequestConflict):
        holder.answer(ask(sealed_messages(plan, other, "ada", 10)))
    with pytest.raises(InvalidInput, match="does not answer through SingleMessage"):
        holder.answer(ask(plan))


def test_a_seal_is_not_shown():
    one, other = (SealedMessages(PLANS[4], "s", seal) for seal in (len, repr))
    assert repr(one) == repr(other)
    assert one == other


@pytest.mark.statistical(rate=1e-9)
def test_the_order_is_uniform_and_that_of_arrival_is_not():
    batch = batch_of(PLANS[4], block=1)
    marked = [Submission(1, np.full((1, batch.size), fill, dtype=np.uint8)) for fill in range(4)]
    rounds = 2400

    def statistic(orders):
        places = np.zeros((4, 4))
        for order in orders:
            places[np.arange(4), order] += 1
        return float(((places - rounds / 4) ** 2 / (rounds / 4)).sum())

    limit = chi2.isf(1e-9, 9)
    seen = [decode(shuffled(batch, marked).content)["pieces"][:, 0] for _ in range(rounds)]
    assert statistic(seen) < limit
    # Mutant: a shuffler that forwards in the order of arrival.
    assert statistic([np.arange(4)] * rounds) > 10 * limit


@pytest.mark.parametrize("plan", PLANS, ids=named)
@pytest.mark.parametrize("wrong", [{"most": -1}, {"largest": -1}, {"each": 2}])
def test_a_batch_without_room_for_every_draw_is_refused_by_its_numbers(plan, wrong):
    batch = batch_of(plan, block=1)
    sealed_messages(plan, batch, "ada", 10)
    ((name, change),) = wrong.items()
    with pytest.raises(InvalidInput, match="all noise messages fit"):
        sealed_messages(plan, replace(batch, **{name: getattr(batch, name) + change}), "ada", 10)
    with pytest.raises(InvalidInput, match="this node needs"):
        sealed_messages(plan, batch, "ada", 11)
