"""The image, the demo federation and the units, checked as far as they can be without an engine.

No image is built and no container is started here. What is checked: every file that is copied is there, every command
line is one that the command line takes, what one part says fits the others, and units are units.
"""

import fnmatch
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
import yaml
from typer.main import get_command

pytest.importorskip("flwr", reason="needs tacit[federated]")

from tacit.cli.application import app
from tacit.federation.members import members
from tacit.federation.node.node import open_node, prepare_ledger
from tacit.federation.settings import Serving, read_node_file
from tacit.runs.federation import read_job

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
NODES = ("east", "north", "west")


def require_command(words):
    """Fail where the command line would say that this is wrong use; nothing is run."""
    command, context = get_command(app), click.Context(get_command(app))
    words = list(words)
    while hasattr(command, "resolve_command"):
        _, command, words = command.resolve_command(context, words)
        context = click.Context(command, parent=context)
    command.parse_args(context, words)


def test_wrong_commands_are_noticed():
    require_command(["federation", "node", "here/node.toml"])
    with pytest.raises(click.UsageError):
        require_command(["federation", "node", "here/node.toml", "--prot", "1"])
    with pytest.raises(click.UsageError):
        require_command(["federation", "coordinator"])
    with pytest.raises(click.UsageError):
        require_command(["federation", "nodde"])


def instructions():
    text = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text())
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


def ignored(path):
    """What the context leaves out, by the rules of an ignore file: the last one that matches counts."""
    found = False
    for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines():
        if line and not line.startswith("#"):
            rule = line.removeprefix("!")
            if fnmatch.fnmatch(path, rule) or path.startswith(f"{rule}/") or path == rule:
                found = not line.startswith("!")
    return found


def test_the_image_copies_what_is_there_and_runs_as_nobody_special():
    found = instructions()
    copied = [words.split() for name, words in found if name == "COPY" and not words.startswith("--from")]
    assert copied
    for *sources, _ in copied:
        for source in sources:
            assert (ROOT / source).exists(), source
            assert not ignored(source), source
    assert ignored("tests")
    assert ignored(".venv")
    assert not [name for name, _ in found if name == "ADD"]
    bases = [words.split()[0] for name, words in found if name == "FROM"]
    assert all(re.search(r":\d", base) for base in bases), "a base without a version changes under one's feet"
    last = max(place for place, (name, _) in enumerate(found) if name == "FROM")
    users = [words for name, words in found[last:] if name == "USER"]
    assert users == ["tacit"]
    assert any("-c constraints.txt" in words for name, words in found if name == "RUN")
    assert dict(found)["ENTRYPOINT"] == '["tacit"]'
    assert any('".[${EXTRAS}]"' in words for name, words in found if "pip install" in words)
    chosen = dict(found)["ARG"].removeprefix("EXTRAS=").split(",")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    packages = {re.match(r"[\w-]+", each)[0] for name in chosen for each in extras[name]}
    # Roles may be given a ledger or a store on a server, files of columns and an engine, and a live view.
    assert {"flwr", "psycopg", "pyarrow", "matplotlib", "uvicorn"} <= packages


def test_the_demo_federation_fits_together(tmp_path):
    services = COMPOSE["services"]
    assert set(services) == {"prepare", "coordinator", *NODES}
    for name, service in services.items():
        assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert not service.get("privileged")
        assert "ports" not in service
        for volume in service["volumes"]:
            assert volume.split(":")[0] in COMPOSE["volumes"], name
        if "entrypoint" not in service:
            require_command(service["command"])
            assert service["depends_on"]["prepare"]["condition"] == "service_completed_successfully"
    # No node sees another's folder, nor the coordinator any node's.
    parties = {name: {each.split(":")[0] for each in services[name]["volumes"]} for name in ("coordinator", *NODES)}
    for one in parties:
        for other in parties:
            assert one == other or not parties[one] & parties[other]
    for name in NODES:
        assert int(services[name]["stop_grace_period"].removesuffix("s")) > Serving().drain
        assert name in services["prepare"]["command"]
        assert f"/srv/tacit/{name}/here/node.toml" in services[name]["command"]


