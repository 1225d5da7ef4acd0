"""A federation of real processes on loopback, for tests: TLS, registered keys, free ports, bounded waits.

Everything is waited for by what it says: a log, a file of the job's progress. Bounds are generous, for busy machines.
"""

import json
import os
import signal
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from tacit.cli.federation_setup import new_coordinator, new_node, new_service
from tacit.cli.federation_watch import linked, progress_of, submitted, watched
from tacit.datasets.published import digits
from tacit.federation.node.node import prepare_ledger
from tacit.federation.processes import Processes, free_port
from tacit.federation.settings import read_node_file
from tacit.ledger.sqlite import SqliteLedger
from tacit.runs.federation import read_job

CLASSES = json.dumps([str(name) for name in range(10)])
TACIT = (sys.executable, "-c", "from tacit.cli import main; main()")
SERVICES = {"shuffle": "shuffler", "central": "curator"}
# A slow and busy machine starts a client process in half a minute.
START = 400.0


class Deployment:
    """A coordinator's folder, nodes' folders, and the processes that run now."""

    def __init__(self, home: Path, names, strangers=(), ceiling="1.0"):
        self.home, self.study, self.port = home, home / "study", free_port()
        self.services = {"shuffler": free_port(), "curator": free_port()}
        self.names, self.processes = tuple(names), Processes(home / "logs")
        self.control, self._links = None, ExitStack()
        parts = digits()
        new_coordinator(self.study, [])
        np.savez(self.study / "public.npz", X=parts.public_samples)
        everyone = (*self.names, *strangers)
        # A job's thousand records are those of the registered nodes; a stranger has a copy of some.
        parted = np.array_split(np.arange(1000), len(self.names))
        for number, name in enumerate(everyone):
            own, rows = home / name, parted[number % len(parted)]
            new_node(own, name, f"127.0.0.1:{self.port}", self.study / "authority.pem")
            np.savez(own / "records.npz", X=parts.private_samples[rows], y=parts.private_labels[rows])
            (own / "policy.toml").write_text(
                f"[accounts.{name}]\nepsilon = {ceiling}\ndelta = 1e-3\n[allow]\nparticipants = 2\n"
                'methods = ["rknn", "class_sums"]\npurposes = ["reverse k-NN labels", "class sums"]\n'
                'mechanisms = ["DiscreteLaplaceNoise", "DistributedLaplace", "DistributedGaussian", "PermuteAndFlip", '
                '"Shuffled"]\n'
            )
            if name not in strangers:
                (self.study / "nodes" / f"{name}.pub").write_bytes((own / f"{name}.pub").read_bytes())
        peers = "".join((home / name / f"{name}.id").read_text() for name in self.names)
        for place in (self.study, *(home / name for name in everyone)):
            (place / "peers.toml").write_text(peers)
        for kind, port in self.services.items():
            new_service(home / kind, kind, [], port, self.study / "coordinator.id", self.study / "peers.toml")
        ceiling = f"[accounts.curator]\nepsilon = {ceiling}\n"
        (home / "curator" / "policy.toml").write_text(ceiling)
        for name in everyone:
            self._describe(name)

    def _describe(self, name):
        own = self.home / name
        text = (own / "node.toml").read_text()
        services = "".join(
            f'[{kind}]\naddress = "https://127.0.0.1:{port}"\nauthority = "../{kind}/authority.pem"\n'
            + (f'key = "{self.curator_key}"\n' if kind == "curator" else "")
            for kind, port in self.services.items()
        )
        (own / "node.toml").write_text(
            f'name = "{name}"\ndata = "records.npz"\nlabel = "y"\nclasses = {CLASSES}\npolicy = "policy.toml"\n'
            f'ledger = "{name}.ledger"\naccount = "{name}"\npace = 0.5\nidentity = "{name}.identity"\n'
            f'peers = "peers.toml"\n{services}{text[text.index("[link]") :]}'
        )
        prepare_ledger(read_node_file(own / "node.toml"))

    @property
    def curator_key(self):
        return (self.home / "curator" / "curator.key.pub").read_text().strip()

    def start_service(self, kind):
        """Start the shuffler or the curator as its operator would; come back when it is ready."""
        command = [*TACIT, "federation", kind, self.home / kind / f"{kind}.toml"]
        self._started([kind], lambda _: self.processes.start(kind, command, dict(os.environ)), "ready at")

    @contextmanager
    def link(self):
        """A SuperLink; ``relink`` starts another one in its place."""
        with self._links:
            self.relink()
            yield self.control

    def relink(self):
        self._links.pop_all().close()
        link = linked(self.processes, self.study, self.study / "state", "127.0.0.1", self.port)
        self.control = self._links.enter_context(link)

    def start(self, *names):
        """Start nodes; come back when they are let in."""
        self._started(names, self.start_node, "SuperNode ID:")

    def start_node(self, name):
        command = [*TACIT, "federation", "node", self.home / name / "node.toml"]
        self.processes.start(name, command, dict(os.environ))

    def _started(self, names, start, said):
        before = {name: self.log(name).count(said) for name in names}
        for name in names:
            start(name)
        end = time.monotonic() + START
        while behind := [name for name in names if self.log(name).count(said) == before[name]]:
            assert time.monotonic() < end, f"{behind} did not start: {self.log(behind[0])[-2000:]}"
            time.sleep(0.1)

    def job(self, name="run", **settings):
        return Work(self, name, settings)

    def payments(self, name):
        with SqliteLedger(self.home / name / f"{name}.ledger") as book:
            return book.payments(name)

    def log(self, name):
        """What a process said on its output; for a node Flower's lines and its own events, too."""
        state = self.home / name / f"{name}.state"
        files = (self.home / "logs" / f"{name}.log", state / "node.log", state / "service.jsonl")
        return "".join(file.read_text(errors="replace") for file in files if file.exists())


