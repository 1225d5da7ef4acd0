"""Every method by name: its questions, and the place of the code that answers them at a node.

Tacit's own are listed here. Another package adds a method by an entry point of the group ``tacit.methods`` with the
method's name, which loads a ``Method``. It is not loaded, and its questions are not read, before it is named: by a
coordinator that asks its question, or by a node's operator in the policy. The code that sees records is given as a
string and imported when a node answers, so that this module never imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from tacit.core import InvalidInput, listed, nearest
from tacit.core.options import Options, build, describe
from tacit.methods.class_sums.wire import SumAsk
from tacit.methods.fedmd.wire import Feedback, PartyVoteAsk, PredictAsk
from tacit.methods.noisy_sgd.wire import GradientAsk
from tacit.methods.pate.wire import TeacherAsk
from tacit.methods.private_knn.wire import NeighborAsk
from tacit.methods.privatekt.wire import LabelAsk
from tacit.methods.question import Notice, Question
from tacit.methods.rknn.wire import VoteAsk

__all__ = [
    "AUTO",
    "DEFAULT",
    "GROUP",
    "METHODS",
    "Method",
    "automatic",
    "chosen_method",
    "find_method",
    "known_kinds",
    "method_named",
    "method_of",
    "refuse_masked",
    "require_streams",
]

GROUP = "tacit.methods"
# Arguments of earlier versions, and their replacements.
_MOVED = {
    "announce": "observer=tacit.Observer(plan=...)",
    "stage": "observer=tacit.Observer(stage=...)",
    "progress": "observer=tacit.Observer(progress=...)",
    "person_column": "unit=tacit.Unit.person(column, records)",
    "records_per_person": "unit=tacit.Unit.person(column, records)",
    "alpha": "holders=tacit.Partition(holders, 'dirichlet', alpha)",
    "keep": "checkpoint",
    "ledgers": "ledger",
    "names": "private, a mapping from the holders' names to their records",
}


@dataclass(frozen=True)
class Method:
    """A method: its questions, its notices (messages without an answer), and its code at a node.

    ``node_side`` is ``module:attribute`` of a ``tacit.private.node_side.NodeSide``, ``options`` that of the class of
    its options, and ``prepare`` that of the function from a task and options to a job; a method without them has its
    own coordinator. A method that asks the questions of other methods has no questions and no node side. ``forecast``
    is the place of the function from a task, options and evidence to the expected accuracy
    (``tacit.methods.forecast``); a method without one is not part of ``tacit plan``. ``delta`` is the default δ.
    """

    name: str
    questions: tuple[type[Question], ...]
    node_side: str
    notices: tuple[type[Notice], ...] = ()
    options: str = ""
    prepare: str = ""
    forecast: str = ""
    delta: str = "0"
    over_nodes: tuple[str, ...] = ("local",)  # the trust models over nodes, the default first
    holders_pay: bool = False  # every holder has its own account
    divided: bool = False  # in one process, too, it has several holders
    streams: bool = False  # its tables are computed block by block, so records need not be in memory
    forecast_by_features: bool = False  # its forecast needs public samples, not only how far voters agree
    # One curator has the records, and a larger ε stands for more of them: noise and counts keep their ratio.
    rehearsable: bool = False
    encodes: bool = False  # its holders use records by the question's representation only, so nodes may have raw rows

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise InvalidInput(f"a method's name must be one word of letters, digits and _, got {self.name!r}")
        for kind in self.kinds:
            # The first word of a question's name is its method, so that no package can read another's questions.
            if kind.method != self.name or not kind.name.startswith(f"{self.name}-"):
                raise InvalidInput(f"{kind.__name__} is named {kind.name!r} and belongs to {kind.method!r}")

    @property
    def kinds(self) -> tuple[type[Notice], ...]:
        """All messages from a coordinator to a node."""
        return (*self.questions, *self.notices)

    def trust_over_nodes(self, options: Options) -> str:
        """The trust model over nodes if none is named.

        >>> METHODS["class_sums"].trust_over_nodes(METHODS["class_sums"].load_options()())
        'masked'
        """
        # A method that asks the questions of others has the default of the one that its options name.
        named: str = getattr(options, "trust_over_nodes", self.over_nodes[0])
        return named

    def load_node_side(self) -> Any:  # noqa: ANN401
        """The code that answers the questions: only this imports the private side."""
        if not self.node_side:
            raise InvalidInput(f"method {self.name} asks the questions of other methods: name those")
        return _loaded(self.node_side)

    def load_options(self) -> type[Options]:
        """The class of its options."""
        made: type[Options] = _loaded(self.options)
        return made

    def load_forecast(self) -> Callable[[Any, Any, Any], Any]:
        """The function from a task, options and evidence to the expected accuracy."""
        if not self.forecast:
            raise InvalidInput(f"method {self.name} has no forecast")
        made: Callable[[Any, Any, Any], Any] = _loaded(self.forecast)
        return made

    def load_prepare(self) -> Callable[[Any, Any], Any]:
        """The function from a task and options to a job, which also imports the private side."""
        prepare: Callable[[Any, Any], Any] = _loaded(self.prepare)
        return prepare


def _loaded(place: str) -> Any:  # noqa: ANN401
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def _own(name: str, questions: tuple[type[Question], ...], options: str, forecast: str = "plan", **more: Any) -> Method:  # noqa: ANN401
    home = f"tacit.methods.{name}"
    return Method(
        name, questions, f"{home}.holder:AT_NODE", options=f"{home}.options:{options}",
        prepare=f"{home}.method:prepare", forecast=f"{home}.{forecast}:forecast", **more,
    )  # fmt: skip


# The default method, and the one that it becomes if an option of reverse k-NN votes is given.
AUTO, DEFAULT = "auto", "rknn"
METHODS: Mapping[str, Method] = {
    each.name: each
    for each in (
        _own(
            "rknn",
            (VoteAsk,),
            "ReverseKNN",
            forecast="forecast",
            over_nodes=("local", "masked", "shuffle", "central"),
            streams=True,
            encodes=True,
            rehearsable=True,
        ),
        Method(
            "auto",
            (),
            "",
            options="tacit.methods.auto.options:Auto",
            prepare="tacit.methods.auto.method:prepare",
            forecast="tacit.methods.auto.method:forecast",
            over_nodes=("local", "masked", "shuffle", "central"),
            streams=True,
            encodes=True,
            forecast_by_features=True,
            rehearsable=True,
        ),
        _own(
            "class_sums",
            (SumAsk,),
            "ClassSums",
            over_nodes=("masked", "local", "central"),
            streams=True,
            encodes=True,
            forecast_by_features=True,
            rehearsable=True,
        ),
        _own("privatekt", (LabelAsk,), "PrivateKT", delta="1e-5", holders_pay=True, divided=True),
        _own("fedmd", (PredictAsk, PartyVoteAsk), "FedMD", notices=(Feedback,), holders_pay=True, divided=True),
        _own("pate", (TeacherAsk,), "PATE", over_nodes=("masked", "local"), divided=True),
        _own(
            "noisy_sgd",
            (GradientAsk,),
            "NoisySGD",
            over_nodes=("masked", "local", "central"),
            forecast_by_features=True,
            rehearsable=True,
            encodes=True,
        ),
        _own("private_knn", (NeighborAsk,), "PrivateKNN", forecast_by_features=True, encodes=True),
    )
}


def find_method(name: str) -> Method | None:
    """The method of this name: one of Tacit's own, or one that an installed package adds.

    >>> find_method("rknn").questions, find_method("unheard_of")
    ((<class 'tacit.methods.rknn.wire.VoteAsk'>,), None)
    """
    return METHODS[name] if name in METHODS else _installed(name)


@cache
def _installed(name: str) -> Method | None:
    found = list(entry_points(group=GROUP, name=name))
    if not found:
        return None
    if len(found) > 1:
        raise InvalidInput(f"{len(found)} installed packages add a method {name!r}: uninstall all but one")
    method = found[0].load()
    if not isinstance(method, Method) or method.name != name:
        raise InvalidInput(f"the entry point {name!r} of {GROUP} must load a Method of that name")
    return method


def known_kinds(methods: Iterable[str] = ()) -> dict[str, type[Notice]]:
    """The messages that can be read, by name on the wire: of Tacit's own methods, and of these from other packages.

    >>> sorted(known_kinds())  # doctest: +NORMALIZE_WHITESPACE
    ['class_sums-sums', 'fedmd-feedback', 'fedmd-predictions', 'fedmd-votes', 'noisy_sgd-gradient', 'pate-votes',
     'private_knn-votes',
     'privatekt-labels', 'rknn-votes']
    """
    found = [*METHODS.values(), *(_installed(name) for name in methods if name not in METHODS)]
    return {kind.name: kind for method in found if method is not None for kind in method.kinds}


def method_of(sent: Any) -> Method:  # noqa: ANN401
    """The method of a question or notice.

    >>> method_of("a question?")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: a str is not a question of a known method
    """
    found = find_method(getattr(type(sent), "method", ""))
    if found is None or type(sent) not in found.kinds:
        raise InvalidInput(f"a {type(sent).__name__} is not a question of a known method")
    return found


def method_named(name: str) -> Method:
    """The method of that name, refused unless it can be run by its options.

    >>> method_named("pate").load_options().__name__
    'PATE'
    >>> method_named("pat")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: unknown method 'pat': choose one of rknn, ... did you mean 'pate'?
    """
    found = find_method(name)
    if found is None:
        known = [*METHODS, *sorted({each.name for each in entry_points(group=GROUP)} - METHODS.keys())]
        close = nearest(name, known)
        meant = f"; did you mean {close!r}?" if close else ""
        raise InvalidInput(f"unknown method {listed([name])!r}: choose one of {', '.join(known)}{meant}")
    if not (found.options and found.prepare):
        raise InvalidInput(f"method {name} has no options and no prepare: it is run by its own coordinator only")
    return found


def require_streams(method: Method) -> None:
    """Refuse a method that needs records in memory, if they are streamed.

    >>> require_streams(METHODS["pate"])
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: pate needs all records in memory; methods that read a record source are auto, \
class_sums, rknn. Nothing was charged
    """
    if not method.streams:
        known = sorted(each.name for each in METHODS.values() if each.streams)
        raise InvalidInput(
            f"{method.name} needs all records in memory; methods that read a record source are {', '.join(known)}. "
            "Nothing was charged"
        )


def refuse_masked(method: Method, trust: str | None) -> None:
    """Refuse secure aggregation in one process, and say how it is asked for.

    >>> refuse_masked(METHODS["pate"], "central")
    >>> refuse_masked(METHODS["pate"], "masked")
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: trust masked is secure aggregation over nodes: give exchange=tacit.Nodes(...)
    """
    if trust != "masked":
        return
    sums = [each.name for each in METHODS.values() if "masked" in each.over_nodes]
    other = "" if "masked" in method.over_nodes else f", and a method that has it: {', '.join(sums)}"
    raise InvalidInput(f"trust masked is secure aggregation over nodes: give exchange=tacit.Nodes(...){other}")


def automatic(given: Iterable[str]) -> str:
    """The method that ``auto`` means with these options: its own plan, or reverse k-NN votes.

    An option that only ``auto`` has selects ``auto``.

    >>> automatic([]), automatic(["queries"]), automatic(["queries", "releases"])
    ('auto', 'rknn', 'auto')
    """
    known, votes = ({each.name for each in describe(METHODS[name].load_options())} for name in (AUTO, DEFAULT))
    return AUTO if known.issuperset(given) or not (known - votes).isdisjoint(given) else DEFAULT


def chosen_method(method: str | Options, given: Mapping[str, Any]) -> tuple[Method, Options]:
    """The method and its options, from a name and options, or from an options object.

    >>> chosen_method("rknn", {"neighbors": 2})[1].neighbors
    2
    >>> chosen_method("rknn", {"stage": print})
    Traceback (most recent call last):
        ...
    tacit.core.errors.InvalidInput: stage is given as observer=tacit.Observer(stage=...) now
    """
    if isinstance(method, str):
        found = method_named(automatic(given) if method == AUTO else method)
        options = found.load_options()
        for moved in _MOVED.keys() & given.keys() - options.renamed.keys():
            raise InvalidInput(f"{moved} is given as {_MOVED[moved]} now")
        return found, build(options, given)
    name = getattr(type(method), "name", None)
    known = find_method(name) if isinstance(name, str) else None
    if known is None or not known.options or not isinstance(method, known.load_options()):
        raise InvalidInput(
            f"method must be auto, one of {', '.join(METHODS)}, or an options object such as tacit.ReverseKNN(); "
            f"got {method!r}"
        )
    if given:
        raise InvalidInput(f"{', '.join(given)}: give the options in the method object")
    return known, method
