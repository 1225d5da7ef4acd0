"""A run's statement in the forms that others ask for: NIST's questions, an entry of the public registry, MLflow.

What a run cannot know, such as who published it and why, is marked as to be filled in by a person. A simulation, or a
variant without differential privacy, has nothing to say in the first two and is refused. MLflow is an optional extra: a
run's parameters, figures, privacy statement, and what may be shared.
"""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from tacit.core import InvalidInput, TacitError
from tacit.core.errors import plural
from tacit.core.guarantee import TRUST_IN_WORDS, Guarantee, Trust
from tacit.methods.noisy_sgd.torch_hidden import OPACUS_NOISE
from tacit.report.card import NOT_COVERED, model_card, plain_text, statement
from tacit.runs.folders import Record, read_record
from tacit.students.registry import TYPES

__all__ = ["FILL_IN", "log_to_mlflow", "nist_answers", "registry_entry"]

FILL_IN = "To be filled in"
# The registry's words; it has none for sums under masks.
_MODELS = {
    Trust.CENTRAL: "Central", Trust.MASKED: "Central", Trust.LOCAL: "Local", Trust.SHUFFLE: "Shuffle",
}  # fmt: skip
_SAMPLING = (
    "Noise is drawn by exact integer samplers from the operating system's cryptographic generator; floating point "
    "filters and never decides, so that no low-order bit of a number depends on a record."
)
_PAID_FIRST = (
    "Every release goes through one gate that charges a ledger first; a repeated request gets the release that it paid "
    "for. The claim is computed from the receipts and checked against them whenever the run is read."
)


def _sampling(claim: Mapping[str, Any]) -> str:
    """How noise was drawn: exactly, unless a caveat says otherwise."""
    return f"{OPACUS_NOISE[0].upper()}{OPACUS_NOISE[1:]}." if OPACUS_NOISE in claim["caveats"] else _SAMPLING


def nist_answers(said: dict[str, Any]) -> str:
    """Answers to the questions of NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees.

    The order is that of its pyramid, from the guarantee down to how the data are held.
    """
    claim = _claim(said)
    recipe, epsilon = said["recipe"], float(claim["epsilon"])
    asked = [
        ("The guarantee", [
            ("Which definition of differential privacy is met?",
             "Pure differential privacy." if claim["delta"] == "0" else "Approximate (ε, δ) differential privacy."),
            ("What are the privacy parameters?",
             f"ε = {claim['epsilon']}, δ = {claim['delta']}, by {claim['accountant']}. Odds of any belief about one "
             f"unit grow by a factor of at most {math.exp(min(epsilon, 700)):.3g}"
             + ("." if claim["delta"] == "0" else " for δ = 0; probabilities of outcomes may differ by δ more.")),
            ("What is the unit of privacy, and which data sets are neighbors?",
             f"{claim['unit']['in_words']}; {claim['adjacency']} adjacency."),
            ("How are several releases composed?",
             f"What this run paid, {_payments(said)}, is composed by {claim['accountant']}. "
             "What else is released about the same records adds to it; a ledger with a ceiling per account keeps "
             "count."),
            ("Is access interactive or not?", "Not interactive: labels of public samples and a student are released."),
        ]),
        ("The algorithm", [
            ("Which mechanisms are used, and what do they release?",
             f"Method {said['method']}: {_mechanisms(said)}. {recipe.get('why', '')}".strip()),
            ("What are the scale of the noise and the sensitivity?", _spends(said)),
            ("What was computed outside the budget?",
             "Nothing from the records but what the caveats below name. Choices were made from public figures: the "
             "number of records under replace-one adjacency, the classes, and public samples, which are "
             f"{claim['public_data']}."),
            ("Was anything tuned on the records?",
             "Not by this run. Earlier runs on the same records add their cost."),
            ("What weakens the guarantee?", "; ".join(claim["caveats"]) or "Nothing known to this run."),
        ]),
        ("Utility and bias", [
            ("How useful is the result?", _metrics(said)),
            ("Who may be served worse?",
             "Noise hides small groups more than large ones: classes with few records get fewer and less certain "
             f"labels. Labels per class: {_labels(said)}."),
        ]),
        ("Implementation and security", [
            ("How is the noise sampled?", _sampling(claim)),
            ("How is the accounting enforced?", _PAID_FIRST),
            ("Are there side channels?",
             "Errors and refusals do not depend on a record. The duration of a run may, so only that of steps that see "
             "no record is recorded; whoever "
             "can time the process must be trusted."),
            ("How was the implementation tested?",
             "Exact laws on small domains, frozen draws, audits, and single-line mutants that tests must find; see the "
             "documentation of Tacit " + str(said["versions"].get("tacit", "")) + "."),
        ]),
        ("Trust and data", [
            ("What is the trust model?", TRUST_IN_WORDS[Trust(claim["trust"])] + "."),
            ("Who collected the data, with whose consent, and who can reach them?", FILL_IN + "."),
            ("How are the data held and deleted?", FILL_IN + "."),
            ("What is not protected?", " ".join(NOT_COVERED)),
        ]),
    ]  # fmt: skip
    lines = [
        "# Answers to the questions of NIST SP 800-226",
        "",
        f'About a run of Tacit {said["versions"].get("tacit", "")}. Where it says "{FILL_IN}", the software cannot '
        "know the answer.",
    ]
    for title, questions in asked:
        lines += ["", f"## {title}"]
        for question, answer in questions:
            lines += ["", f"**{question}**", "", plain_text(_sentence(answer))]
    return "\n".join(lines) + "\n"


