"""A representation and a student of another package: found by name, used, saved, and let in by a policy alone."""

import os
import subprocess
import sys

import numpy as np
import pytest

import tacit
from tacit.core.codec import StrictReader, decode, encode
from tacit.core.errors import InvalidInput
from tacit.representations import registry
from tacit.representations.chained import Chained
from tacit.representations.registry import admitted, fit_representation, read_representation, representation_fields
from tacit.students.registry import STUDENTS
from tests.example_package.installed import example  # noqa: F401

PARTS = tacit.digits()
PRIVATE, PUBLIC = (PARTS.private_samples, PARTS.private_labels), PARTS.public_samples

pytestmark = pytest.mark.usefixtures("example")


def ranks():
    return fit_representation("ranks", PUBLIC, 20)[1]


def test_names_of_other_packages_are_listed_and_loaded():
    assert registry.REPRESENTATIONS.outside() == ("ranks", "coarse-ranks")
    assert STUDENTS.outside() == ("centroids",)
    assert type(ranks()).__name__ == "Ranks"
    assert fit_representation("coarse-ranks", PUBLIC, 3)[1].columns.shape == (30, 64)
    with pytest.raises(InvalidInput, match=r"unknown representation 'rank': .*did you mean ranks"):
        fit_representation("rank", PUBLIC, 20)


def test_a_run_uses_both_by_name_and_is_saved_and_loaded(tmp_path):
    run = tacit.distill(PRIVATE, PUBLIC, 2.0, classes=range(10), representation="ranks", student="centroids", seed=1)
    assert (run.student.predict(PARTS.test_samples) == PARTS.test_labels).mean() > 0.6
    run.save(tmp_path / "run")
    again = tacit.load(tmp_path / "run")
    assert type(again.student).__name__ == "Centroids"
    assert np.array_equal(again.student.predict(PARTS.test_samples), run.student.predict(PARTS.test_samples))


def test_one_fitted_on_the_records_is_refused():
    from tacit_example.representation import Ranks

    with pytest.raises(InvalidInput, match="fitted on these private records"):
        tacit.distill(PRIVATE, PUBLIC, 1.0, classes=range(10), representation=Ranks.fit(PRIVATE[0]), seed=1)


def test_it_is_read_only_where_it_is_admitted():
    fields = decode(encode(representation_fields(ranks())))
    with pytest.raises(InvalidInput, match="kind must be one of identity, directions"):
        read_representation(StrictReader(dict(fields), "representation"))
    chain = {"kind": "chained", "parts": [fields]}
    with pytest.raises(InvalidInput, match="kind must be one of identity"):
        read_representation(StrictReader(chain, "representation"))
    with admitted(["ranks"]):
        assert read_representation(StrictReader(dict(fields), "representation")).encode(PUBLIC).tobytes() == (
            ranks().encode(PUBLIC).tobytes()
        )
        assert isinstance(read_representation(StrictReader(chain, "representation")), Chained)
        with pytest.raises(InvalidInput, match="in order"):
            read_representation(StrictReader(fields | {"columns": fields["columns"][::-1].copy()}, "representation"))
    with admitted(["coarse-ranks"]), pytest.raises(InvalidInput, match="no installed package has it"):
        read_representation(StrictReader({"kind": "coarse-ranks"}, "representation"))
    with pytest.raises(InvalidInput, match="kind must be one of identity"):
        read_representation(StrictReader(dict(fields), "representation"))


@pytest.mark.parametrize(("allowed", "answered"), [((), False), (("others",), False), (("ranks",), True)])
def test_a_node_reads_it_only_if_its_policy_names_it(allowed, answered, caplog):
    pytest.importorskip("cryptography", reason="needs tacit[federated]")
    from tacit.core.account import Ceiling
    from tacit.federation.messages import RefusalReason, Request, read_response
    from tacit.federation.node.node import Node
    from tacit.ledger.memory import MemoryLedger
    from tacit.ledger.policy import Rules
    from tacit.mechanisms.central.discrete_laplace import DiscreteLaplaceNoise
    from tacit.methods.rknn.wire import VoteAsk
    from tacit.private.records import Private, Records
    from tacit.wire import ask_to_bytes

    queries, noise = ranks().encode(PUBLIC[:2]), DiscreteLaplaceNoise.for_epsilon(1, 2)
    ask = VoteAsk(queries, ranks(), 1, ("a", "b"), "c0ffee", noise, "votes", "r-1")
    node = Node(
        name="ada",
        classes=("a", "b"),
        records=Private(Records(PRIVATE[0][:20], np.arange(20) % 2)),
        rules=Rules(("rknn",), ("DiscreteLaplaceNoise",), ("votes",), participants=1, representations=allowed),
        ledger=MemoryLedger({"ada": Ceiling(1)}),
        account="ada",
        seed=5,
    )
    answer = read_response(node.reply(Request("run", 0, 1, ask_to_bytes(ask), records=100).to_bytes())).answer
    assert isinstance(answer, bytes) == answered
    assert node.ledger.balance("ada").payments == int(answered)
    if not answered:
        assert answer is RefusalReason.QUESTION
        assert "representation's kind must be one of identity" in caplog.text


def test_another_process_finds_them_without_importing_torch_or_umap(example):  # noqa: F811
    program = """
import sys
import numpy as np
from tacit.representations.registry import CLASSES, REPRESENTATIONS, fit_representation
from tacit.students.registry import STUDENTS
print(fit_representation("ranks", np.eye(3), 2)[1].encode(np.eye(3)).shape, type(STUDENTS["centroids"]()).__name__)
print(len(REPRESENTATIONS), len(CLASSES), len(STUDENTS))
print([each for each in ("torch", "umap") if each in sys.modules])
"""
    environment = os.environ | {"PYTHONPATH": example}
    said = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert said.stdout.split("\n")[:3] == ["(3, 3) Centroids", "16 19 7", "[]"]


def test_a_name_that_two_packages_add_is_refused(tmp_path, monkeypatch):
    info = tmp_path / "other-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[tacit.representations]\nranks = other:Ranks\nidentity = other:Ranks\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InvalidInput, match="'ranks' is added by several packages"):
        fit_representation("ranks", PUBLIC, 20)
    # Nobody takes over a name of the package's own.
    assert type(fit_representation("identity", PUBLIC, 20)[1]).__module__ == "tacit.representations.scaled"


def test_a_student_of_another_package_is_not_built_from_what_was_sent(tmp_path):
    from tacit.students.registry import load_student, save_student

    student = STUDENTS["centroids"]().fit(PUBLIC, np.arange(len(PUBLIC)) % 3)
    file = tmp_path / save_student(student, tmp_path)
    assert np.array_equal(load_student(file).predict(PUBLIC), student.predict(PUBLIC))
    with pytest.raises(InvalidInput, match="unknown types"):
        load_student(file, outside=False)
