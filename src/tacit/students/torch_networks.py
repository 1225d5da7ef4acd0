"""Networks by name and in files: tensors that are read without running code, and ONNX models.

Each network scales its input, computes features, and ends in a linear layer. Its name and shapes are enough to build
it again, so reading saved weights runs no code. Tensors have a short JSON description and are written atomically. An
ONNX model takes flat rows and returns probabilities.
"""

from __future__ import annotations

import io
import json
import logging
import math
import os
import warnings
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tacit.core import InvalidInput
from tacit.students.registry import TENSOR_ENTRY, tensor_head

__all__ = [
    "ARCHITECTURES",
    "IMAGE_ARCHITECTURES",
    "Network",
    "build_network",
    "kind_of",
    "network_to_onnx",
    "read_tensors",
    "write_tensors",
]

Shape = tuple[int, ...]  # (features,) or (channels, height, width)


class Network(nn.Module):  # type: ignore[misc]
    """The scaling of the input, a body that computes features, and a linear layer.

    With ``shifts`` above 0 a trained network sees an image at five places, that many pixels apart, and its logits are
    the mean of five.
    """

    shifts = 0

    def __init__(self, shape: Shape, body: nn.Module, head: nn.Module) -> None:
        super().__init__()
        per_value = (*shape[:1], *(1 for _ in shape[1:]))
        self.register_buffer("mean", torch.zeros(per_value))
        self.register_buffer("spread", torch.ones(per_value))
        self.body = body
        self.head = head

    def features(self, batch: torch.Tensor) -> torch.Tensor:
        """The input of the last layer."""
        return self.body((batch - self.mean) / self.spread)  # (batch, *shape) -> (batch, width)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Logits of every class."""
        if self.training or not self.shifts:
            return self.head(self.features(batch))  # (batch, width) -> (batch, classes)
        return torch.stack([self.head(self.features(each)) for each in _shifted(batch, self.shifts)]).mean(dim=0)


def _shifted(images: torch.Tensor, pixels: int) -> list[torch.Tensor]:
    """The images as they are, and moved by this many pixels to each side; the border is repeated.

    >>> [each.ravel().tolist() for each in _shifted(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), 1)][:3]
    [[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 1.0, 2.0], [3.0, 4.0, 3.0, 4.0]]
    """
    height, width = images.shape[2:]
    around = functional.pad(images, 4 * (pixels,), mode="replicate")
    starts = ((pixels, pixels), (0, pixels), (2 * pixels, pixels), (pixels, 0), (pixels, 2 * pixels))
    return [around[:, :, down : down + height, across : across + width] for down, across in starts]


def _convolution(before: int, after: int, size: int = 3, stride: int = 1, padding: int | None = None) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(before, after, size, stride, size // 2 if padding is None else padding, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(inplace=True),
    )


def _linear(shape: Shape, classes: int) -> Network:
    return Network(shape, nn.Flatten(), nn.Linear(math.prod(shape), classes))


