"""Changed copies of images that leave what they show as it is: more to learn from, at no cost in privacy.

Randomness is torch's own generator, which training seeds: it is public and touches public samples only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch.nn import functional

__all__ = ["AUGMENTATIONS", "Affine", "augmented"]


@dataclass(frozen=True)
class Affine:
    """How far an image may be turned (degrees), moved (share of its side), scaled and sheared, each way."""

    turn: float
    move: float
    scale: float
    shear: float

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Every image changed on its own."""
        count = len(images)

        def uniform(reach: float) -> torch.Tensor:
            return (2 * torch.rand(count) - 1) * reach

        angle, size, lean = uniform(math.radians(self.turn)), 1 + uniform(self.scale), uniform(self.shear)
        cosine, sine = torch.cos(angle) / size, torch.sin(angle) / size
        upper = torch.stack([cosine, lean * cosine - sine, uniform(2 * self.move)], dim=1)
        lower = torch.stack([sine, lean * sine + cosine, uniform(2 * self.move)], dim=1)
        matrices = torch.stack([upper, lower], dim=1)  # (batch, 2, 3)
        grid = functional.affine_grid(matrices, list(images.shape), align_corners=False)
        # The border is repeated, so that what comes in at the edge looks like what was there.
        return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def _flipped(images: torch.Tensor) -> torch.Tensor:
    """Left and right exchanged in half of the images."""
    exchanged = torch.rand(len(images)) < 0.5
    return torch.where(exchanged[:, None, None, None], images.flip(3), images)


def _blanked(images: torch.Tensor) -> torch.Tensor:
    """A square of half the side, anywhere, replaced by the image's mean."""
    height, width = images.shape[2:]
    down = torch.randint(0, height, (len(images), 1, 1, 1)) - torch.arange(height)[None, None, :, None]
    across = torch.randint(0, width, (len(images), 1, 1, 1)) - torch.arange(width)[None, None, None, :]
    hidden = (down.abs() <= height // 4) & (across.abs() <= width // 4)
    return torch.where(hidden, images.mean(dim=(2, 3), keepdim=True), images)


def _relit(images: torch.Tensor) -> torch.Tensor:
    """Contrast and brightness changed by up to a third."""
    contrast, light = (1 + (torch.rand(2, len(images), 1, 1, 1) * 2 - 1) / 3).unbind()
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    return (images - mean) * contrast + mean * light


# What training shows, and what it must recognize all the same when it learns from its own sure guesses.
AUGMENTATIONS: Mapping[str, tuple[list[Callable[[torch.Tensor], torch.Tensor]], ...]] = {
    "none": ([], []),
    "handwriting": ([Affine(10, 0.05, 0.1, 0.1)], [Affine(20, 0.1, 0.2, 0.3), _blanked]),
    "signs": ([Affine(5, 0.08, 0.08, 0.05)], [Affine(15, 0.12, 0.15, 0.15), _relit, _blanked]),
    "photographs": ([_flipped, Affine(0, 0.12, 0, 0)], [_flipped, Affine(15, 0.12, 0.2, 0.15), _relit, _blanked]),
}


def augmented(images: torch.Tensor, kind: str, strong: bool = False) -> torch.Tensor:
    """The images, each changed at random within what the kind allows.

    >>> augmented(torch.ones(2, 1, 8, 8), "handwriting").shape
    torch.Size([2, 1, 8, 8])
    """
    for change in AUGMENTATIONS[kind][strong]:
        images = change(images)
    return images
