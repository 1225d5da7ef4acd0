"""What crosses between machines, byte for byte: questions, their names in ledgers, and answers to them."""

import hashlib

from tacit.wire import ask_to_bytes
from tests.test_wire_answers import ANSWERS, given_to
from tests.wire_samples import ASKS

# A digest of each question's bytes, and the start of the digest that a ledger keeps of it.
QUESTIONS = """
fac1a061b5452f7a c5a0457f6b536a5f
14420a2d407c16ff 023aa922f5256246
8455463e617bcaac ca69ad2baca10eb8
c29384923fa902cd 8d46aa908becfa2e
1c13db873aadfe6c c5a0457f6b536a5f
3a8400cde358b9f7 c5a0457f6b536a5f
9d2536d42b5d2b79 c5a0457f6b536a5f
08353672c2d7f15b c5a0457f6b536a5f
b311a063d3648188 c5a0457f6b536a5f
bb8a3aa26818b337 c5a0457f6b536a5f
1a3b53771b0058a4 c5a0457f6b536a5f
b47c674d38746167 c5a0457f6b536a5f
b08e0fa75fd60300 c5a0457f6b536a5f
735eb70c13c1e86d f6f6407937b8b04c
c0548a50d8293682 355a8d57ef4b4f12
08e253049c3e779f 3913e58e52b0dd1f
db91b4c7149eb59f 74c7ce8f8f9efadd
edabc97e7c6e8ba1 3ed99ec71eccdfe5
55dea0cde7ff3e50 cc5b72277b054f48
0bce565f9d464cc7 -
4144a4f2f47bba1c 9673c0021de53d83
1e6606f369d46ad8 4288e45694429dd3
53ff54f7f088294a 26f36e462756be95
a6e154f33bf14dae a9b261999bdef62c
4769280552927859 0d4cef1786cc6bf6
50a0b373e0186e5c 620b41d841fbb638
42f67caec8565b77 b5f43dc8ba975a67
35c76650b1751821 f0e5841528a22381
"""
RELEASES = """
ee8427ca013297a2 ee8427ca013297a2 0a41634b9877602a b935fadcb7693336 296459e624f74349 cabf7a3f8403baba 29931f058f58b493
fe505346381ae9c9 1996b47c7c44d513 03e0ba2f15a76186 cbdd61bb32655384 1882c79e64a20437 033242c72061af6e 8e877932102bf71f
64d4235279efd578 296459e624f74349 aec30b410e470abe e3a4d9ee157a78da 8c733122c4890d86 c68ca0d24ba8f92b 40b0909f2a78a978
"""


def mark(payload):
    return hashlib.sha256(payload).hexdigest()[:16]


def test_questions_have_the_bytes_that_they_always_had():
    """Nodes of another version read them, and ledgers replay what was paid for under their digests."""
    found = [[mark(ask_to_bytes(ask)), getattr(ask, "question", "-")[:16]] for ask in ASKS]
    assert found == [line.split() for line in QUESTIONS.strip().splitlines()]


def test_answers_have_the_bytes_that_they_always_had():
    assert [mark(given_to(ask, value, most=9)[0]) for ask, value, _ in ANSWERS] == RELEASES.split()
