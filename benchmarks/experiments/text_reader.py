"""A public text reader as encoder of house numbers: what it reads in an image, as numbers.

The reader is the line recognizer of PP-OCR, whose weights are inside the wheel of ``rapidocr`` (3.10, Apache-2.0):
nothing is fetched. It runs by onnxruntime; ``rapidocr`` itself is not imported. What it was trained on is not known in
detail: photographs of streets with house numbers may be among it.

An image is read twice: gray and enlarged, and its middle alone with its border continued. The reader goes over a view
in steps from left to right; the digit in the middle is the one that is asked for. Views and steps were chosen among
five views by the labels of 1,000 public samples of SVHN; a third view was worth a fifth of a point there.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput

__all__ = ["DIGITS", "TextReader", "pooled", "reading"]

DIGITS = 10
MODEL = "models/PP-OCRv6_rec_small.onnx"
HEIGHT = 48
# A digit less likely than this in every step is as good as absent.
LEAST = -12.0
AT_ONCE = 64
VIEWS = ("gray", "middle")


def pooled(layer: NDArray[np.float32], weights: NDArray[np.float32], bias: NDArray[np.float32]) -> NDArray[np.float32]:
    """A view's row from the reader's last layer, (images, steps, width), and the weights of ten digits and the blank.

    Of each digit: the largest log-probability in the middle steps, the largest in all, and the mean; then the layer's
    mean in the middle. Other characters are ruled out: that the images show digits is public.

    >>> layer = np.zeros((1, 4, 2), dtype=np.float32)
    >>> layer[0, 1] = [9, 0]
    >>> row = pooled(layer, np.eye(2, 11, dtype=np.float32), np.zeros(11, dtype=np.float32))
    >>> row.shape, int(row[0, :10].argmax()), row[0, 30:].tolist()
    ((1, 32), 0, [4.5, 0.0])
    """
    raw = layer @ weights + bias
    top = raw.max(axis=2, keepdims=True)
    likely = raw[:, :, :DIGITS] - top - np.log(np.exp(raw - top).sum(axis=2, keepdims=True))
    steps = layer.shape[1]
    middle = slice((steps - 1) // 2 - (steps % 2), steps // 2 + 1 + (steps % 2))
    said = (likely[:, middle].max(axis=1), likely.max(axis=1), likely.mean(axis=1))
    found: NDArray[np.float32] = np.hstack([*(np.maximum(each, LEAST) for each in said), layer[:, middle].mean(axis=1)])
    return found


def reading(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """What the reader says of every digit in the middle, (images, 10): the mean log-probability of the views.

    >>> reading(np.zeros((2, 2 * (30 + 4)), dtype=np.float32)).shape
    (2, 10)
    """
    views = rows.reshape(len(rows), len(VIEWS), -1)
    said: NDArray[np.float32] = views[:, :, :DIGITS].mean(axis=1)
    return said


class TextReader:
    """Images of digits, (images, 32, 32, 3) bytes, as rows: each view's pooled digits and last layer."""

    def __init__(self, model: Path | None = None) -> None:
        file = _model() if model is None else model
        content = file.read_bytes()
        self.digest = hashlib.sha256(content + repr((VIEWS, HEIGHT, LEAST, "digits")).encode()).hexdigest()
        self._run, self._weights, self._bias = _opened(content)

    def encode(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """The rows of these images."""
        parts = [images[start : start + AT_ONCE] for start in range(0, len(images), AT_ONCE)]
        return np.concatenate([np.hstack([self._view(part, view) for view in VIEWS]) for part in parts])

    def _view(self, images: NDArray[np.uint8], view: str) -> NDArray[np.float32]:
        shown = np.stack([_seen(each, view) for each in images]).astype(np.float32)
        # The reader's own scale, and blue first.
        ready = np.ascontiguousarray((shown[:, :, :, ::-1] / 127.5 - 1).transpose(0, 3, 1, 2))
        return pooled(self._run(ready), self._weights, self._bias)


def _seen(image: NDArray[np.uint8], view: str) -> NDArray[np.uint8]:
    """One image as a view shows it, 48 pixels high."""
    from PIL import Image

    picture = Image.fromarray(image)
    if view == "gray":
        return np.asarray(picture.convert("L").convert("RGB").resize((HEIGHT, HEIGHT), Image.Resampling.BILINEAR))
    middle = picture.crop((6, 0, 26, 32)).resize((32, HEIGHT), Image.Resampling.BILINEAR)
    return np.pad(np.asarray(middle), ((0, 0), (8, 8), (0, 0)), mode="edge")


def _model() -> Path:
    """The recognizer inside the wheel of rapidocr."""
    found = importlib.util.find_spec("rapidocr")
    places = [] if found is None else [Path(each) / MODEL for each in found.submodule_search_locations or ()]
    for place in places:
        if place.is_file():
            return place
    raise InvalidInput("the text reader's weights are in a wheel: pip install --no-deps rapidocr==3.10.0")


def _opened(
    content: bytes,
) -> tuple[Callable[[NDArray[np.float32]], NDArray[np.float32]], NDArray[np.float32], NDArray[np.float32]]:
    """The network up to its last layer, and that layer's weights for the ten digits and the blank."""
    try:
        import onnx
        import onnxruntime
    except ModuleNotFoundError as error:
        raise InvalidInput(f"the text reader needs {error.name}: pip install 'tacit[export]'") from None
    model = onnx.load_from_string(content)
    arrays = {each.name: each for each in model.graph.initializer}
    product = next(each for each in reversed(model.graph.node) if each.op_type == "MatMul")
    added = next(each for each in model.graph.node if product.output[0] in each.input)
    weights, bias = (
        np.asarray(onnx.numpy_helper.to_array(arrays[next(name for name in node.input if name in arrays)]))
        for node in (product, added)
    )
    characters = next(each.value for each in model.metadata_props if each.key == "character").splitlines()
    # The blank comes before the characters.
    order = [*(1 + characters.index(str(digit)) for digit in range(DIGITS)), 0]
    below = product.input[0]
    cut = onnx.utils.Extractor(model).extract_model([model.graph.input[0].name], [below])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session: Any = onnxruntime.InferenceSession(cut.SerializeToString(), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name

    def run(images: NDArray[np.float32]) -> NDArray[np.float32]:
        found: NDArray[np.float32] = session.run([below], {name: images})[0]
        return found

    return run, np.ascontiguousarray(weights[:, order]), np.ascontiguousarray(bias[order])
