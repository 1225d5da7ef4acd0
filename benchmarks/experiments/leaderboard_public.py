"""What public knowledge alone reaches, without any record: a leaderboard's lines at ε = 0.

Clusters of public samples named at random; the classes that a pretrained network was taught itself, grouped by their
names; texts nearest to the name of a class. No label chooses anything here: labels of the test part judge only. Where
an oracle that knows these labels names something, the line says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.leaderboard_parts import Encoded
from tacit.core import InvalidInput

__all__ = [
    "COMMON",
    "OWN_CLASSES",
    "RANDOM",
    "ZERO_SHOT",
    "grouped",
    "named_at_random",
    "named_lines",
    "nearest_names",
    "public_lines",
]

RANDOM = "ε = 0: public clusters, named at random"
COMMON = "ε = 0: the most common class, told by an oracle"
OWN_CLASSES = "ε = 0: the encoder's own classes, grouped by name"
ZERO_SHOT = "ε = 0: the nearest name of a class (zero-shot)"
NAMINGS = 100

# ImageNet's classes by the ten names of CIFAR-10, as places in ImageNet's published order of a thousand names: airliner
# and warplane; ambulance to sports car; cock to owl, grouse to swan and stork to albatross; tabby to Egyptian cat;
# hartebeest, impala and gazelle, since it has no deer, antelopes being the nearest in WordNet; dogs; frogs; sorrel;
# aircraft carrier to yawl; fire engine, garbage truck, moving van, pickup, tow and trailer truck.
IMAGENET: Mapping[str, tuple[tuple[int, ...], ...]] = {
    "cifar10": (
        (404, 895),
        (407, 436, 468, 511, 609, 627, 656, 661, 751, 817),
        (*range(7, 25), *range(80, 101), *range(127, 147)),
        tuple(range(281, 286)),
        (351, 352, 353),
        tuple(range(151, 269)),
        (30, 31, 32),
        (339,),
        (403, 484, 510, 554, 625, 628, 724, 780, 814, 833, 871, 914),
        (555, 569, 675, 717, 864, 867),
    ),
}
# Names as their publishers write them, for labels that are numbers.
NAMES: Mapping[str, Mapping[str, str]] = {
    "ag-news": {"1": "World", "2": "Sports", "3": "Business", "4": "Sci/Tech"},
    "medical-abstracts": {
        "1": "neoplasms",
        "2": "digestive system diseases",
        "3": "nervous system diseases",
        "4": "cardiovascular diseases",
        "5": "general pathological conditions",
    },
}


def grouped(chances: NDArray[Any], groups: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """The group with the largest mean probability, per row: the most probable one if all groups are equally common.

    The network was taught as many examples of every place, so that a large group has large sums whatever it is shown.

    >>> grouped(np.array([[0.3, 0.3, 0.4], [0.4, 0.4, 0.2]]), [(0, 1), (2,)]).tolist()
    [1, 0]
    """
    means = np.column_stack([chances[:, list(group)].mean(axis=1) for group in groups])
    found: NDArray[np.int64] = means.argmax(axis=1)
    return found


def nearest_names(rows: NDArray[Any], names: NDArray[Any]) -> NDArray[np.int64]:
    """The name whose embedding has the largest cosine with a row's.

    >>> nearest_names(np.array([[2.0, 0.1], [0.0, 5.0]]), np.array([[1.0, 0.0], [0.0, 0.1]])).tolist()
    [0, 1]
    """
    lengths = np.maximum(np.linalg.norm(names, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    found: NDArray[np.int64] = (np.asarray(rows, dtype=np.float64) @ (names / lengths).T).argmax(axis=1)
    return found


def named_at_random(groups: NDArray[np.int64], truth: NDArray[Any], classes: Sequence[Any]) -> list[float]:
    """The accuracy of clusters with names drawn at random, each class once: in the mean that of a guess.

    >>> found = named_at_random(np.array([0, 0, 1, 1]), np.array(["a", "a", "b", "b"]), ["a", "b"])
    >>> sorted(set(found))
    [0.0, 1.0]
    """
    random, labels = np.random.default_rng(0), np.asarray(classes)
    return [float((random.permutation(labels)[groups] == truth).mean()) for _ in range(NAMINGS)]


def public_lines(data: Encoded) -> dict[str, list[float]]:
    """The test accuracies of every line that this data set can have; several where names are drawn."""
    from sklearn.cluster import KMeans

    classes, truth = data.parts.classes, np.asarray(data.parts.test[1])
    groups = KMeans(len(classes), n_init=3, random_state=0).fit(data.public).predict(data.test)
    found = {
        RANDOM: named_at_random(groups, truth, classes),
        COMMON: [float(np.unique(truth, return_counts=True)[1].max() / len(truth))],
    }
    return found | named_lines(data)


def named_lines(data: Encoded) -> dict[str, list[float]]:
    """The lines that follow from the names of the classes, for which no sample but those of the test is encoded."""
    classes, truth = np.asarray(data.parts.classes), np.asarray(data.parts.test[1])
    told = {OWN_CLASSES: _own_classes(data), ZERO_SHOT: _zero_shot(data)}
    return {name: [float((classes[each] == truth).mean())] for name, each in told.items() if each is not None}


def _own_classes(data: Encoded) -> NDArray[np.int64] | None:
    """What the ImageNet network calls the test images; None where it is not the board's encoder."""
    groups = IMAGENET.get(data.parts.name)
    if groups is None or data.images is None or data.images[0] != "imagenet" or len(groups) != data.classes:
        return None
    import torch

    from tacit.representations.torch_efficientnet import ImageNetFeatures, _whole

    seen = ImageNetFeatures.fit(np.asarray(data.parts.public)).encode(np.asarray(data.parts.test[0]))
    with torch.inference_mode():
        chances = torch.softmax(_whole()._fc(torch.from_numpy(seen)), dim=1).double().numpy()
    return grouped(chances, groups)


def _zero_shot(data: Encoded) -> NDArray[np.int64] | None:
    """The names nearest to the test texts by MiniLM; None where there are no names or no MiniLM."""
    names = NAMES.get(data.parts.name)
    if names is None:
        return None
    try:
        from tacit.representations.torch_minilm import TextFeatures
    except InvalidInput:
        return None
    encoder = TextFeatures()
    said = np.array([names[str(each)] for each in data.parts.classes], dtype=object)
    return nearest_names(encoder.encode(np.asarray(data.parts.test[0], dtype=object)), encoder.encode(said))
