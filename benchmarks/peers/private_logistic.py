"""diffprivlib's logistic regression, in an environment of its own (it wants older numpy and scikit-learn).

Run by benchmarks/defaults.py: python private_logistic.py FILE.npz EPSILON SEED; writes the chances of the
test rows into FILE.chances.npy. The data norm is one of the public rows', so that nothing is read off private ones.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from diffprivlib.models import LogisticRegression

if __name__ == "__main__":
    file, epsilon, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    with np.load(file) as parts:
        rows, labels, public, test = (parts[name] for name in ("rows", "labels", "public", "test"))
    best = float(np.quantile(np.linalg.norm(public, axis=1), 0.95))
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    model = LogisticRegression(epsilon=epsilon, data_norm=best, max_iter=300, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rows * np.minimum(1, best / np.maximum(lengths, 1e-12)), labels)
    np.save(file + ".chances.npy", model.predict_proba(test))
