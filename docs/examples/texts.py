"""Texts: an array of strings goes in, and the student labels new strings."""

import numpy as np

import tacit

WORDS = {
    "airways": ["cough", "fever", "throat", "breath", "cold", "flu"],
    "bones": ["fracture", "knee", "cast", "fall", "hip", "wrist"],
}
chance = np.random.default_rng(3)


def notes(count):
    kinds = chance.choice(list(WORDS), count)
    said = [", ".join(chance.choice(WORDS[kind], 3, replace=False)) for kind in kinds]
    return np.array([f"Visit {chance.integers(10**9)}: {words}." for words in said]), kinds


texts, kinds = notes(800)
public, _ = notes(300)

run = tacit.distill((texts, kinds), public, epsilon=2.0, delta=1e-5, classes=list(WORDS))

new, truth = notes(200)
print(run.recipe["data_kind"], "accuracy on new texts:", (run.student.predict(new) == truth).mean())