def test_what_the_demo_prepares_is_a_federation_and_is_left_alone_the_second_time(tmp_path, monkeypatch):
    command = COMPOSE["services"]["prepare"]["command"]
    assert COMPOSE["services"]["prepare"]["entrypoint"] == ["python", "/opt/tacit/prepare.py"]
    monkeypatch.setattr(sys, "argv", ["prepare.py", str(tmp_path), *command[1:]])
    for _ in range(2):
        runpy.run_path(str(DEPLOY / "demo" / "prepare.py"), run_name="__main__")
    study = tmp_path / "study" / "here"
    assert [each.name for each in members(study)] == list(NODES)
    job = read_job(study / "job.toml")
    assert (job.nodes, job.at_least) == (3, 2)
    check = COMPOSE["services"]["east"]["healthcheck"]["test"][-1]
    for name in NODES:
        settings = read_node_file(tmp_path / name / "here" / "node.toml")
        assert settings.link.address == "coordinator:9092"
        assert f"127.0.0.1:{settings.service.port}/ready" in check
        prepare_ledger(settings)
        open_node(settings).ledger.close()


def read_unit(file):
    found = {}
    for line in file.read_text().splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            section.setdefault(name, []).append(value)
    return found


def started_by(file):
    """The words of the command that a unit starts; an instance has the name of a node, or the port of a worker."""
    (start,) = read_unit(file)["Service"]["ExecStart"]
    return start.replace("%i", "9400" if "intake" in file.name else "north").split()


def commands(command, words=()):
    """Every command with its words."""
    if not hasattr(command, "list_commands"):
        yield words, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        yield from commands(command.resolve_command(context, [name])[1], (*words, name))


def test_there_is_a_unit_for_every_command_that_runs_until_it_is_stopped():
    services = {
        words for words, each in commands(get_command(app)) if "in the foreground" in " ".join(each.help.split())
    }
    assert {("federation", "node"), ("federation", "intake", "worker")} <= services
    services |= {("federation", "coordinator"), ("ui",)}
    started = [tuple(started_by(file)[1:]) for file in UNITS]
    assert len(started) == len(services)
    assert all(any(words[: len(each)] == each for words in started) for each in services)


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.stem)
def test_a_unit_runs_a_command_that_there_is_with_as_few_rights_as_it_can(file, monkeypatch):
    service = read_unit(file)["Service"]
    program, *words = started_by(file)
    for each in service["Environment"]:
        monkeypatch.setenv(*each.split("=", 1))
    assert program == "/srv/tacit/venv/bin/tacit"
    require_command(words)
    assert service["User"] == ["tacit"]
    assert service["NoNewPrivileges"] == service["PrivateTmp"] == service["ProtectHome"] == ["true"]
    assert service["ProtectSystem"] == ["strict"]
    assert service["CapabilityBoundingSet"] == [""]
    assert (service["UMask"], service["LimitCORE"]) == (["0077"], ["0"])
    # A ledger's head is kept where the unit may write.
    assert f"TACIT_STATE=/var/lib/{service['StateDirectory'][0]}" in service["Environment"]
    (place,) = service.get("ReadWritePaths") or service["ReadOnlyPaths"]
    assert any(word.startswith(place.replace("%i", "north")) for word in words)
    if "node" in file.name or "coordinator" in file.name:
        assert service["KillMode"] == ["mixed"]
    if "node" in file.name:
        assert float(service["TimeoutStopSec"][0]) > Serving().drain


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_units_are_units_by_systemds_own_word(tmp_path):
    copies = []
    for file in UNITS:
        copies.append(tmp_path / file.name.replace("@", "@north"))
        # The program must be there for it; where it will be is another machine's business.
        copies[-1].write_text(file.read_text().replace("/srv/tacit/venv/bin/tacit", sys.executable))
    command = ["systemd-analyze", "verify", *map(str, copies)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    about_ours = [line for line in (found.stdout + found.stderr).splitlines() if "tacit" in line]
    assert about_ours == []
