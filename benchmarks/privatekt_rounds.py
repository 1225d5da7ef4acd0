"""How long one PrivateKT round of local training takes, in several ways, side by side in one run.

40 holders, 600 images of 28x28 each, 15 steps on batches of 32:
one network after another, all layers; the same by torch.func; all stacked; and stacked, with the convolutions kept.

    python benchmarks/privatekt_rounds.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from tacit.methods.privatekt.torch_local import NetworkLocal
from tacit.methods.privatekt.torch_models import NetworkTrainer, Training, architecture_for

HOLDERS, RECORDS, STEPS, BATCH, RATE = 40, 600, 15, 32, 0.05


def seconds(work: Callable[[], object], times: int = 2) -> float:
    """Processor seconds of the quickest of some tries: what else runs on the machine only adds."""
    found = []
    for _ in range(times):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


def main() -> None:
    """Measure and print the ratios."""
    torch.set_num_threads(1)
    images = np.random.default_rng(0).random((HOLDERS * RECORDS, 28, 28), dtype=np.float32)
    labels = np.random.default_rng(1).integers(0, 10, len(images))
    architecture = architecture_for(images)
    trainer = NetworkTrainer(architecture, images[:1000], np.arange(10), Training(1, 1, 0.1))
    start, training = trainer.begin(), Training(STEPS, BATCH, RATE)
    kept, whole = (NetworkLocal(architecture, 10, training, trained) for trained in ("dense", "all"))
    prepared = [kept.prepare(images[place::HOLDERS], labels[place::HOLDERS]) for place in range(HOLDERS)]

    def alone() -> None:
        for each in prepared:
            network = trainer.finished(start).network_
            optimizer = torch.optim.SGD(network.parameters(), RATE, 0.9)
            for _ in range(STEPS):
                rows = torch.randint(RECORDS, (BATCH,))
                loss = functional.cross_entropy(network(each.samples[rows]) + each.usual, each.labels[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    def mapped() -> None:
        network = trainer.finished(start).network_
        fixed = dict(network.named_buffers())
        own = {name: each.detach().expand(HOLDERS, *each.shape).clone() for name, each in network.named_parameters()}
        speed = {name: torch.zeros_like(each) for name, each in own.items()}
        slopes = vmap(grad(lambda one, x, y: functional.cross_entropy(functional_call(network, one | fixed, (x,)), y)))
        for _ in range(STEPS):
            rows = torch.randint(RECORDS, (BATCH,))
            batch = torch.stack([each.samples[rows] for each in prepared])
            for name, slope in slopes(own, batch, torch.stack([each.labels[rows] for each in prepared])).items():
                speed[name].mul_(0.9).add_(slope)
                own[name].sub_(speed[name], alpha=RATE)

    ways = {
        "one after another, all layers": alone,
        "by torch.func, all layers": mapped,
        "stacked, all layers": lambda: whole.labels(prepared, start, images[:2], 0),
        "stacked, convolutions kept (the default)": lambda: kept.labels(prepared, start, images[:2], 0),
    }
    first = None
    for name, work in ways.items():
        participations = seconds(work)
        first = first or participations
        print(f"{name:45s} {participations:6.2f} processor seconds, {first / participations:4.1f} times as fast")


if __name__ == "__main__":
    main()
