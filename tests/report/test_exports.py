"""Statements for programs, NIST's questions and the registry: complete, versioned, and nothing private in them."""

import json
import re
from importlib.resources import files
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import tacit
from tacit.cli import main
from tacit.core.account import Ceiling
from tacit.core.errors import InvalidInput
from tacit.ledger.sqlite import SqliteLedger
from tacit.methods.fedmd.exposure import WeakPrivacyWarning
from tacit.report.budget import ledger_page, ledger_statement, read_book
from tacit.report.card import statement
from tacit.report.exports import FILL_IN, nist_answers, registry_entry
from tacit.runs.folders import read_record

PARTS = tacit.digits()
DIGITS = (PARTS.private_samples, PARTS.private_labels)


def schema(name):
    return json.loads(files("tacit.report").joinpath(f"{name}.schema.json").read_text())


def check(value, name):
    jsonschema.Draft202012Validator.check_schema(schema(name))
    jsonschema.Draft202012Validator(schema(name)).validate(value)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports")
    tacit.distill(DIGITS, PARTS.public_samples, 1.0, classes=range(10)).save(folder / "pure")
    tacit.distill(
        DIGITS, PARTS.public_samples, 1.0, delta="1e-6", classes=range(10), labels="soft", mechanism="gaussian",
        persons=[f"p{row // 2}" for row in range(1000)], unit=tacit.Unit.person("patient", 2),
    ).save(folder / "persons")  # fmt: skip
    tacit.distill(DIGITS, PARTS.public_samples, 1.0, classes=range(10), seed=1).save(folder / "simulated")
    return folder


@pytest.mark.parametrize("name", ["pure", "persons", "simulated"])
def test_a_statement_is_what_its_schema_says(runs, name):
    said = statement(read_record(runs / name))
    check(said, "statement")
    assert schema("statement")["properties"]["format"]["const"] == said["format"] == "tacit run statement 1"
    for missing in ("guarantee", "payments", "format"):
        with pytest.raises(jsonschema.ValidationError):
            check({key: value for key, value in said.items() if key != missing}, "statement")
    with pytest.raises(jsonschema.ValidationError):
        check(said | {"metrics": {"not private": {}}}, "statement")
    with pytest.raises(jsonschema.ValidationError):
        check(said | {"guarantee": said["guarantee"] | {"epsilon": 1}}, "statement")


def keys(required, **more):
    """An object with these keys of text and those further ones, and no others."""
    kinds = {name: {"type": "string", "minLength": 1} for name in required.split()} | more
    return {"type": "object", "additionalProperties": False, "required": list(kinds), "properties": kinds}


def one_of(*words):
    return {"enum": list(words)}


