"""UMAP's map, where the extra is installed, and what is said where it is not."""

import importlib.util
import sys

import numpy as np
import pytest

from tacit.core.errors import InvalidInput
from tacit.datasets.published import digits
from tacit.representations.maps import umap_map


@pytest.mark.skipif(importlib.util.find_spec("umap") is None, reason="umap-learn is not installed")
def test_umap_has_the_dimensions_asked_for_and_carries_over_row_by_row():
    parts = digits()
    public, records = parts.public_samples[:60].astype(np.float32), parts.private_samples[:20]
    fitted = umap_map(public, components=3, neighbors=7)
    whole = fitted.encode(records)
    assert whole.shape == (20, 3)
    assert np.array_equal(whole, np.concatenate([fitted.encode(records[[row]]) for row in range(20)]))


def test_without_umap_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(InvalidInput, match=r"pip install 'tacit\[features\]'"):
        umap_map(np.zeros((30, 4), dtype=np.float32))


def test_umap_of_too_few_samples_is_refused():
    with pytest.raises(InvalidInput, match="components"):
        umap_map(np.zeros((12, 4), dtype=np.float32), components=10)
