"""Sets of labels: each record has up to three of them, and each public sample gets a set."""

import numpy as np

import tacit

parts = tacit.digits()
names = ["even", "prime", "large"]


def sets(digits):
    return np.stack([digits % 2 == 0, np.isin(digits, [2, 3, 5, 7]), digits > 4], axis=1).astype(int)


run = tacit.distill(
    (parts.private_samples, sets(parts.private_labels)),
    parts.public_samples,
    epsilon=4.0,
    classes=names,
    max_labels=3,  # public: it sets the noise
    thresholds="half",  # for whole sets; the default is the best F1
)

right = (run.student.predict(parts.test_samples) == sets(parts.test_labels)).all(axis=1)
print(run.labels[:3], "whole sets right:", right.mean())