# The layout of the registry's entries in September 2026 (opendp/deployments-registry-data, deployments/mhusage.yaml),
# with the words of its lists: its schema allows no other keys.
REGISTRY = keys(
    "url_slug",
    deployment=keys(
        "",
        basic=keys(
            "name description intended_use data_product_region",
            data_curators={"type": "array", "minItems": 1, "items": keys("data_curator_name data_curator_type")},
            data_product_type=one_of("Summary statistics", "Machine learning model", "Dataset", "Synthetic data"),
            data_product_sector=one_of("Technology", "Healthcare", "Education", "Government"),
            publication_date={"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
        ),
        dp_variant=keys(
            "data_domain unprotected_quantities",
            variant_name=one_of("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"),
        ),
        privacy_loss=keys(
            "privacy_unit privacy_unit_details privacy_parameters_details",
            privacy_parameters={
                "type": "object", "additionalProperties": False,
                "properties": {name: {"type": "number"} for name in ("epsilon", "delta", "rho")},
            },
        ),
        deployment_model=keys(
            "model_name_details actors release_type_details access_type_details",
            model_name=one_of("Local", "Central", "Shuffle", "Federated", "Varies"),
            release_type=one_of("One release", "Many releases"),
            data_source_type=one_of("Static", "Dynamic"),
            access_type=one_of("Interactive", "Non-interactive"),
        ),
        implementation=keys(
            "preprocessing_and_hyperparameter_tuning mechanisms composition post_processing justification"
        ),
        administrative=keys(
            "sources",
            status=one_of("Draft", "Pending", "Changes Required", "Approved"),
            registry_authors={"type": "array", "minItems": 1, "items": {"type": "string"}},
            tier=one_of(1, 2, 3),
        ),
    ),
)  # fmt: skip


def registered(entry):
    jsonschema.Draft202012Validator(REGISTRY).validate(entry)


def test_a_variant_without_privacy_has_a_statement_too(tmp_path):
    with pytest.warns(WeakPrivacyWarning):
        tacit.distill(
            [(PARTS.private_samples[:300], PARTS.private_labels[:300]),
             (PARTS.private_samples[300:600], PARTS.private_labels[300:600])],
            PARTS.public_samples[:50], method="fedmd", variant="np", classes=range(10), models=["logistic"], rounds=1,
            queries=10,
        ).save(tmp_path / "none")  # fmt: skip
    said = statement(read_record(tmp_path / "none"))
    check(said, "statement")
    assert said["differential_privacy"] is False
    for export in (nist_answers, registry_entry):
        with pytest.raises(InvalidInput, match="no guarantee of differential privacy"):
            export(said)


@pytest.mark.parametrize("name", ["pure", "persons"])
def test_every_question_of_nist_has_an_answer(runs, name):
    said = statement(read_record(runs / name))
    text = nist_answers(said)
    questions = re.findall(r"\*\*(.+\?)\*\*\n\n(.+)\n", text)
    assert len(questions) == text.count("?**") >= 19
    answers = dict(questions)
    assert f"ε = {said['guarantee']['epsilon']}" in answers["What are the privacy parameters?"]
    assert (
        said["guarantee"]["unit"]["in_words"]
        in answers["What is the unit of privacy, and which data sets are neighbors?"].lower()
    )
    for caveat in said["guarantee"]["caveats"]:
        assert caveat in text
    # Only who holds the data knows these.
    assert sorted(question for question, answer in questions if answer == FILL_IN + ".") == [
        "How are the data held and deleted?",
        "Who collected the data, with whose consent, and who can reach them?",
    ]


@pytest.mark.parametrize(
    ("name", "variant", "unit"), [("pure", "Pure DP", "Record"), ("persons", "Approximate DP", "Person")]
)
def test_an_entry_of_the_registry_has_its_layout(runs, name, variant, unit):
    said = statement(read_record(runs / name))
    entry = registry_entry(said)
    assert list(entry["deployment"]) == [
        "basic", "dp_variant", "privacy_loss", "deployment_model", "implementation", "administrative",
    ]  # fmt: skip
    assert entry["deployment"]["dp_variant"]["variant_name"] == variant
    loss = entry["deployment"]["privacy_loss"]
    assert loss["privacy_unit"] == f"{unit}-level"
    assert loss["privacy_parameters"]["epsilon"] == float(said["guarantee"]["epsilon"])
    assert ("delta" in loss["privacy_parameters"]) == (variant == "Approximate DP")
    assert entry["deployment"]["administrative"]["status"] == "Draft"
    assert json.loads(json.dumps(entry)) == entry
    # What only a person knows; without it the registry refuses the entry, and names it.
    with pytest.raises(jsonschema.ValidationError, match="publication_date"):
        registered(entry)
    basic = entry["deployment"]["basic"]
    basic |= {"publication_date": "2026-11-01", "data_product_sector": "Healthcare"}
    basic["data_curators"][0]["data_curator_type"] = "Nonprofit"
    registered(entry)
    for part, wrong in (("basic", {"data_product_sector": FILL_IN}), ("privacy_loss", {"unheard_of": "x"})):
        with pytest.raises(jsonschema.ValidationError):
            registered({**entry, "deployment": {**entry["deployment"], part: {**entry["deployment"][part], **wrong}}})


def test_a_simulation_is_not_registered(runs):
    for export in (nist_answers, registry_entry):
        with pytest.raises(InvalidInput, match="is a simulation"):
            export(statement(read_record(runs / "simulated")))


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(each) for each in arguments])
    return stopped.value.code


