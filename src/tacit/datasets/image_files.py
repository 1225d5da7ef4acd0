"""Images in files: a folder with one folder per class, any other folder of images, or a list of files.

Pillow reads them (extra ``images``). Public images alone decide the size that all are resized to. A private file that
cannot be read becomes a blank image, and the caller receives the rows of such files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core import InvalidInput
from tacit.core.samples import ImageShape

__all__ = ["IMAGE_SUFFIXES", "ImageFiles", "common_shape", "image_files", "looks_like_image_files", "read_images"]

IMAGE_SUFFIXES = frozenset((".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"))
# Larger images are reduced: our encoders take smaller ones, and pretrained encoders hardly gain from larger ones.
LONGEST_SIDE = 96
# A small file may declare more pixels than fit in memory.
MOST_PIXELS = 2**26


@dataclass(frozen=True)
class ImageFiles:
    """Image files with the class of each, where folders name it; ``persons`` is always None."""

    files: tuple[Path, ...]
    labels: NDArray[Any] | None = None
    source: str = "the images"
    rows: int = 0
    persons: None = None

    def __len__(self) -> int:
        return len(self.files)


def image_files(folder: Path, labeled: bool) -> ImageFiles:
    """The images in a folder and its subfolders, sorted by name; if ``labeled``, the first subfolder is the class.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> for name in ("cats", "dogs"):
    ...     (place / name).mkdir()
    ...     _ = (place / name / "1.png").write_bytes(b"")
    >>> image_files(place, labeled=True).labels.tolist()
    ['cats', 'dogs']
    """
    files = tuple(
        file
        for file in sorted(folder.rglob("*"))
        if file.suffix.lower() in IMAGE_SUFFIXES and not file.name.startswith(".") and file.is_file()
    )
    if not files:
        raise InvalidInput(f"{folder}: contains no images; {', '.join(sorted(IMAGE_SUFFIXES))} files are read")
    if not labeled:
        return ImageFiles(files, None, str(folder))
    parts = [file.relative_to(folder).parts for file in files]
    if any(len(part) < 2 for part in parts):
        raise InvalidInput(f"{folder}: images are next to the class folders; labeled images need one folder per class")
    labels = np.array([part[0] for part in parts])
    if len(set(labels.tolist())) < 2:
        raise InvalidInput(f"{folder}: only one folder; labeled images need one folder per class, at least two")
    return ImageFiles(files, labels, str(folder))


def looks_like_image_files(values: Sequence[Any] | NDArray[Any]) -> bool:
    """Whether all of these texts or paths name image files that exist.

    >>> looks_like_image_files(["no-such-file.png"]), looks_like_image_files([])
    (False, False)
    """
    found = [each for each in values if isinstance(each, str | Path)]
    return (
        0 < len(found) == len(values)
        and all(Path(each).suffix.lower() in IMAGE_SUFFIXES for each in found)
        and all(len(str(each)) < 4096 and Path(each).is_file() for each in found)
    )


def common_shape(files: Sequence[Path]) -> ImageShape:
    """The size that images are resized to: the median height and width of public images, at most 96 pixels per side.

    The images become gray if all public ones are. A public image that cannot be read is refused by its name.
    """
    sizes, gray = [], True
    for file in files:
        image = _opened(file)
        if image is None:
            raise InvalidInput(f"{file}: cannot be read as an image; remove or replace it")
        sizes.append(image.size)
        gray = gray and image.mode in ("1", "L", "I", "I;16", "F", "LA")
    width, height = (float(np.median(side)) for side in zip(*sizes, strict=True))
    shrink = min(1.0, LONGEST_SIDE / max(width, height))
    return max(1, round(height * shrink)), max(1, round(width * shrink)), 1 if gray else 3


def read_images(files: Sequence[Path], shape: ImageShape) -> tuple[NDArray[np.uint8], list[int]]:
    """The images as (n, height, width) or with three channels, and the rows of those that could not be read.

    Each is resized by itself; one that cannot be read is blank.
    """
    height, width, channels = shape
    found = np.zeros((len(files), height, width, channels), dtype=np.uint8)
    lost = []
    for row, file in enumerate(files):
        image = _opened(file)
        if image is None:
            lost.append(row)
            continue
        if image.mode.startswith("I") or image.mode == "F":
            image = _eight_bits(image)
        ready = image.convert("L" if channels == 1 else "RGB")
        if ready.size != (width, height):
            ready = ready.resize((width, height), _pillow().Resampling.BILINEAR, reducing_gap=3.0)
        found[row] = np.asarray(ready, dtype=np.uint8).reshape(height, width, channels)
    return (found[..., 0] if channels == 1 else found), lost


def _eight_bits(image: Any) -> Any:  # noqa: ANN401
    """An image of 16 bits per pixel, scaled to 8 bits."""
    values = np.asarray(image, dtype=np.float64)
    if values.max(initial=0) > 255:
        values = values / 257
    return _pillow().fromarray(np.clip(values, 0, 255).astype(np.uint8))


def _opened(file: Path) -> Any:  # noqa: ANN401
    """The decoded image, or None where it cannot be read for any reason."""
    pillow = _pillow()
    try:
        with pillow.open(file) as image:
            if image.size[0] * image.size[1] > MOST_PIXELS:
                return None
            image.load()
            # Cameras store the orientation in EXIF.
            return import_module("PIL.ImageOps").exif_transpose(image)
    except Exception:
        # Pillow has errors of many kinds for damaged files.
        return None


def _pillow() -> Any:  # noqa: ANN401
    try:
        return import_module("PIL.Image")
    except ModuleNotFoundError:
        raise InvalidInput("image files need Pillow: pip install 'tacit[images]'") from None
