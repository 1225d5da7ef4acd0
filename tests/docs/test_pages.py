"""Every block of every page runs as it is shown, top to bottom; what takes too long is looked up by name and option."""

import importlib
import json
import re
import runpy
import shlex

import pytest

from tests.docs.pages import DOCS, NOT_RUN, PAGES, ROOT, blocks, look_up, not_run, run_page

# The optional packages that a page's blocks use.
NEEDS = {
    "docs/guide-images.md": ("PIL",),
    "docs/devices.md": ("cryptography", "starlette"),
    "docs/guide-federation.md": ("flwr", "cryptography"),
    "docs/examples/index.md": ("PIL", "pandas", "cryptography"),
    "docs/using-a-run.md": ("pyarrow", "onnxruntime", "skl2onnx"),
}
EVERY_PAGE = sorted(
    page.relative_to(ROOT).as_posix()
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md"))
    if page.parent.name != "results"
)
# Groups of entry points, and the names of formats.
GROUPS = {f"tacit.{kind}" for kind in ("ledgers", "mechanisms", "methods", "representations", "students")}
FORMATS = {"tacit run statement 1", "tacit ledger statement 1"}
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
# Names that pages mention because they were: what they are now stands beside them.
PAST = {"docs/migration.md", "docs/decisions/0001-foundations.md"}


# The README has its own test, which walks it and looks at what it made.
@pytest.mark.parametrize("page", [page for page in PAGES if page != "README.md" and blocks(page)])
def test_the_page_runs_as_it_is_shown(page, tmp_path, monkeypatch):
    for package in NEEDS.get(page, ()):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TACIT_STATE", str(tmp_path / "state"))
    if not page.startswith("docs/guide-t"):
        runpy.run_path(str(DOCS / "examples" / "files.py"))  # what 'five minutes' makes; guides of data make their own
    run_page(page, tmp_path)


def test_every_exception_is_met_on_a_page():
    """A list of what is not run that names what no page has would hide what it is for."""
    shown = [words for page in PAGES for block in blocks(page) if block.language == "sh" for words in block.commands]
    inline = [code.split() for page in EVERY_PAGE for code in CODE.findall((ROOT / page).read_text())]
    for each in NOT_RUN:
        assert any(" ".join(words).startswith(each) for words in (*shown, *inline)), each
    run = [words for words in shown if not not_run(words)]
    assert len(run) > 30


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_every_command_and_name_in_the_text_is_there(page):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    for code in CODE.findall(text):
        if re.match(r"(tacit|make|python|pip|node|flwr|flower-superlink) [a-z-]", code) and code not in FORMATS:
            look_up([each for each in shlex.split(code.partition(" && ")[0]) if each != "..."])
        name = code.partition("(")[0]
        if page not in PAST and re.fullmatch(r"tacit(\.\w+)+", name) and name not in GROUPS:
            assert is_there(name), f"{page}: {code}"


def modules(cell: str) -> list[str]:
    """The modules that a cell of the migration page names: one without its package is beside the one before it."""
    found: list[str] = []
    for clause in cell.split(";"):
        # "`nearest` is in `core.errors`" names one module.
        for name in CODE.findall(clause)[-1 if " in " in clause else None :]:
            package = found[-1].split(".") if found else []
            places = [".".join([*package[:length], name]) for length in range(len(package))]
            found.append(next((each for each in (*places[::-1], name) if is_module(each)), name))
    return found


def is_module(name: str) -> bool:
    place = ROOT / "src" / "tacit" / name.replace(".", "/")
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


def test_the_migration_page_names_modules_that_are_gone_and_modules_that_are_there():
    page = (DOCS / "migration.md").read_text()
    table = page.split("| were | are |\n|---|---|\n")[1].split("\n\n")[0]
    assert len(table.splitlines()) > 15
    for row in table.splitlines():
        were, are = row.strip("| ").split(" | ")
        assert all(map(is_module, modules(are))), f"{are}: {[each for each in modules(are) if not is_module(each)]}"
        still = [each for each in modules(were) if is_module(each)]
        assert not still, f"{were}: {still} is there"


def is_there(name: str) -> bool:
    """Whether a dotted name can be imported."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_every_file_in_the_text_is_there(page):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    for code in CODE.findall(text):
        found = re.fullmatch(r"([a-z_]+)/[\w/-]+\.(?:py|md)", code)
        if found and page not in PAST:
            places = [place for place in (ROOT, ROOT / "src" / "tacit", DOCS) if (place / found[1]).is_dir()]
            assert any((place / code).is_file() for place in places), f"{page}: {code}"


@pytest.mark.parametrize("page", [page for page in EVERY_PAGE if "/decisions/" not in page])
def test_a_page_begins_with_the_reader_s_question(page):
    if page in ("README.md", "CONTRIBUTING.md"):
        return
    _, _, text = (ROOT / page).read_text(encoding="utf-8").partition("\n\n")
    question = re.match(r"\*([^*]+)\*", text)
    assert question, f"{page} begins with a question in italics"
    assert "?" in question[1], page


@pytest.mark.parametrize(
    "wrong",
    ["pip install 'tacit[no-such-extra]'", "node clients/no-such.mjs",
     "node clients/javascript/tacit-device.mjs no-such-word", "make no-such-target", "tacit no-such"],
)  # fmt: skip
def test_what_is_only_looked_up_is_there(wrong):
    with pytest.raises(AssertionError):
        look_up(shlex.split(wrong))


def test_the_table_of_forecasts_is_complete_and_measured():
    """Every row of the results, rounded; benchmarks/forecasts.py writes both."""
    totals = json.loads((DOCS / "results/forecasts.json").read_text())["totals"]
    page = (DOCS / "plan.md").read_text()
    assert len(totals) >= 8
    for name, row in totals.items():
        figures = f"{row['covered']:.0%} | {100 * row['width']:.0f} | {100 * row['off']:.0f}"
        assert f"| {name} | {figures} |" in page, name
