"""UMAP's map of the public samples, for whom the extra is installed: purer clusters than a spectral map's, slower.

UMAP's own ``transform`` is never used on records: it places a whole batch at once, so that one record's place
depends on the others in the batch. Records are placed by their nearest public samples instead.
"""

from __future__ import annotations

import warnings

from tacit.core.errors import InvalidInput
from tacit.core.protocols import Floats
from tacit.representations.interpolated import Interpolated

__all__ = ["umap_map"]


def umap_map(public: Floats, components: int = 10, neighbors: int = 10) -> Interpolated:
    """Fit UMAP on the public samples with a fixed seed.

    >>> import numpy as np
    >>> umap_map(np.zeros((3, 2), dtype=np.float32), neighbors=5)
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: neighbors must be at least 2 and below the 3 public samples, got 5
    """
    if not 2 <= neighbors < len(public):
        raise InvalidInput(f"neighbors must be at least 2 and below the {len(public)} public samples, got {neighbors}")
    if not 1 <= components < len(public) - 2:
        raise InvalidInput(f"components must be at least 1 and below {len(public) - 2}, got {components}")
    with warnings.catch_warnings():
        # The library warns of its own dependencies' future changes, and that one seed means one thread.
        warnings.simplefilter("ignore")
        try:
            from umap import UMAP
        except ImportError:
            raise InvalidInput("UMAP needs an extra: pip install 'tacit[features]'") from None
        fitted = UMAP(neighbors, components, min_dist=0.0, random_state=0, n_jobs=1).fit(public)
    return Interpolated.fit(public, fitted.embedding_)
