"""What the doctor says where something is wrong: an old Python, a missing part, a folder or a disk that will not do."""

import json
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from tacit.cli import doctor
from tacit.cli.application import main


def finding(what):
    return next(each for each in doctor.part_findings() if each.what == what)


def run(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return ended.value.code or 0


def test_a_python_that_is_too_old_is_wrong(monkeypatch):
    monkeypatch.setattr(doctor, "PYTHON", (9, 9))
    assert finding("python").state == "wrong"
    assert "needs Python 9.9 or newer" in finding("python").said


def test_a_missing_package_of_the_core_is_wrong_and_one_of_an_extra_is_not(monkeypatch):
    needs = {"": ["numpy", "no-such-core"], "torch": ["no-such-extra"]}
    monkeypatch.setattr(doctor, "_needs", lambda: needs)
    assert finding("core").state == "wrong"
    assert "no-such-core. Get it by pip install tacit" in finding("core").said
    assert finding("torch").state == "missing"
    assert "pip install 'tacit[torch]'" in finding("torch").said
    assert "does not know it" in finding("images").said


@pytest.mark.parametrize("gone", [True, False])
def test_digits_that_are_not_there_are_wrong(gone, monkeypatch):
    def files(name):
        if gone:
            raise metadata.PackageNotFoundError(name)
        return []

    monkeypatch.setattr(doctor.metadata, "files", files)
    assert finding("digits").state == "wrong"


def test_a_generator_that_does_not_answer_is_wrong(monkeypatch):
    def words(self, count):
        raise OSError("no entropy")

    monkeypatch.setattr("tacit.core.randomness.SystemRandomness.words", words)
    assert "fails (no entropy)" in finding("randomness").said


def test_a_state_folder_that_cannot_be_written_is_wrong(monkeypatch):
    monkeypatch.setattr(doctor, "_writable", lambda folder: False)
    assert finding("state").state == "wrong"
    assert "choose a folder by TACIT_STATE" in finding("state").said


def test_a_full_disk_and_missing_programs_and_experiments_are_told(monkeypatch, capsys):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda place: SimpleNamespace(free=2**20))
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    monkeypatch.setattr(doctor.sys, "executable", "/no-such-folder/python")
    monkeypatch.setattr("tacit.cli.demo.BENCHMARKS", Path("no-such-folder"))
    assert finding("space").state == "wrong"
    assert finding("flower").state == "missing"
    assert finding("benchmarks").state == "missing"
    assert run("doctor", "--json") == 1
    assert {each["what"]: each["state"] for each in json.loads(capsys.readouterr().out)}["space"] == "wrong"
    assert run("doctor") == 1
