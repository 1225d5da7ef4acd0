"""Questions, devices and vectors that the tests of the intake share."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric import x25519

from tacit.core.randomness import SystemRandomness
from tacit.federation import keys
from tacit.federation.intake.device import Device, DevicePolicy
from tacit.federation.intake.messages import DeviceMessage, double_box
from tacit.federation.intake.question import OpenQuestion
from tacit.federation.keys import public_key
from tacit.mechanisms.local.randomized_response import GeneralizedRandomizedResponse
from tacit.mechanisms.local.subset_selection import SubsetSelection
from tacit.mechanisms.shuffle.single_message import Shuffled, SingleMessage
from tacit.methods.rknn.holder import OneRecordHolders
from tacit.methods.rknn.wire import VoteAsk
from tacit.private.records import Records
from tacit.representations.scaled import Identity, PrincipalComponents, Standardized

COORDINATOR, SHUFFLER = b"c" * 32, b"s" * 32
FUTURE = 4_000_000_000
PURPOSE = "reverse k-NN labels"
NAMES = ("a", "b")
QUERIES = np.array([[0, 0, 0], [4, 0, 0], [0, 4, 0], [0, 0, 4], [4, 4, 4]], dtype=np.float32)
CELLS = len(QUERIES) * len(NAMES)
GOLDEN = Path(__file__).parents[2] / "golden" / "device_vectors.json"


def asked(mechanism, representation=None, queries=QUERIES, neighbors=1, names=NAMES, request="r-1", purpose=PURPOSE):
    representation = representation or Identity(queries.shape[1])
    return VoteAsk(queries, representation, neighbors, names, "c0ffee", mechanism, purpose, request)


def local_question(mechanism=None, **options):
    settings = {name: options.pop(name) for name in ("closes", "most", "minimum", "admission") if name in options}
    mechanism = mechanism or GeneralizedRandomizedResponse(CELLS, 1, 2)
    return OpenQuestion.of(asked(mechanism, **options), **{"closes": FUTURE, "most": 1000, **settings})


def sealed_question(quorum=2, mechanism=None, **options):
    plan = SingleMessage(mechanism or SubsetSelection(CELLS, 1, 2), quorum, "1e-6")
    settings = {"closes": FUTURE, "most": 1000, "minimum": max(2, quorum)}
    settings |= {name: options.pop(name) for name in ("closes", "most", "minimum", "admission") if name in options}
    keyed = {"key": public_key(COORDINATOR), "shuffler": public_key(SHUFFLER)}
    return OpenQuestion.of(asked(Shuffled(plan, quorum), **options), **settings, **keyed)


def a_policy(**changes):
    settings = {"epsilon": 10, "question": 5, "local": 5, "purposes": (PURPOSE,), "delta": "1e-5"}
    return DevicePolicy(**{**settings, "shuffler": public_key(SHUFFLER), **changes})


def a_device(folder, sample=(0.5, 0, 0), label="a", policy=None, **options):
    return Device(folder / "device", np.array(sample, dtype=float), label, policy or a_policy(), **options)


class Script:
    """Words that are written down beforehand, and how many of them were used."""

    origin = "seeded"

    def __init__(self, content: bytes) -> None:
        self._words = np.frombuffer(content, dtype="<u8").astype(np.uint64)
        self.used = 0

    def words(self, count):
        found = self._words[self.used : self.used + count]
        assert len(found) == count, "the script is too short"
        self.used += count
        return found


class Fresh:
    """In place of X25519 keys: fresh ones are those that were written down, one after the other."""

    def __init__(self, secrets):
        self._secrets = list(secrets)

    def generate(self):
        return x25519.X25519PrivateKey.from_private_bytes(self._secrets.pop(0))

    def from_private_bytes(self, secret):
        return x25519.X25519PrivateKey.from_private_bytes(secret)


def vector(monkeypatch, name, question, features, label, words, token, fresh):
    """One vector, made by the package's own parts from fixed words and fresh keys."""
    script = Script(words)
    monkeypatch.setattr(keys, "X25519PrivateKey", Fresh(fresh))
    held = OneRecordHolders._own_cells(
        _NoGate(), question.ask, Records(np.array([features], dtype=float), np.array([NAMES.index(label)]))
    )
    message = question.mechanism.encode(held, script)
    packed = question.mechanism.code.pack(message)[0].tobytes()
    payload = double_box(question, packed) if question.sealed else packed
    monkeypatch.undo()
    return {
        "name": name,
        "question": question.to_bytes().hex(),
        "digest": question.digest,
        "features": list(features),
        "label": label,
        "words": words[: 8 * script.used].hex(),
        "token": token.hex(),
        "fresh": [each.hex() for each in fresh],
        "cells": held[0].tolist(),
        "used": script.used,
        "packed": packed.hex(),
        "message": DeviceMessage(token, payload).to_bytes(question).hex(),
    }


class _NoGate:
    _cache = None
    _progress = None


# As they were fitted once: the last digits of a fit differ from one processor to another.
COMPONENTS = PrincipalComponents(
    np.array([2.5, 1.0, 1.25]),
    np.array([
        [0.9274486400910598, -0.2387652917399531, -0.28780228535155766],
        [0.3267100531971651, 0.14292731958621396, 0.9342549558101398],
        [0.18193284786742014, 0.9605013882219202, -0.21056476934809099],
    ]),
)  # fmt: skip


def vector_questions():
    public = np.array([[0, 1, 2], [3, 1, 0], [2, 2, 2], [5, 0, 1]], dtype=float)
    wide = np.arange(60, dtype=np.float32).reshape(30, 2)
    return {
        "response": (local_question(), (0.5, 0, 0), "a"),
        "response, two neighbors": (
            local_question(GeneralizedRandomizedResponse(CELLS, 2, "1/2"), neighbors=2), (3, 1, 0), "b",
        ),
        "response, standardized": (local_question(representation=Standardized.fit(public)), (2, 1, 0), "b"),
        "response, components": (local_question(representation=COMPONENTS), (2, 2, 1), "a"),
        "response, tokens": (local_question(admission="tokens"), (0, 0, 5), "b"),
        "subset of many": (local_question(SubsetSelection(CELLS, 1, 1)), (0, 0, 5), "a"),
        "subset, two neighbors": (
            local_question(SubsetSelection(60, 2, 1), queries=wide, neighbors=2), (7.5, 8), "a",
        ),
        "subset of few, shuffled": (sealed_question(mechanism=SubsetSelection(60, 1, 4), queries=wide), (31, 30), "b"),
        "response, shuffled, tokens": (
            sealed_question(mechanism=GeneralizedRandomizedResponse(CELLS, 1, 3), admission="tokens"), (1, 5, 1), "b",
        ),
    }  # fmt: skip


def written_vectors(monkeypatch, draws=None):
    """All vectors, from the words, tokens and keys of vectors that were written before or from new ones."""
    before = {each["name"]: each for each in draws} if draws else {}
    made = []
    for name, (question, features, label) in vector_questions().items():
        old = before.get(name)
        words = bytes.fromhex(old["words"]) if old else SystemRandomness().words(4000).tobytes()
        token = bytes.fromhex(old["token"]) if old else SystemRandomness().words(4).tobytes()
        token = token[: 32 if question.admission == "tokens" else 16]
        fresh = [bytes.fromhex(each) for each in old["fresh"]] if old else []
        if question.sealed and not old:
            fresh = [SystemRandomness().words(4).tobytes() for _ in range(2)]
        made.append(vector(monkeypatch, name, question, features, label, words, token, fresh))
    return made


def golden():
    return json.loads(GOLDEN.read_text(encoding="utf-8"))