def _perceptron(shape: Shape, classes: int, hidden: int = 128) -> Network:
    layers = [nn.Flatten(), nn.Linear(math.prod(shape), hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()]
    return Network(shape, nn.Sequential(*layers), nn.Linear(hidden, classes))


def _head(shape: Shape, classes: int, hidden: int = 256) -> Network:
    """A classifier on features of a frozen network: one hidden layer, with dropout."""
    layers = [nn.Flatten(), nn.Dropout(0.15), nn.Linear(math.prod(shape), hidden, bias=False), nn.BatchNorm1d(hidden)]
    return Network(shape, nn.Sequential(*layers, nn.ReLU(), nn.Dropout(0.3)), nn.Linear(hidden, classes))


def _small(shape: Shape, classes: int, hidden: int = 128) -> Network:
    """Few operations: the first layer halves the image, and a dense layer keeps positions."""
    channels, height, width = shape
    for _ in range(3):
        height, width = -(-height // 2), -(-width // 2)
    body = nn.Sequential(
        _convolution(channels, 24, size=5, stride=2),
        _convolution(24, 48),
        nn.MaxPool2d(2, ceil_mode=True),
        _convolution(48, 96),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.Flatten(),
        nn.Linear(96 * height * width, hidden, bias=False),
        nn.BatchNorm1d(hidden),
        nn.ReLU(),
    )
    return Network(shape, body, nn.Linear(hidden, classes))


def _strided(shape: Shape, classes: int, hidden: int = 64) -> Network:
    """Two strided convolutions without normalization: small enough to train dozens of them at once."""
    channels, height, width = shape
    for _ in range(2):
        height, width = -(-height // 2), -(-width // 2)
    body = nn.Sequential(
        nn.Conv2d(channels, 8, 5, 2, 2),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, 2, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * height * width, hidden),
        nn.ReLU(),
    )
    return Network(shape, body, nn.Linear(hidden, classes))


def _five_convolutions(shape: Shape, classes: int) -> Network:
    """The published MNIST student: five 5x5 convolutions without padding, 32 channels more per layer."""
    channels, height, width = shape
    if min(height, width) < 21:
        raise InvalidInput(f"five-convolutions needs images of at least 21x21 pixels, got {height}x{width}")
    widths = (channels, 32, 64, 96, 128, 160)
    layers = [_convolution(a, b, size=5, padding=0) for a, b in pairwise(widths)]
    flat = 160 * (height - 20) * (width - 20)
    return Network(shape, nn.Sequential(*layers, nn.Flatten()), nn.Linear(flat, classes))


class _Residual(nn.Module):  # type: ignore[misc]
    """A pre-activation residual block: normalize, activate, convolve, twice, and add the input."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.BatchNorm2d(before), nn.LeakyReLU(0.1))
        self.rest = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.LeakyReLU(0.1),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
        )
        same = before == after and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        active = self.first(batch)
        passed = batch if isinstance(self.shortcut, nn.Identity) else self.shortcut(active)
        return passed + self.rest(active)


def _wide_residual(shape: Shape, classes: int, depth: int = 28, widening: int = 2) -> Network:
    """WRN-28-2, the usual network of semi-supervised learning."""
    widths = [16, *(16 * widening * 2**stage for stage in range(3))]
    layers: list[nn.Module] = [nn.Conv2d(shape[0], 16, 3, 1, 1, bias=False)]
    for stage, (before, after) in enumerate(pairwise(widths)):
        for unit in range((depth - 4) // 6):
            layers.append(_Residual(before if unit == 0 else after, after, 2 if unit == 0 and stage > 0 else 1))
    layers += [nn.BatchNorm2d(widths[-1]), nn.LeakyReLU(0.1), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return Network(shape, nn.Sequential(*layers), nn.Linear(widths[-1], classes))


class _Dense(nn.Module):  # type: ignore[misc]
    """A dense layer: append a few channels computed from all channels before."""

    def __init__(self, before: int, growth: int) -> None:
        super().__init__()
        self.added = nn.Sequential(
            nn.BatchNorm2d(before),
            nn.ReLU(),
            nn.Conv2d(before, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth),
            nn.ReLU(),
            nn.Conv2d(4 * growth, growth, 3, 1, 1, bias=False),
        )

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return torch.cat([batch, self.added(batch)], dim=1)


def _dense(shape: Shape, classes: int, growth: int = 32) -> Network:
    """DenseNet-121 for small images: no pooling before the first block."""
    channels = 2 * growth
    layers: list[nn.Module] = [nn.Conv2d(shape[0], channels, 3, 1, 1, bias=False)]
    for block, units in enumerate((6, 12, 24, 16)):
        if block > 0:
            halved = channels // 2
            layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, halved, 1, bias=False)]
            layers.append(nn.AvgPool2d(2, ceil_mode=True))
            channels = halved
        for _ in range(units):
            layers.append(_Dense(channels, growth))
            channels += growth
    layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return Network(shape, nn.Sequential(*layers), nn.Linear(channels, classes))


IMAGE_ARCHITECTURES: Mapping[str, Callable[[Shape, int], Network]] = {
    "small-convolutions": _small,
    "strided-convolutions": _strided,
    "five-convolutions": _five_convolutions,
    "wide-resnet-28-2": _wide_residual,
    "densenet-121": _dense,
}
ARCHITECTURES: Mapping[str, Callable[[Shape, int], Network]] = {
    "linear": _linear,
    "perceptron": _perceptron,
    "head": _head,
    **IMAGE_ARCHITECTURES,
}


def build_network(network: str | Callable[[Shape, int], nn.Module], shape: Shape, classes: int) -> Network:
    """An untrained network of a known name, or a module of the user's own that makes logits of a batch.

    >>> build_network("small-convolutions", (1, 28, 28), 10)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    >>> build_network(lambda shape, classes: nn.Linear(shape[0], classes), (4,), 3)(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """
    if not isinstance(network, str):
        return Network(shape, network(shape, classes), nn.Identity())
    if network not in ARCHITECTURES:
        raise InvalidInput(f"unknown network {network!r}: choose one of {', '.join(sorted(ARCHITECTURES))}")
    return ARCHITECTURES[network](shape, classes)


def write_tensors(file: Path, kind: str, tensors: dict[str, torch.Tensor], words: dict[str, Any]) -> None:
    """Write the tensors and a description (``words``) atomically; an existing file is replaced.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "two.safetensors"
    >>> write_tensors(file, "pair", {"ones": torch.ones(2)}, {"name": "two"})
    >>> read_tensors(file, "pair", "pair")
    ({'ones': tensor([1., 1.])}, {'name': 'two'})
    """
    from safetensors.torch import save_file

    plain = {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}
    partial = file.with_name(file.name + ".partial")
    try:
        # One entry: the order of several is not fixed, and equal runs must give equal files.
        save_file(plain, partial, metadata={TENSOR_ENTRY: json.dumps({"format": kind, "words": words})})
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


def read_tensors(file: Path, kind: str, what: str) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The tensors and the description that ``write_tensors`` wrote; nothing in the file is executed."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as opened:
            head = tensor_head(opened.metadata())
            if head.get("format") != kind:
                raise InvalidInput(f"{file}: not a {what} of this kind ({head.get('format')!r})")
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        return tensors, head["words"]
    except (SafetensorError, OSError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise InvalidInput(f"{file}: not a {what} that can be read ({type(error).__name__}: {error})") from error


def kind_of(file: Path) -> str:
    """The format that a tensor file names."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as opened:
            return str(tensor_head(opened.metadata()).get("format"))
    except (SafetensorError, OSError, TypeError, json.JSONDecodeError) as error:
        raise InvalidInput(f"{file}: not a student that can be read ({type(error).__name__}: {error})") from error


class _FromRows(nn.Module):  # type: ignore[misc]
    """The network with flat rows as input."""

    def __init__(self, network: Network, shape: tuple[int, ...], seen: bool) -> None:
        super().__init__()
        self.network, self.shape, self.seen = network, shape, seen

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """One row of class probabilities per sample, or of features."""
        samples = rows
        if len(self.shape) == 3:
            channels, height, width = self.shape
            samples = rows.reshape(-1, height, width, channels).permute(0, 3, 1, 2)
        if self.seen:
            return self.network.features(samples.contiguous()).flatten(1)
        return torch.softmax(self.network(samples.contiguous()), dim=1)


def network_to_onnx(
    network: Network, shape: tuple[int, ...], output: str = "probabilities", opset: int | None = None
) -> Any:  # noqa: ANN401
    """The network as an ONNX model: from ``X``, rows of float32, to ``probabilities`` or ``features``.

    >>> from tacit.students.torch_networks import build_network
    >>> model = network_to_onnx(build_network("linear", (3,), 2), (3,))
    >>> [each.name for each in model.graph.input], [each.name for each in model.graph.output]
    (['X'], ['probabilities'])
    """
    import onnx

    features = int(torch.Size(shape).numel())
    rows = torch.zeros(2, features)
    written = io.BytesIO()
    log = logging.getLogger("torch.onnx")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            # The exporter's warnings are about its own code.
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                _FromRows(network, shape, output == "features").eval(), (rows,), input_names=["X"],
                output_names=[output], opset_version=opset,
                dynamic_shapes={"rows": {0: torch.export.Dim("samples")}}, dynamo=True, verbose=False,
            )  # fmt: skip
        program.save(written)
    finally:
        log.setLevel(before)
    return onnx.load_from_string(written.getvalue())
