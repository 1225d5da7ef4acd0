"""Words that the project does not use, with the one to use instead: in code, help, messages and pages."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FORBIDDEN = {
    r"so many": "a number, or 'this many'",
    r"shar(e|es|ed|ing) out": "partition, or iterative proportional fitting",
    r"pupils?": "student",
    r"learners?": "student, or trainer",
    r"crowds?": "one-record holders",
    r"askers?": "coordinator",
    r"envelopes?|letter": "message, request, response",
    r"sites": "holder, or node",
    r"hubs?": "coordinator, or a folder's name",
    r"offices?": "collector, or store",
    r"labell(ed|ing)|colou(r|red|rs)|neighbours?|behaviours?|centres?|grey": "the American spelling",
    r"complaints?": "error, or error message",
    r"in earnest": "in production",
    r"(the|every|which|its|one) doors?": "step of a protocol, allowed mechanisms, or socket",
    r"turn(s|ed|ing)? away": "reject",
    r"whose each is": "the owner of each",
    r"is '?\w+'? meant": "did you mean",
    r"shuffled model": "shuffle model",
    r"in words alone": "only described",
    r"(travel|cancel|model|signal)l(ed|ing)|catalogues?|licences?|analysed?|judgements?|artefacts?": "US spelling",
    r"(standard|normal|random|optim|organ|recogn|serial|summar|initial|general)is(e|es|ed|ing|ation)": "-ize",
    r"in any company": "independent of other samples",
    r"let(s|ting)? go": "close, release, or return",
    r"so often|so long a": "a number, or 'how long'",
    r"the whole of it|what follows from|is told how": "say what it is",
    # One label per query, not one label a query.
    r"(one|two|three|five|ten|[0-9]+) (labels?|votes?|messages?|records?|bytes?|bits?|samples?|pixels|calls?|times"
    r"|questions?|queries|rounds?|answers?|seconds?) an? (query|record|round|side|class|holder|node|second|minute|day"
    r"|message|sample|person|cell|label|row|step|batch)(?! [a-z]+s )": "per",
}
# Where a word means something else, or stands in a format that other versions read.
ALLOWED = {
    "src/tacit/federation/collector/messages.py": ("tacit envelope",),  # what signatures cover
    "src/tacit/federation/flower/server.py": (
        '"tacit", "letter"',
        '["tacit"]["letter"]',
    ),  # a field of Flower's messages
    "src/tacit/cli/init.py": ("center|centre",),  # names that columns may have
    "src/tacit/runs/estimator.py": ("neighbours",),  # a mistyped name
    "src/tacit/datasets/published.py": ("letter",),  # of a published split, one per sample
    "src/tacit/methods/task.py": ("'sites'", '"sites"'),  # the old name, which the error tells
    "src/tacit/runs/federation.py": ("'sites'", '"sites"'),
    "docs/migration.md": ("sites", "SITES"),
    "src/tacit/representations/registry.py": ('"standardised"',),  # the old name, which files contain
}
FILES = sorted(
    [
        *ROOT.glob("src/tacit/**/*.py"),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("docs/*/*.md"),
    ]
)


# One expression for all: each file is read once.
_ANY = re.compile("|".join(rf"(?<![\w`])(?:{pattern})(?!\w)" for pattern in FORBIDDEN), re.IGNORECASE)


def found(text, allowed=()):
    """The forbidden words in a text, with their lines and the words to use."""
    for each in allowed:
        text = text.replace(each, "")
    hits = []
    for hit in _ANY.finditer(text):
        instead = next(word for pattern, word in FORBIDDEN.items() if re.fullmatch(pattern, hit[0], re.IGNORECASE))
        hits.append(f"line {text.count(chr(10), 0, hit.start()) + 1}: {hit[0]!r}, write {instead}")
    return hits


def test_no_forbidden_word_is_used():
    wrong = {}
    for file in FILES:
        name = file.relative_to(ROOT).as_posix()
        # Tables that a command wrote keep the words of the day.
        if not name.startswith("docs/results/") and (
            hits := found(file.read_text(encoding="utf-8"), ALLOWED.get(name, ()))
        ):
            wrong[name] = hits
    assert not wrong


def test_every_exception_is_needed():
    for name, allowed in ALLOWED.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        for each in allowed:
            assert each in text, (name, each)
        assert found(text), name


@pytest.mark.parametrize(
    "text",
    [
        "so many holders",
        "one label a query",
        "96 pixels a side",
        "the asker chose",
        "labelled",
        "shared out",
        "every complaint names the row",
        "in earnest people do this",
        "what may go through each of the doors",
        "strangers are turned away",
        "is 'label' meant?",
        "samples, and whose each is",
        "standardised",
        "travelling",
    ],
)
def test_a_forbidden_word_is_found(text):
    assert found(text)


@pytest.mark.parametrize(
    "text",
    [
        "this many holders",
        "one label per query",
        "how many queries a record votes for",
        "colored",
        "the message of a node",
    ],
)
def test_other_words_are_not(text):
    assert not found(text)