class Work:
    """One job of a deployment."""

    def __init__(self, deployment, name, settings):
        self.deployment = deployment
        settings = {
            "records": 1000, "nodes": len(deployment.names), "at_least": len(deployment.names), "deadline": START,
            "grace": 3, "patience": START, "epsilon": 1.0, "method": "rknn", "trust": "local",
        } | settings  # fmt: skip
        if settings["method"] == "rknn":
            settings = {"queries": 12} | settings
        if settings.get("trust") == "masked":
            settings["peers"] = "peers.toml"
        if (kind := SERVICES.get(settings.get("trust"))) is not None:
            settings |= {
                "service": f"https://127.0.0.1:{deployment.services[kind]}", "node_records": 400,
                "service_authority": f"../{kind}/authority.pem", "identity": "coordinator.identity",
            }  # fmt: skip
        if kind == "shuffler":
            settings |= {"delta": 1e-5, "mechanism": "one message"}
        if kind == "curator":
            settings["curator_key"] = deployment.curator_key
        self.file = deployment.study / f"{name}.toml"
        lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        self.file.write_text(f'public = "public.npz"\nout = "{name}"\nclasses = {CLASSES}\n' + "\n".join(lines))
        self.since = 0.0

    @property
    def job(self):
        return read_job(self.file)

    def submit(self):
        self.since = time.time()
        return submitted(self.deployment.control, self.file)

    def watch(self, show=lambda found: None):
        return watched(self.job, self.deployment.processes, show, self.since, patience=START)

    def until(self, happened, seconds=START):
        """Wait until the job's progress shows something."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = progress_of(self.job)
            if found is not None and happened(found):
                return found
            assert found is None or found["state"] != "failed", found["message"]
            time.sleep(0.05)
        raise AssertionError(f"it did not happen in {seconds} seconds: {progress_of(self.job)}")

    def kill(self):
        """Kill the coordinator's own process, as a crash would."""
        os.kill(progress_of(self.job)["process"], signal.SIGKILL)

    @property
    def round(self):
        return progress_of(self.job)["rounds"][-1]


def asked(found):
    """Whether the round has begun."""
    return any(status["asked"] for status in found["rounds"])


def at_step(step):
    """Whether a step of the round has begun."""
    return lambda found: any(status["step"] == step for status in found["rounds"])
