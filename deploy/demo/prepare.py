"""Keys, policies, records of public digits and a job for the demo federation of compose.yaml.

In production people do this. Every party gets a folder `here` in its own folder under HOME; an existing one is kept.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import tacit
from tacit.cli.federation_setup import new_coordinator, new_node
from tacit.federation.members import add_member

POLICY = """\
[accounts.{name}]
epsilon = 2.0

[allow]
methods = ["rknn"]
mechanisms = ["DiscreteLaplaceNoise"]
purposes = ["reverse k-NN labels"]
participants = 2

[limits]
question = {{ epsilon = 1.0 }}
"""
NODE = """\
name = "{name}"
data = "records.npz"
label = "y"
classes = {classes}
policy = "policy.toml"
ledger = "{name}.ledger"
account = "{name}"
pace = 1.0

[service]
port = 9464

[link]
address = "{address}"
authority = "authority.pem"
key = "{name}.key"
"""
JOB = """\
method = "rknn"
public = "public.npz"
classes = {classes}
epsilon = 1.0
trust = "local"
records = 1000
nodes = {nodes}
at_least = {at_least}
deadline = 600
grace = 30
patience = 600
out = "run"
"""


def prepare(home: Path, host: str, port: int, names: list[str]) -> None:
    """Create all folders that do not exist yet."""
    parts, study = tacit.digits(), home / "study" / "here"
    classes = json.dumps([str(name) for name in parts.classes])
    if not study.exists():
        new_coordinator(study, [host])
        np.savez(study / "public.npz", X=parts.public_samples)
        job = JOB.format(classes=classes, nodes=len(names), at_least=max(1, len(names) - 1))
        (study / "job.toml").write_text(job, encoding="utf-8")
    for name, rows in zip(names, np.array_split(np.arange(len(parts.private_labels)), len(names)), strict=True):
        own = home / name / "here"
        if own.exists():
            continue
        new_node(own, name, f"{host}:{port}", study / "authority.pem")
        np.savez(own / "records.npz", X=parts.private_samples[rows], y=parts.private_labels[rows])
        (own / "policy.toml").write_text(POLICY.format(name=name), encoding="utf-8")
        node = NODE.format(name=name, classes=classes, address=f"{host}:{port}")
        (own / "node.toml").write_text(node, encoding="utf-8")
        add_member(study, own / f"{name}.pub", own / f"{name}.id")


if __name__ == "__main__":
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("home", type=Path)
    given.add_argument("--host", default="coordinator")
    given.add_argument("--port", type=int, default=9092)
    given.add_argument("--nodes", nargs="+", default=["east", "north", "west"])
    found = given.parse_args()
    prepare(found.home, found.host, found.port, found.nodes)
