"""A network as an ONNX model that takes flat rows and gives probabilities."""

from __future__ import annotations

import io
import logging
import warnings
from typing import Any

import torch
from torch import nn

from tacit.students.torch_architectures import Network

__all__ = ["network_to_onnx"]


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

    >>> from tacit.students.torch_architectures import build
    >>> model = network_to_onnx(build("linear", (3,), 2), (3,))
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
