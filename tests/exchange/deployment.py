"""A federation of real processes on loopback, for tests: TLS, registered keys, free ports, bounded waits."""

import json
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tacit.cli.federation_files import new_coordinator, new_node
from tacit.cli.federation_watch import linked, progress_of, submitted, watched
from tacit.datasets.digits import digits
from tacit.exchange.flower_processes import node_command
from tacit.exchange.node import prepare_ledger
from tacit.exchange.node_file import read_node_file
from tacit.exchange.processes import Processes, free_port
from tacit.experiment.federated_job import read_job
from tacit.ledger.sqlite import SqliteLedger

CLASSES = json.dumps([str(name) for name in range(10)])
# A slow and busy machine starts a client process in half a minute.
START = 240.0


class Deployment:
    """A coordinator's folder, nodes' folders, and the processes that run now."""

    def __init__(self, home: Path, names, strangers=(), ceiling="1.0", **job):
        self.home, self.hub, self.port = home, home / "hub", free_port()
        self.names, self.processes = tuple(names), Processes(home / "logs")
        parts = digits()
        new_coordinator(self.hub, [])
        np.savez(self.hub / "public.npz", X=parts.public_samples)
        self.job_file = self.hub / "job.toml"
        settings = {
            "records": 1000, "nodes": len(self.names), "at_least": len(self.names), "deadline": START, "grace": 3,
            "patience": START, "epsilon": 1.0, "queries": 12,
        } | job  # fmt: skip
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        self.job_file.write_text(f'public = "public.npz"\nout = "run"\nclasses = {CLASSES}\n' + "\n".join(lines))
        everyone = (*self.names, *strangers)
        for name, rows in zip(everyone, np.array_split(np.arange(1000), len(everyone)), strict=True):
            own = home / name
            new_node(own, name, f"127.0.0.1:{self.port}", self.hub / "authority.pem")
            np.savez(own / "records.npz", X=parts.private_samples[rows], y=parts.private_labels[rows])
            (own / "policy.toml").write_text(
                f'[accounts.{name}]\nepsilon = {ceiling}\n[allow]\nmethods = ["rknn"]\nparticipants = 2\n'
                'mechanisms = ["DiscreteLaplaceNoise"]\npurposes = ["reverse k-NN labels"]\n'
            )
            text = (own / "node.toml").read_text()
            link = text[text.index("[link]") :]
            (own / "node.toml").write_text(
                f'name = "{name}"\ndata = "records.npz"\nlabel = "y"\nclasses = {CLASSES}\npolicy = "policy.toml"\n'
                f'ledger = "{name}.ledger"\naccount = "{name}"\npace = 0.5\n{link}'
            )
            prepare_ledger(read_node_file(own / "node.toml"))
            if name not in strangers:
                (self.hub / "nodes" / f"{name}.pub").write_bytes((own / f"{name}.pub").read_bytes())

    @property
    def job(self):
        return read_job(self.job_file)

    @contextmanager
    def link(self):
        with linked(self.processes, self.hub, self.hub / "state", "127.0.0.1", self.port) as control:
            yield control

    def start(self, name):
        own = self.home / name
        settings = read_node_file(own / "node.toml")
        self.processes.start(name, *node_command(own / "node.toml", settings.link, own / "state", free_port()))

    def submit(self, control):
        self.since = time.time()
        return submitted(control, self.job_file)

    def watch(self, show=lambda found: None):
        return watched(self.job, self.processes, show, self.since, patience=START)

    def until(self, happened, seconds=START):
        """Wait until the job's progress shows something."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = progress_of(self.job)
            if found is not None and happened(found):
                return found
            time.sleep(0.2)
        raise AssertionError(f"it did not happen in {seconds} seconds: {progress_of(self.job)}")

    def payments(self, name):
        with SqliteLedger(self.home / name / f"{name}.ledger") as book:
            return book.payments(name)

    def log(self, name):
        return (self.home / "logs" / f"{name}.log").read_text(errors="replace")


def asked(found):
    """Whether the round has begun."""
    return any(turn["asked"] for turn in found["turns"])