def registry_entry(said: dict[str, Any]) -> dict[str, Any]:
    """A draft for the public registry of differential privacy deployments, in the layout of its entries.

    JSON is YAML, in which the registry keeps its entries. It allows no other keys, so those whose value is a date or a
    word of a list that only a person knows are left out: publication_date, data_product_sector, data_curator_type.
    """
    claim, recipe = _claim(said), said["recipe"]
    pure = claim["delta"] == "0"
    parameters = {"epsilon": float(claim["epsilon"])} | ({} if pure else {"delta": float(claim["delta"])})
    unit = claim["unit"]
    return {
        "url_slug": "to-be-filled-in",
        "deployment": {
            "basic": {
                "name": FILL_IN,
                "data_curators": [{"data_curator_name": FILL_IN}],
                "description": (
                    f"A classifier ({said['student']['kind']}) and the labels of {said['public_samples']} public "
                    f"samples, distilled from private records by the method {said['method']} of Tacit."
                ),
                "intended_use": FILL_IN,
                "data_product_type": "Machine learning model",
                "data_product_region": FILL_IN,
            },
            "dp_variant": {
                "variant_name": "Pure DP" if pure else "Approximate DP",
                "data_domain": f"{recipe.get('features')} features and one of {len(said['labels'])} classes per record",
                "unprotected_quantities": " ".join(NOT_COVERED),
            },
            "privacy_loss": {
                "privacy_unit": "Holder-level" if unit["holder"] else "Record-level" if unit["column"] is None else
                "Person-level",
                "privacy_unit_details": f"{unit['in_words']}; {claim['adjacency']} adjacency.",
                "privacy_parameters": parameters,
                "privacy_parameters_details": f"Proven by {claim['accountant']} from the receipts of this run.",
            },
            "deployment_model": {
                "model_name": _MODELS[Trust(claim["trust"])],
                "model_name_details": f"Trust model {claim['trust']}: {TRUST_IN_WORDS[Trust(claim['trust'])]}.",
                "actors": FILL_IN,
                "release_type": "One release",
                "release_type_details": "This run alone; what else is released about the same records adds to it.",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
                "access_type_details": "Labels and a student are files; nobody asks the records again.",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": (
                    "Representation, encoding and all choices come from public samples. " + "; ".join(claim["caveats"])
                ).strip(),
                "mechanisms": f"{_mechanisms(said)}. {_spends(said)} {_sampling(claim)} Made with {_versions(said)}.",
                "composition": f"{claim['accountant']} over {_payments(said)}. {_PAID_FIRST}",
                "post_processing": "Reading labels from answers, propagation to public samples, training the student.",
                "justification": f"{_sentence(str(recipe.get('why', FILL_IN)))} {_metrics(said)}",
            },
            "administrative": {
                "sources": FILL_IN,
                "status": "Draft",
                "registry_authors": [FILL_IN],
                "tier": 3,
            },
        },
    }  # fmt: skip


def _claim(said: dict[str, Any]) -> dict[str, Any]:
    if said["simulation"] or not said["differential_privacy"]:
        why = "is a simulation" if said["simulation"] else "has no guarantee of differential privacy"
        raise InvalidInput(f"this run {why}: it has no guarantee to report or register")
    claim: dict[str, Any] = said["guarantee"]
    return claim


def _sentence(words: str) -> str:
    """A sentence that begins with a capital and ends with a period; a Greek character stays as it is."""
    first = words[:1].upper() if words[:1].isascii() else words[:1]
    return first + words[1:].rstrip(".") + "."


def _spends(said: dict[str, Any]) -> str:
    kinds: dict[str, int] = {}
    for each in said["payments"]:
        told = ", ".join(f"{name} {value}" for name, value in each["spend"].items())
        kinds[f"{each['purpose']} ({told})"] = kinds.get(f"{each['purpose']} ({told})", 0) + 1
    shown = [f"{count} × {what}" if count > 1 else what for what, count in list(kinds.items())[:10]]
    recipe = said["recipe"]
    laws = [f"Noise on each released number{where}: {each['noise']}." for where, each in _each_release(recipe)
            if "noise" in each]  # fmt: skip
    moves = [f"Sensitivity{where}: {each['sensitivity']}." for where, each in _each_release(recipe)
             if "sensitivity" in each]  # fmt: skip
    return " ".join(["Payments: " + "; ".join(shown) + ".", *dict.fromkeys(laws), *dict.fromkeys(moves)])