def test_the_command_writes_every_form_or_refuses_first(runs, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = ("--statement", "s.json", "--nist", "n.md", "--registry", "r.json", "--out", "page.html")
    assert run("report", runs / "pure", *given) == 0
    assert json.loads(Path("s.json").read_text())["format"] == "tacit run statement 1"
    assert Path("n.md").read_text().startswith("# Answers")
    assert json.loads(Path("r.json").read_text())["deployment"]["administrative"]["tier"] == 3
    before = sorted(tmp_path.iterdir())
    for wrong, said in (
        (("pure", "--statement", "s.json"), "exists already"),
        (("pure", "--nist", "n.txt"), "written as .md"),
        (("pure", "--statement", "x.json", "--registry", "x.json"), "the same file"),
        (("pure", "--label", "state"), "give --test, too"),
        (("simulated", "--registry", "x.json", "--out", "x.html"), "is a simulation"),
        (("pure", "--test", "none.csv", "--label", "a", "--out", "x.html"), "none.csv"),
    ):
        assert run("report", runs / wrong[0], *wrong[1:]) == 2
        assert said in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


def test_a_test_part_from_a_file_is_measured(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [f"pixel {place}" for place in range(64)]
    tacit.distill(
        (tacit.core.samples.Named(PARTS.private_samples, tuple(names)), PARTS.private_labels),
        tacit.core.samples.Named(PARTS.public_samples, tuple(names)), 1.0, classes=range(10),
    ).save("named")  # fmt: skip
    rows = [",".join([*names, "digit"])]
    rows += [",".join(map(str, [*sample.tolist(), label])) for sample, label in
             zip(PARTS.test_samples, PARTS.test_labels, strict=True)]  # fmt: skip
    Path("tested.csv").write_text("\n".join(rows) + "\n")
    assert run("report", "named", "--test", "tested.csv", "--label", "digit", "--out", "tested.html") == 0
    page = Path("tested.html").read_text()
    assert "297 samples of tested.csv without" in page
    assert "confusion matrix, one row per true class" in page


def test_a_ledger_has_a_page_and_a_statement_and_stays_as_it_was(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with SqliteLedger.create("main.ledger", {"clinic <b>": Ceiling(3), "idle": Ceiling(1, "1e-6")}) as ledger:
        for _ in range(2):
            tacit.distill(DIGITS, PARTS.public_samples, "0.5", classes=range(10), ledger=ledger, account="clinic <b>")
    before = Path("main.ledger").read_bytes()
    book = read_book(Path("main.ledger"))
    check(ledger_statement(book), "ledger")
    said = ledger_statement(book)["accounts"]
    assert (said["clinic <b>"]["spent_epsilon"], said["clinic <b>"]["left_epsilon"]) == ("1", "2")
    assert (said["idle"]["payments"], said["idle"]["left_epsilon"]) == (0, "1")
    page = ledger_page(book)
    assert "<td>1</td><td>2</td>" in page
    assert "clinic <b>" not in page
    assert "clinic &lt;b&gt;" in page
    assert page.count("<td>reverse k-NN labels</td>") == 2
    assert run("report", "main.ledger") == 0
    assert Path("main.ledger.html").read_text() == page
    assert Path("main.ledger").read_bytes() == before
    assert run("report", "main.ledger", "--nist", "n.md") == 2
    assert "--nist is about a run" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::tacit.core.errors.TacitWarning")
def test_folders_of_images_name_the_true_classes(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image", reason="tacit[images] is not installed")
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(1)
    for place in range(160):
        dark = place % 2
        part = "private" if place < 80 else "public" if place < 130 else "tested"
        home = Path(part, "" if part == "public" else "dark" if dark else "bright")
        home.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 60, (8, 8)) + (0 if dark else 150)
        image.fromarray(pixels.astype(np.uint8)).save(home / f"{place}.png")
    tacit.distill("private", "public", 20, method="rknn", student="logistic", seed=1).save("shapes")
    assert run("report", "shapes", "--test", "tested", "--out", "tested.html") == 0
    assert "30 samples of tested" in Path("tested.html").read_text()
    assert "<b>100.0%</b> are right" in Path("tested.html").read_text()


def test_noise_of_another_library_is_not_called_exact(runs):
    from tacit.methods.noisy_sgd.torch_hidden import OPACUS_NOISE

    said = statement(read_record(runs / "pure"))
    assert "exact integer samplers" in nist_answers(said)
    said["guarantee"]["caveats"] = [OPACUS_NOISE]
    for told in (nist_answers(said), json.dumps(registry_entry(said))):
        assert "exact integer samplers" not in told
        assert "The noise was drawn by Opacus" in told
