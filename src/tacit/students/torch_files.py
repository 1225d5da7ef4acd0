"""Networks in files: tensors that are read without running code, and ONNX models.

Tensors have a few words beside them and are written all or nothing. An ONNX model takes flat rows and gives
probabilities.
"""

from __future__ import annotations

import io
import json
import logging
import os
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tacit.core.errors import InvalidInput
from tacit.students.torch_architectures import Network

__all__ = ["kind_of", "network_to_onnx", "read_tensors", "write_tensors"]

ENTRY = "tacit"


def write_tensors(file: Path, kind: str, tensors: dict[str, torch.Tensor], words: dict[str, Any]) -> None:
    """Write the tensors and the words; a file of that name is replaced only by a whole one.

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
        # One entry: several are written in an order that differs from time to time, and equal runs must be equal files.
        save_file(plain, partial, metadata={ENTRY: json.dumps({"format": kind, "words": words})})
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


def read_tensors(file: Path, kind: str, what: str) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """What ``write_tensors`` wrote as that kind; nothing in the file is executed."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as opened:
            head = _head(opened.metadata())
            if head.get("format") != kind:
                raise InvalidInput(f"{file}: not a {what} of this kind ({head.get('format')!r})")
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        return tensors, head["words"]
    except (SafetensorError, OSError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise InvalidInput(f"{file}: not a {what} that can be read ({type(error).__name__}: {error})") from error


def kind_of(file: Path) -> str:
    """Which kind of tensors a file says it holds."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as opened:
            return str(_head(opened.metadata()).get("format"))
    except (SafetensorError, OSError, TypeError, json.JSONDecodeError) as error:
        raise InvalidInput(f"{file}: not a student that can be read ({type(error).__name__}: {error})") from error


def _head(metadata: dict[str, str] | None) -> dict[str, Any]:
    """The format and the words; files of the first stage have an entry for each."""
    written = metadata or {}
    if ENTRY in written:
        head = json.loads(written[ENTRY])
        if not isinstance(head, dict):
            raise TypeError("its entry is not an object")
        return head
    return {**written, "words": json.loads(written["words"])} if "words" in written else dict(written)


class _FromRows(nn.Module):  # type: ignore[misc]
    """The network behind flat rows, as a file or a table has them."""

    def __init__(self, network: Network, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.network, self.shape = network, shape

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """One row of class probabilities per sample."""
        samples = rows
        if len(self.shape) == 3:
            channels, height, width = self.shape
            samples = rows.reshape(-1, height, width, channels).permute(0, 3, 1, 2)
        return torch.softmax(self.network(samples.contiguous()), dim=1)


def network_to_onnx(network: Network, shape: tuple[int, ...]) -> Any:  # noqa: ANN401
    """The network as an ONNX model of ``X``, rows of float32, and ``probabilities``.

    >>> from tacit.students.torch_architectures import build_network
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
            # The exporter warns of its own parts.
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                _FromRows(network, shape).eval(), (rows,), input_names=["X"], output_names=["probabilities"],
                dynamic_shapes={"rows": {0: torch.export.Dim("samples")}}, dynamo=True, verbose=False,
            )  # fmt: skip
        program.save(written)
    finally:
        log.setLevel(before)
    return onnx.load_from_string(written.getvalue())
