"""The questions of every method, field by field: how each is written down, and how it is read and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from tacit.core.errors import InvalidInput
from tacit.exchange.fields import Fields, packed
from tacit.exchange.portable_mechanisms import mechanism_fields, read_mechanism
from tacit.exchange.portable_representations import read_representation, representation_fields
from tacit.mechanisms.local.answer_sheet import AnswerSheet
from tacit.methods.fedmd.form import KINDS, Form
from tacit.methods.fedmd.wire import Feedback, PredictAsk
from tacit.methods.fedmd.wire import VoteAsk as PartyVoteAsk
from tacit.methods.pate.wire import TeacherAsk
from tacit.methods.privatekt.wire import LabelAsk
from tacit.methods.rknn.connections import CONNECTIONS
from tacit.methods.rknn.wire import VoteAsk

__all__ = ["ASKS", "ASK_BYTES"]

# The most that a question may take; who reads one may allow less.
ASK_BYTES = 256 * 2**20
MOST_CLASSES = 100_000
MOST_QUERIES = 10**6
MOST_HOLDERS = 10**7
# A short question must not make a holder count votes in a table that fills its memory.
MOST_CELLS = 2 * 10**7
NARROW = ("<f4",)
INTEGERS = ("<i8",)
# Features and targets: beyond this squares of differences are not finite any more.
LARGEST_VALUE = 1e18
SAMPLE_TYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")


def _wordings(ask: Any) -> dict[str, str]:  # noqa: ANN401
    return {"purpose": ask.purpose, "request": ask.request}


def _worded(fields: Fields) -> dict[str, str]:
    return {"purpose": fields.text("purpose"), "request": fields.text("request")}


def _points(fields: Fields, name: str) -> NDArray[Any]:
    found = fields.array(name, NARROW, (None, None), -LARGEST_VALUE, LARGEST_VALUE)
    if not found.size or len(found) > MOST_QUERIES:
        raise InvalidInput(f"the {fields.what}'s {name} must be from 1 to {MOST_QUERIES} points")
    return found


def _samples(fields: Fields) -> NDArray[Any]:
    found = fields.array("samples", SAMPLE_TYPES)
    if not 2 <= found.ndim <= 4 or not found.size:
        raise InvalidInput(f"the {fields.what}'s samples must be one row or image a sample")
    return found


def _require_small(fields: Fields, rows: int, columns: int) -> None:
    if rows * columns > MOST_CELLS:
        raise InvalidInput(f"the {fields.what} must be about a table of at most {MOST_CELLS} cells")


def _rknn_fields(ask: VoteAsk) -> dict[str, Any]:
    return {
        "queries": ask.queries,
        "representation": representation_fields(ask.representation),
        "neighbors": ask.neighbors,
        "names": list(ask.names),
        "space": ask.space,
        "mechanism": mechanism_fields(ask.mechanism),
        "heights": ask.heights,
        "labels": ask.labels,
        "connections": ask.connections,
        **_wordings(ask),
    }


def _rknn(fields: Fields) -> VoteAsk:
    queries = _points(fields, "queries")
    names = fields.texts("names", MOST_CLASSES)
    _require_small(fields, len(queries), 2 * len(names))
    return VoteAsk(
        queries=queries,
        representation=read_representation(fields.nested("representation")),
        neighbors=fields.integer("neighbors", 1, len(queries)),
        names=names,
        space=fields.text("space"),
        mechanism=read_mechanism(fields.nested("mechanism")),
        heights=None
        if fields.missing("heights")
        else fields.array("heights", NARROW, (len(queries),), 0, LARGEST_VALUE),
        labels=None if fields.missing("labels") else fields.integer("labels", 1, MOST_CLASSES),
        connections=fields.one_of("connections", CONNECTIONS),
        **_worded(fields),
    )


def _privatekt_fields(ask: LabelAsk) -> dict[str, Any]:
    return {
        "samples": ask.samples,
        "weights": None if ask.weights is None else packed(ask.weights),
        "sheet": mechanism_fields(ask.sheet),
        "invited": list(ask.invited),
        **_wordings(ask),
    }


def _privatekt(fields: Fields) -> LabelAsk:
    sheet = read_mechanism(fields.nested("sheet"))
    if not isinstance(sheet, AnswerSheet):
        raise InvalidInput(f"the {fields.what}'s sheet must be an answer sheet")
    return LabelAsk(
        samples=_samples(fields),
        weights=None if fields.missing("weights") else fields.content("weights", ASK_BYTES),
        sheet=sheet,
        invited=fields.integers("invited", MOST_HOLDERS, 0, MOST_HOLDERS),
        **_worded(fields),
    )


def _feedback_fields(feedback: Feedback) -> dict[str, Any]:
    return {
        "round": feedback.round,
        "rows": feedback.rows,
        "targets": feedback.targets,
        "logits": feedback.logits,
    }


def _rows(fields: Fields) -> NDArray[Any]:
    return fields.array("rows", INTEGERS, (None,), 0, MOST_QUERIES)


def _feedback(fields: Fields) -> Feedback:
    rows = _rows(fields)
    targets = fields.array("targets", NARROW, (len(rows), None), -LARGEST_VALUE, LARGEST_VALUE)
    return Feedback(fields.integer("round", 0, MOST_QUERIES), rows, targets, fields.flag("logits"))


def _predict_fields(ask: PredictAsk) -> dict[str, Any]:
    form = ask.form
    return {
        "round": ask.round,
        "rows": ask.rows,
        "form": {"kind": form.kind, "classes": form.classes, "grid": form.grid, "bound": form.bound},
        "mechanism": None if ask.mechanism is None else mechanism_fields(ask.mechanism),
        "public": ask.public,
        "feedback": None if ask.feedback is None else _feedback_fields(ask.feedback),
        **_wordings(ask),
    }


def _predict(fields: Fields) -> PredictAsk:
    form = fields.nested("form")
    shaped = Form(
        form.one_of("kind", KINDS),
        form.integer("classes", 2, MOST_CLASSES),
        form.integer("grid", 1, 10**6),
        form.integer("bound", 1, 1000),
    )
    form.done()
    feedback = None
    if not fields.missing("feedback"):
        inner = fields.nested("feedback")
        feedback = _feedback(inner)
        inner.done()
    rows = _rows(fields)
    _require_small(fields, len(rows), shaped.classes)
    return PredictAsk(
        round=fields.integer("round", 0, MOST_QUERIES),
        rows=rows,
        form=shaped,
        mechanism=None if fields.missing("mechanism") else read_mechanism(fields.nested("mechanism")),
        public=fields.digest("public"),
        feedback=feedback,
        **_worded(fields),
    )


def _party_votes_fields(ask: PartyVoteAsk) -> dict[str, Any]:
    return {
        "queries": ask.queries,
        "representation": representation_fields(ask.representation),
        "classes": ask.classes,
        "mechanism": mechanism_fields(ask.mechanism),
        "public": ask.public,
        **_wordings(ask),
    }


def _party_votes(fields: Fields) -> PartyVoteAsk:
    queries, classes = _points(fields, "queries"), fields.integer("classes", 2, MOST_CLASSES)
    _require_small(fields, len(queries), classes)
    return PartyVoteAsk(
        queries=queries,
        representation=read_representation(fields.nested("representation")),
        classes=classes,
        mechanism=read_mechanism(fields.nested("mechanism")),
        public=fields.digest("public"),
        **_worded(fields),
    )


def _teacher_fields(ask: TeacherAsk) -> dict[str, Any]:
    return {
        "samples": ask.samples,
        "names": list(ask.names),
        "mechanism": mechanism_fields(ask.mechanism),
        **_wordings(ask),
    }


def _teacher(fields: Fields) -> TeacherAsk:
    samples, names = _samples(fields), fields.texts("names", MOST_CLASSES)
    _require_small(fields, len(samples), len(names))
    return TeacherAsk(
        samples=samples,
        names=names,
        mechanism=read_mechanism(fields.nested("mechanism")),
        **_worded(fields),
    )


ASKS: Mapping[str, tuple[type, Callable[[Any], dict[str, Any]], Callable[[Fields], Any]]] = {
    "rknn-votes": (VoteAsk, _rknn_fields, _rknn),
    "privatekt-labels": (LabelAsk, _privatekt_fields, _privatekt),
    "fedmd-predictions": (PredictAsk, _predict_fields, _predict),
    "fedmd-votes": (PartyVoteAsk, _party_votes_fields, _party_votes),
    "fedmd-feedback": (Feedback, _feedback_fields, _feedback),
    "pate-votes": (TeacherAsk, _teacher_fields, _teacher),
}
