"""A small neural network with scikit-learn manners, kept as safetensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from tacit.core.errors import InvalidInput

try:
    import torch
    from torch import nn
except ImportError:
    raise InvalidInput("neural students need torch: pip install 'tacit[torch]'") from None

__all__ = ["TorchClassifier"]

FORMAT = "tacit torch classifier 1"


class TorchClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Two hidden layers on features standardised by the training samples.

    The same seed gives the same student: training randomness is public, it sees releases only.

    >>> X, y = np.array([[0.0], [0.2], [0.8], [1.0]]), np.array(["low", "low", "high", "high"])
    >>> TorchClassifier(epochs=60).fit(X, y).predict(np.array([[0.1], [0.9]])).tolist()
    ['low', 'high']
    """

    def __init__(self, hidden: int = 128, epochs: int = 80, learning_rate: float = 3e-3, seed: int = 0) -> None:
        self.hidden = hidden
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.seed = seed

    def fit(
        self, X: NDArray[Any], y: NDArray[Any], sample_weight: NDArray[np.float64] | None = None
    ) -> TorchClassifier:
        """Train by Adam on the weighted cross-entropy."""
        self.classes_, targets = np.unique(np.asarray(y), return_inverse=True)
        rows = torch.as_tensor(np.asarray(X), dtype=torch.float32)
        weights = torch.ones(len(rows)) if sample_weight is None else torch.as_tensor(sample_weight).float()
        generator = torch.Generator().manual_seed(self.seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.network_ = build(rows.shape[1], self.hidden, len(self.classes_))
        self.network_.mean.copy_(rows.mean(dim=0))
        self.network_.spread.copy_(rows.std(dim=0, correction=0).clamp_min(1e-6))
        optimizer = torch.optim.Adam(self.network_.parameters(), lr=self.learning_rate, weight_decay=1e-4)
        wanted = torch.as_tensor(targets)
        self.network_.train()
        for _ in range(self.epochs):
            for batch in torch.randperm(len(rows), generator=generator).split(128):
                optimizer.zero_grad()
                losses = nn.functional.cross_entropy(self.network_(rows[batch]), wanted[batch], reduction="none")
                (losses * weights[batch]).mean().backward()
                optimizer.step()
        return self

    def predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """One row of class probabilities a sample."""
        self.network_.eval()
        with torch.no_grad():
            logits = self.network_(torch.as_tensor(np.asarray(X), dtype=torch.float32))
        probabilities: NDArray[np.float64] = torch.softmax(logits.double(), dim=1).numpy()
        return probabilities

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """The likeliest class of every sample."""
        predicted: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return predicted

    def save_tensors(self, file: Path) -> None:
        """Write weights as plain tensors, with the architecture and the classes in words."""
        from safetensors.torch import save_file

        words = {
            "parameters": self.get_params(),
            "features": self.network_.mean.numel(),
            "classes": self.classes_.tolist(),
        }
        save_file(self.network_.state_dict(), file, metadata={"format": FORMAT, "student": json.dumps(words)})

    @classmethod
    def load_tensors(cls, file: Path) -> TorchClassifier:
        """The student that ``save_tensors`` wrote; nothing in the file is executed."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(file, framework="pt") as tensors:
                head = tensors.metadata() or {}
                if head.get("format") != FORMAT:
                    raise InvalidInput(f"{file}: not a student of this kind ({head.get('format')!r})")
                state = {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118
            words = json.loads(head["student"])
            student = cls(**words["parameters"])
            student.classes_ = np.array(words["classes"])
            student.network_ = build(words["features"], student.hidden, len(student.classes_))
            student.network_.load_state_dict(state)
        except (SafetensorError, OSError, KeyError, TypeError, RuntimeError, json.JSONDecodeError) as error:
            raise InvalidInput(f"{file}: not a student that can be read ({type(error).__name__}: {error})") from error
        return student


class Standardise(nn.Module):  # type: ignore[misc]
    """The network with its input scaling, so that weights and scaling are kept together."""

    def __init__(self, features: int, layers: nn.Module) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("spread", torch.ones(features))
        self.layers = layers

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Logits of every class."""
        return self.layers((rows - self.mean) / self.spread)  # (batch, features) -> (batch, classes)


def build(features: int, hidden: int, classes: int) -> Standardise:
    """An untrained network.

    >>> build(4, 8, 3)(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """
    layers = nn.Sequential(
        nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes)
    )
    return Standardise(features, layers)
