"""Images seen a little differently each time, so that a few labels teach more."""

from __future__ import annotations

import torch
from torch.nn import functional

__all__ = ["moved"]


def moved(images: torch.Tensor, by: float, generator: torch.Generator) -> torch.Tensor:
    """Each image shifted, zoomed and turned at random by up to ``by``; rows of features stay as they are.

    >>> moved(torch.ones(2, 1, 8, 8), 0.1, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 1, 8, 8])
    """
    if by == 0 or images.ndim != 4:
        return images
    down, right, zoom, angle = (2 * torch.rand(4, len(images), generator=generator) - 1) * by
    across, along = (1 + zoom) * torch.cos(angle), (1 + zoom) * torch.sin(angle)
    # Coordinates go from -1 to 1, so that a shift by a share of the side is twice that share.
    maps = torch.stack([torch.stack([across, -along, 2 * right], 1), torch.stack([along, across, 2 * down], 1)], 1)
    grid = functional.affine_grid(maps, list(images.shape), align_corners=False)
    # What comes into view is as what was at the edge.
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)
