"""A start from public samples alone: a network first learns to tell apart groups of samples that look alike.

Groups are not classes, and nothing of them is kept but the features. Holders whose networks start from such features
give right labels after a few steps on a few hundred records, where a random start would need many more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from tacit.core.errors import InvalidInput
from tacit.methods.privatekt.torch_moved import moved
from tacit.students.torch_architectures import Network

__all__ = ["Pretext", "learn_groups"]

# Groups are found among so many samples at most, in so many principal directions.
LOOKED_AT, DIRECTIONS = 20_000, 40


@dataclass(frozen=True)
class Pretext:
    """How many groups are told apart, in so many steps of so many samples; no steps leave a network as it is."""

    groups: int = 100
    steps: int = 1500
    batch: int = 64
    learning_rate: float = 0.05
    moved: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("groups", 2), ("steps", 0), ("batch", 1)):
            if getattr(self, name) < least:
                raise InvalidInput(f"{name} must be at least {least}, got {getattr(self, name)}")


def learn_groups(network: Network, samples: torch.Tensor, plan: Pretext, seed: int) -> None:
    """Train the network's body to tell groups of the samples apart; its head stays as it was."""
    groups = min(plan.groups, len(samples) // 10)
    if plan.steps == 0 or groups < 2 or not any(True for _ in network.body.parameters()):
        return
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(samples), generator=generator)[:LOOKED_AT]
    samples = samples[rows]
    targets = torch.as_tensor(_groups(samples.flatten(1).numpy(), groups, seed))
    head = nn.Linear(network.head.in_features, groups)
    optimizer = torch.optim.SGD([*network.body.parameters(), *head.parameters()], plan.learning_rate, momentum=0.9)
    for step in range(plan.steps):
        for each in optimizer.param_groups:
            each["lr"] = plan.learning_rate * (1 - step / plan.steps)
        picked = torch.randint(len(samples), (plan.batch,), generator=generator)
        features = network.features(moved(samples[picked], plan.moved, generator))
        loss = functional.cross_entropy(head(features), targets[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def _groups(rows: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Which of ``count`` groups each row belongs to, by k-means in the main directions."""
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.decomposition import PCA

    reduced = PCA(min(DIRECTIONS, *rows.shape), random_state=seed).fit_transform(rows)
    means = MiniBatchKMeans(count, random_state=seed, n_init=1, batch_size=2048)
    found: np.ndarray = means.fit_predict(reduced).astype(np.int64)
    return found