def _each_release(recipe: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """What is recorded about the noise of each release: of the default's questions, or of a method's one kind."""
    released = recipe.get("released")
    return [(f" of {each['what']}", each) for each in released] if released else [("", recipe)]


def _mechanisms(said: dict[str, Any]) -> str:
    recipe = said["recipe"]
    named = [f"{each['what']} by {each.get('mechanism')}" for each in recipe.get("released") or ()]
    if named:
        return "; then ".join(dict.fromkeys(named))
    purposes = dict.fromkeys(f"{each['purpose']} by {each['spend']['kind']} noise" for each in said["payments"])
    return f"mechanism {recipe['mechanism']}" if "mechanism" in recipe else "; ".join(list(purposes)[:10])


def _payments(said: dict[str, Any]) -> str:
    return plural(len(said["payments"]), "payment")


def _metrics(said: dict[str, Any]) -> str:
    measured = {name: value for name, value in said["metrics"].items() if isinstance(value, int | float | list)}
    if not measured:
        return "Nothing was measured in this run: measure the student on samples with known labels."
    return "Measured: " + "; ".join(f"{name} {str(value)[:80]}" for name, value in list(measured.items())[:10]) + "."


def _labels(said: dict[str, Any]) -> str:
    counts = said["labels"]
    more = f" and {len(counts) - 20} more" if len(counts) > 20 else ""
    return ", ".join(f"{name[:40]} {count}" for name, count in list(counts.items())[:20]) + more


def _versions(said: dict[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in said["versions"].items())


# As long as a parameter's value may be there.
_LONGEST = 500


def log_to_mlflow(folder: str | Path, experiment: str = "tacit") -> str:
    """Log a run folder as one run of an MLflow experiment, and return its id there.

    Parameters are the method and every public choice, metrics the ε and δ that were spent, how many labels and what
    was measured. Artifacts are the statement, the model card, the labels and the student. What was computed from
    records without noise stays in the run folder, and so do the names of private files.

    >>> log_to_mlflow("no-such-run")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: no-such-run: not a run folder, it has no run.json
    """
    record = read_record(folder)
    said = statement(record)
    try:
        mlflow = import_module("mlflow")
    except ModuleNotFoundError:
        raise InvalidInput("logging to MLflow needs an extra: pip install 'tacit[mlflow]'") from None
    try:
        return _logged(mlflow, experiment, record, said)
    except Exception as error:
        # MLflow's own exceptions, its database's and its network's: they have no common base.
        reason = " ".join(str(error).split())[:_LONGEST]
        raise TacitError(f"MLflow did not accept the run, which is whole in {record.folder}: {reason}") from error


def _logged(mlflow: Any, experiment: str, record: Record, said: dict[str, Any]) -> str:  # noqa: ANN401
    mlflow.set_experiment(experiment)
    with mlflow.start_run(run_name=record.folder.name) as started:
        mlflow.log_params(dict(_flat({"method": said["method"], "trust": said["trust"], "recipe": said["recipe"]})))
        mlflow.log_metrics(_figures(said, record.claim))
        mlflow.set_tags({
            "tacit.simulation": str(said["simulation"]).lower(),
            "tacit.differential_privacy": str(said["differential_privacy"]).lower(),
            "tacit.statement": str(record.claim)[:_LONGEST],
        })  # fmt: skip
        mlflow.log_text(json.dumps(said, indent=2, ensure_ascii=False) + "\n", "statement.json")
        kind = record.student.suffix.removeprefix(".")
        mlflow.log_text(model_card(said, kind, record.student.name, TYPES), "MODEL_CARD.md")
        for file in (record.folder / "labels.csv", record.student, record.encoder):
            if file is not None and file.is_file():
                mlflow.log_artifact(str(file))
    found: str = started.info.run_id
    return found


def _figures(said: Mapping[str, Any], claim: Any) -> dict[str, float]:  # noqa: ANN401
    """The numbers of a run."""
    found = {"public_samples": float(said["public_samples"]), "delta": float(claim.delta)}
    if isinstance(claim, Guarantee):
        found["epsilon"] = float(claim.epsilon)
    for name, value in said["metrics"].items():
        last = value[-1] if isinstance(value, list) and value else value
        if isinstance(last, numbers.Real) and not isinstance(last, bool):
            found[str(name).replace(" ", "_")] = float(last)
    return found


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Nested values under one name each.

    >>> dict(_flat({"recipe": {"options": {"queries": 40}}}))
    {'recipe.options.queries': '40'}
    """
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", str(value)[:_LONGEST]
