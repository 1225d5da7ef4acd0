"""Mechanisms and answers on the wire, frozen: other versions of Tacit at other sites must read the same bytes."""

import hashlib

import pytest

from tacit.core.codec import encode
from tacit.mechanisms.registry import mechanism_fields
from tests.test_wire_answers import ANSWERS
from tests.wire_samples import CENTRAL, LOCAL, OTHERS

MECHANISMS = [*CENTRAL, *LOCAL, *OTHERS]
# The first digits of a SHA-256 each, as they were when mechanisms were written and packed by one central module.
WRITTEN = [
    "4906e24daf64fa11",  # permute-and-flip
    "f3df048e88891592",  # exponential-mechanism
    "078c173e6638ca11",  # discrete-laplace
    "d2c3344d563c9118",  # discrete-gaussian
    "c45fd492daeec9bf",  # laplace-votes
    "fdc12a7c6db014dc",  # gaussian-votes
    "744d215271226ccc",  # confidence-screen
    "5b013a4828d81c6c",  # bit-response
    "13e2cc357e28cb14",  # bit-response
    "a1d35432ea5db06b",  # collision
    "1754131417573784",  # concatenation
    "1d3d30924c9de4d0",  # generalized-response
    "3c729bd49eb1e0e9",  # linear-hashing
    "5f4981109ed72d31",  # local-laplace
    "fe2a2f1ac8ca66e7",  # separation
    "cdeddb577b0600fd",  # subset-selection
    "d140ffe4a034697a",  # sampled-votes, which no node answered before it had its adjacency in it
    "8c288d8d6b088df3",  # distributed-laplace
    "929111d60f72b80c",  # answer-sheet
    "ddc5894b67ddbeaa",  # responses
    "845ed10f9da277b0",  # shuffled
    "6fa3fba972579bb5",  # flooded-messages
    "d9641f480a3397fc",  # single-message
    "3d675c243d9b3060",  # single-message
    "8d22628138b26bf7",  # single-message
    "4b616d2f329279b2",  # single-message
    "ca2376b2bdf1358a",  # single-message
    "5cb683f0d124146a",  # single-message
    "cd7b8882dc1b727d",  # single-message
    "c7997bed74f12602",  # single-message
    "593fa22e0ed398a7",  # single-message
    "b1c5a46cb277ade6",  # shuffled
    "54dedd74488fa884",  # rounded-gaussian
    "5245934c3fabfe2c",  # distributed-gaussian
    "eb7275254f49e2f5",  # sampled-screen
    "6d0019021ba6c617",  # tested-votes
    "3565fde5f685a85f",  # estimated-votes
]
PACKED = [
    "c79b932e1e1da3c0",  # bit-response
    "c79b932e1e1da3c0",  # bit-response
    "da4112bac33937c6",  # collision
    "5ed6600c47861cca",  # concatenation
    "e77b9a9ae9e30b0d",  # generalized-response
    "dabd3aff769f07eb",  # linear-hashing
    "e4067c8fb80631ad",  # local-laplace
    "7fb2769f5aada2ec",  # separation
    "d2f637489e126b49",  # subset-selection
    "6e340b9cffb37a98",  # permute-and-flip
    "2b4c342f5433ebe5",  # exponential-mechanism
    "42ee11efa49c827d",  # discrete-laplace
    "c2afd748549ebb94",  # discrete-gaussian
    "a2a1007aa4959b5a",  # laplace-votes
    "5d31a6f09be5920e",  # gaussian-votes
    "e77b9a9ae9e30b0d",  # confidence-screen
    "da96094c350817f9",  # answer-sheet
    "452ba1ddef80246c",  # responses
    "f1e0431bcf35893a",  # responses
    "9c9dee5da0f9e44a",  # discrete-laplace
    "c10c903fd113bda0",  # shuffled
]


def digest(content):
    return hashlib.sha256(content).hexdigest()[:16]


@pytest.mark.parametrize(("mechanism", "expected"), list(zip(MECHANISMS, WRITTEN, strict=True)), ids=WRITTEN)
def test_a_mechanism_is_written_as_ever(mechanism, expected):
    assert digest(encode(mechanism_fields(mechanism))) == expected


@pytest.mark.parametrize(("answer", "expected"), list(zip(ANSWERS, PACKED, strict=True)), ids=PACKED)
def test_an_answer_is_packed_as_ever(answer, expected):
    ask, value, _ = answer
    assert digest(ask.answer_form(9).pack(value)) == expected
