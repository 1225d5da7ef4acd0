"""Two layers on the public representation, trained by Opacus: one release, of the trained weights.

The accounting is Tacit's: Poisson samples, a Gaussian per step, the privacy-loss distribution (PLD) of all of them. The
noise is not: it is floating-point, and from torch's generator, whose whole state is drawn from the run's randomness but
which is not cryptographic. The guarantee says so.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.compose import total
from tacit.core import Floats, InvalidInput, Randomness, Reals, Rule, Sensitivity, rounded_up
from tacit.core.spend import Gaussian, Repeated, Subsampled

__all__ = [
    "OPACUS_NOISE",
    "HiddenTraining",
    "calibrated_training",
    "hidden_student",
    "pretrained_layer",
    "require_opacus",
    "seeded_generator",
]

OPACUS_NOISE = (
    "the noise was drawn by Opacus in floating point, from a generator that is not cryptographic: the claim holds for "
    "ideal Gaussian noise, and for this noise only as far as it approximates that"
)
# The expected number of records per step, at most half of them; the clipping norm; and the learning rate.
CALLED, CLIP, LEARNING_RATE = 500, 0.5, 2.0
# Where the generator's state has its words of 32 bits, in 64 each: after the seed, two flags and the next place.
_STATE = slice(24, 24 + 8 * 624)
# Epochs over the public samples before fine-tuning.
_PRETRAINED = 30
# The relative precision of the calibrated noise.
_CLOSE = 1e-2


@dataclass(frozen=True)
class HiddenTraining:
    """DP-SGD on Poisson samples: releases the weights of two layers.

    **Law.** In each of ``steps`` steps every record is sampled with probability ``rate`` independently. The gradients
    of the sample are clipped to ``CLIP`` and summed, and Gaussian noise of ``noise_multiplier`` times ``CLIP`` is
    added; the update is the sum divided by the expected sample size, ``rate`` · ``records``.

    **Spend.** ``steps`` times a Gaussian of that multiplier on a Poisson sample of that rate.

    **Proof.** A record that is added or removed changes the sum of a step by at most ``CLIP``, if it is sampled. The
    rest is post-processing of noisy sums. It holds under add-remove adjacency, for which Poisson sampling is accounted.

    **Source.** M. Abadi et al., Deep learning with differential privacy, CCS 2016; the trainer is that of Opacus.

    >>> HiddenTraining(10, 3, 8, Fraction(1, 4), 40, Fraction(2), 100).spend.count
    40
    """

    features: int
    classes: int
    hidden: int
    rate: Fraction
    steps: int
    noise_multiplier: Fraction
    records: int
    # The first layer as public samples taught it (little-endian float32: weights, offsets); drawn at random if empty.
    pretrained: bytes = b""

    def __post_init__(self) -> None:
        if self.pretrained and len(self.pretrained) != 4 * self.hidden * (self.features + 1):
            raise InvalidInput("the pretrained layer is not of the network's size")

    @property
    def spend(self) -> Repeated:
        """The cost of the weights."""
        return Repeated(Subsampled(self.rate, Gaussian(self.noise_multiplier)), self.steps)

    @property
    def max_sensitivity(self) -> Sensitivity:
        """One record added or removed."""
        return Sensitivity(l1=1)

    def sample(self, value: tuple[Floats, NDArray[np.int64]], randomness: Randomness) -> Floats:
        """The weights of both layers, concatenated."""
        import torch
        from opacus import GradSampleModule
        from opacus.optimizers import DPOptimizer
        from torch import nn

        rows, labels = torch.as_tensor(value[0]), torch.as_tensor(value[1])
        generator = seeded_generator(randomness)
        layers = [nn.Linear(self.features, self.hidden), nn.Linear(self.hidden, self.classes)]
        with torch.no_grad():
            for each in layers:
                each.weight.normal_(0, 1 / math.sqrt(each.in_features), generator=generator)
                each.bias.zero_()
            if self.pretrained:
                known = torch.as_tensor(np.frombuffer(self.pretrained, dtype="<f4").astype(np.float32))
                layers[0].weight.copy_(known[: self.features * self.hidden].reshape(self.hidden, self.features))
                layers[0].bias.copy_(known[self.features * self.hidden :])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Opacus and torch warn of each other's hooks
            network = GradSampleModule(nn.Sequential(layers[0], nn.Tanh(), layers[1]), loss_reduction="sum")
            optimizer = DPOptimizer(
                torch.optim.SGD(network.parameters(), lr=LEARNING_RATE),
                noise_multiplier=float(self.noise_multiplier), max_grad_norm=CLIP, generator=generator,
                expected_batch_size=max(1, math.floor(self.rate * self.records)),
            )  # fmt: skip
            for _ in range(self.steps):
                called = torch.rand(len(rows), generator=generator, dtype=torch.float64) < float(self.rate)
                optimizer.zero_grad()
                # A sum, because the mean over an empty sample would be NaN.
                nn.functional.cross_entropy(network(rows[called]), labels[called], reduction="sum").backward()
                optimizer.step()
        learned = [each.detach().numpy().ravel() for layer in layers for each in (layer.weight, layer.bias)]
        found: Floats = np.concatenate(learned).astype(np.float32)
        return found


def seeded_generator(randomness: Randomness) -> Any:  # noqa: ANN401
    """torch's generator with all of its 624 words drawn: its seed has 32 bits only, which can be tried out.

    >>> import pytest; _ = pytest.importorskip("torch")
    >>> from tacit.core.randomness import SeededRandomness
    >>> first, second = (seeded_generator(SeededRandomness(seed)).get_state().tolist() for seed in (1, 2))
    >>> sum(one != other for one, other in zip(first, second)) > 2000
    True
    """
    import torch

    made = torch.Generator().manual_seed(0)
    state = made.get_state().numpy().copy()
    words = state[_STATE].view("<u8")
    words[:] = randomness.words(len(words)) >> np.uint64(32)
    made.set_state(torch.from_numpy(state))
    return made


def require_opacus() -> None:
    """Refuse if Opacus is not installed."""
    try:
        import opacus  # noqa: F401
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise InvalidInput(f"models hidden and finetuned need {error.name}: pip install 'tacit[compare]'") from None


def calibrated_training(
    epsilon: Fraction, delta: Fraction, features: int, classes: int, hidden: int, records: int, epochs: int
) -> HiddenTraining:
    """The training with nearly the least noise whose steps together stay within (ε, δ), by the PLD.

    >>> made = calibrated_training(Fraction(1), Fraction(1, 10**5), 10, 3, 8, 10**4, 1)
    >>> made.rate, made.steps, 0.9 < total([made.spend], Fraction(1, 10**5), Rule.PLANNED).epsilon <= 1
    (Fraction(1, 20), 20, True)
    """
    rate = min(Fraction(1, 2), Fraction(CALLED, records))
    steps = math.ceil(epochs / rate)

    def made(multiplier: float) -> HiddenTraining:
        return HiddenTraining(features, classes, hidden, rate, steps, rounded_up(multiplier, 6), records)

    def fits(multiplier: float) -> bool:
        return total([made(multiplier).spend], delta, Rule.PLANNED).epsilon <= epsilon

    enough = 1.0
    while not fits(enough):
        enough *= 1.5
    least = enough / 1.5 if enough > 1 else 0.3
    while enough / least > 1 + _CLOSE:
        middle = math.sqrt(enough * least)
        enough, least = (middle, least) if fits(middle) else (enough, middle)
    return made(enough)


def pretrained_layer(seen: Reals, hidden: int, groups: int) -> bytes:
    """A first layer that tells clusters of the public samples apart: what fine-tuning starts from.

    >>> len(pretrained_layer(np.random.default_rng(0).normal(size=(60, 5)), 8, 4)) == 4 * 8 * (5 + 1)
    True
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    clusters = KMeans(min(groups, len(seen)), n_init=1, random_state=0).fit_predict(seen)
    network = MLPClassifier((hidden,), activation="tanh", max_iter=_PRETRAINED, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is stopped early on purpose
        network.fit(seen, clusters)
    parts = (network.coefs_[0].T.ravel(), network.intercepts_[0])
    return np.concatenate(parts).astype("<f4").tobytes()


def hidden_student(weights: Floats, training: HiddenTraining, classes: NDArray[Any]) -> Any:  # noqa: ANN401
    """The trained layers as a scikit-learn classifier, which can be loaded without running code.

    >>> made = HiddenTraining(2, 2, 3, Fraction(1, 4), 1, Fraction(1), 9)
    >>> hidden_student(np.ones(17, dtype=np.float32), made, np.array(["a", "b"])).predict_proba([[1.0, 0.0]]).tolist()
    [[0.5, 0.5]]
    """
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import LabelBinarizer

    width, inner, count = training.features, training.hidden, training.classes
    sizes = np.cumsum([width * inner, inner, inner * count])
    first, offset, second, last = np.split(weights.astype(np.float64), sizes)
    order = np.argsort(classes, kind="stable")
    second, last = second.reshape(count, inner)[order], last[order]
    if count == 2:
        second, last = second[1:] - second[:1], last[1:] - last[:1]
    model = MLPClassifier((inner,), activation="tanh")
    model.coefs_, model.intercepts_ = [first.reshape(inner, width).T, second.T], [offset, last]
    model.classes_, model.n_features_in_ = classes[order], width
    model.n_layers_, model.n_outputs_ = 3, len(last)
    model.out_activation_ = "logistic" if count == 2 else "softmax"
    model._label_binarizer = LabelBinarizer().fit(classes[order])
    return model
