"""A federation of real processes on loopback, for tests: TLS, registered keys, free ports, bounded waits."""

import json
import os
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tacit.cli.federation_files import new_coordinator, new_node, new_service
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

    def __init__(self, home: Path, names, strangers=(), ceiling="1.0"):
        self.home, self.hub, self.port, self.mixing = home, home / "hub", free_port(), free_port()
        self.names, self.processes = tuple(names), Processes(home / "logs")
        parts = digits()
        new_coordinator(self.hub, [])
        np.savez(self.hub / "public.npz", X=parts.public_samples)
        everyone = (*self.names, *strangers)
        for name, rows in zip(everyone, np.array_split(np.arange(1000), len(everyone)), strict=True):
            own = home / name
            new_node(own, name, f"127.0.0.1:{self.port}", self.hub / "authority.pem")
            np.savez(own / "records.npz", X=parts.private_samples[rows], y=parts.private_labels[rows])
            (own / "policy.toml").write_text(
                f'[accounts.{name}]\nepsilon = {ceiling}\ndelta = 1e-3\n[allow]\nmethods = ["rknn"]\nparticipants = 2\n'
                'mechanisms = ["DiscreteLaplaceNoise", "DistributedLaplace", "Shuffled"]\n'
                'purposes = ["reverse k-NN labels"]\n'
            )
            text = (own / "node.toml").read_text()
            link = text[text.index("[link]") :]
            (own / "node.toml").write_text(
                f'name = "{name}"\ndata = "records.npz"\nlabel = "y"\nclasses = {CLASSES}\npolicy = "policy.toml"\n'
                f'ledger = "{name}.ledger"\naccount = "{name}"\npace = 0.5\nidentity = "{name}.identity"\n'
                f'peers = "peers.toml"\n[shuffler]\naddress = "https://127.0.0.1:{self.mixing}"\n'
                f'authority = "../mixing/authority.pem"\n{link}'
            )
            prepare_ledger(read_node_file(own / "node.toml"))
            if name not in strangers:
                (self.hub / "nodes" / f"{name}.pub").write_bytes((own / f"{name}.pub").read_bytes())
        peers = "".join((home / name / f"{name}.id").read_text() for name in self.names)
        for place in (self.hub, *(home / name for name in everyone)):
            (place / "peers.toml").write_text(peers)
        new_service(home / "mixing", "shuffler", [], self.mixing, self.hub / "coordinator.id", self.hub / "peers.toml")

    def start_shuffler(self):
        command = [sys.executable, "-m", "tacit.exchange.shuffling", self.home / "mixing" / "shuffler.toml"]
        self.processes.start("shuffler", command, dict(os.environ))

    @contextmanager
    def link(self):
        with linked(self.processes, self.hub, self.hub / "state", "127.0.0.1", self.port) as control:
            yield control

    def start(self, *names):
        for name in names:
            own = self.home / name
            settings = read_node_file(own / "node.toml")
            self.processes.start(name, *node_command(own / "node.toml", settings.link, own / "state", free_port()))

    def job(self, name="run", **settings):
        return Work(self, name, settings)

    def payments(self, name):
        with SqliteLedger(self.home / name / f"{name}.ledger") as book:
            return book.payments(name)

    def log(self, name):
        return (self.home / "logs" / f"{name}.log").read_text(errors="replace")


class Work:
    """One job of a deployment."""

    def __init__(self, deployment, name, settings):
        self.deployment = deployment
        settings = {
            "records": 1000, "nodes": len(deployment.names), "at_least": len(deployment.names), "deadline": START,
            "grace": 3, "patience": START, "epsilon": 1.0, "queries": 12,
        } | settings  # fmt: skip
        if settings.get("trust") == "masked":
            settings["peers"] = "peers.toml"
        if settings.get("trust") == "shuffle":
            settings |= {
                "delta": 1e-5, "mechanism": "one message", "identity": "coordinator.identity", "node_records": 400,
                "service": f"https://127.0.0.1:{deployment.mixing}", "service_authority": "../mixing/authority.pem",
            }  # fmt: skip
        self.file = deployment.hub / f"{name}.toml"
        lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        self.file.write_text(f'public = "public.npz"\nout = "{name}"\nclasses = {CLASSES}\n' + "\n".join(lines))
        self.since = 0.0

    @property
    def job(self):
        return read_job(self.file)

    def submit(self, control):
        self.since = time.time()
        return submitted(control, self.file)

    def watch(self, show=lambda found: None):
        return watched(self.job, self.deployment.processes, show, self.since, patience=START)

    def until(self, happened, seconds=START):
        """Wait until the job's progress shows something."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = progress_of(self.job)
            if found is not None and happened(found):
                return found
            time.sleep(0.1)
        raise AssertionError(f"it did not happen in {seconds} seconds: {progress_of(self.job)}")

    def kill(self):
        """Kill the coordinator's own process, as a crash would."""
        os.kill(progress_of(self.job)["process"], signal.SIGKILL)

    @property
    def turn(self):
        return progress_of(self.job)["turns"][-1]


def asked(found):
    """Whether the round has begun."""
    return any(turn["asked"] for turn in found["turns"])


def at_step(step):
    """Whether a step of the round has begun."""
    return lambda found: any(turn["step"] == step for turn in found["turns"])
