"""The fleet at its coordinator: what nodes have told, and no more than that."""

import json
import re

import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")

from tacit.cli import main
from tacit.cli.federation_setup import new_coordinator, new_node
from tacit.datasets.published import digits
from tacit.federation.coordinator import RoundStatus
from tacit.federation.members import add_member, remove_member
from tacit.federation.messages import RefusalReason, ToldBudget
from tacit.runs.federation import JobProgress
from tacit.runs.fleet import read_fleet
from tests.federation.federation import CLASSES, federated, nodes

# Rounds whose budgets and reasons are none.
ODD = (
    '{"state": "", "message": "", "rounds": [{"asked": [], "answered": [], "dropped": {}, "budgets": {"south": 1}}, '
    '{"asked": ["gone"], "answered": [], "dropped": {"gone": ""}, "reasons": {"gone": "<i>"}}, '
    '{"asked": ["gone"], "answered": [], "dropped": {"gone": ""}, "reasons": {"gone": ["budget"]}}, '
    '{"asked": ["gone"], "answered": [], "dropped": {"gone": ""}, "reasons": 3}]}'
)
NAMES = ("site 0", "site 1", "south", "gone")


def asked_of(them):
    """A run over these nodes."""
    public = digits().public_samples
    return federated(lambda ask: [each.answer(ask) for each in them], public, "1", nodes=2, classes=CLASSES, queries=8)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("fleet")
    study = home / "study"
    new_coordinator(study, [])
    for name in NAMES:
        new_node(home / name, name, "127.0.0.1:9092", study / "authority.pem")
        add_member(study, home / name / f"{name}.pub")
    remove_member(study, "gone")
    (study / "run.journal").mkdir()
    progress = JobProgress(study / "run.journal")
    for number in range(2):
        status = RoundStatus(number, asked=("site 0", "site 1", "south"), answered=["site 0", "site 1"])
        status.refuse("south", (RefusalReason.BUDGET, RefusalReason.CANCELED)[number])
        status.budgets["site 1"] = ToldBudget(f"{number + 1}", "5", "0")
        progress.round(status)
    progress.say("done", "written run")
    (study / "late.journal").mkdir()
    # The reason counts, whatever the words are.
    words = f"refused: {RefusalReason.BUDGET.in_words}"
    late = RoundStatus(0, asked=("site 0", "<b>"), dropped={"site 0": words, "<b>": "<script>"})
    JobProgress(study / "late.journal").round(late)
    for broken, text in (
        ("a", "{"),
        ("b", '{"rounds": [{"asked": 3}]}'),
        ("c", "[]"),
        ("d", '{"rounds": 1, "state": 2}'),
        ("e", ODD),
    ):
        (study / f"{broken}.journal").mkdir()
        (study / f"{broken}.journal" / "progress.json").write_text(text)
    them = nodes(2, seed=None)
    run = federated(
        lambda ask: [each.answer(ask) for each in them],
        digits().public_samples,
        "1",
        nodes=2,
        classes=CLASSES,
        queries=8,
    )
    run.save(study / "run")
    return home


def test_the_view_has_every_node_its_rounds_its_refusals_and_what_its_receipts_show(home):
    fleet = read_fleet(home / "study")
    found = {each.name: each for each in fleet.nodes}
    assert {name: each.state for name, each in found.items()} == {
        "<b>": "not listed", "gone": "removed", "site 0": "admitted", "site 1": "admitted", "south": "admitted",
    }  # fmt: skip
    assert (found["site 0"].asked, found["site 0"].answered, found["site 0"].lost) == (3, 2, 1)
    assert found["south"].refusals == {"budget": 1, "canceled": 1}
    assert fleet.refusals == {"budget": 1, "canceled": 1}
    assert (found["gone"].lost, found["gone"].refusals) == (3, {})
    assert (found["site 1"].payments, found["site 1"].paid) == (1, "epsilon 1")
    assert (found["south"].payments, found["south"].paid) == (0, "")
    # What was told last, by who tells it at all.
    assert {name: each.told for name, each in found.items() if each.told} == {
        "site 1": "spent epsilon 2 of 5 at delta 0"
    }
    assert [(each.name, each.state, each.rounds) for each in fleet.jobs] == [
        ("e", "", 4), ("late", "running", 1), ("run", "done", 2)
    ]  # fmt: skip


def test_what_a_simulation_spent_is_nobodys_budget(home, tmp_path):
    (tmp_path / "study").symlink_to(home / "study")
    fleet = read_fleet(tmp_path / "study")
    them = nodes(2, seed=3)
    asked_of(them).save(home / "study" / "late")
    assert read_fleet(home / "study") == fleet


def test_the_command_prints_a_table_or_json(home, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["federation", "fleet", str(home / "study"), "--json"])
    assert ended.value.code == 0
    said = json.loads(capsys.readouterr().out)
    assert said == json.loads(json.dumps(read_fleet(home / "study").to_json()))
    with pytest.raises(SystemExit):
        main(["federation", "fleet", str(home / "study")])
    words = " ".join(capsys.readouterr().out.split())
    assert "1 budget, 1 canceled" in words
    assert "epsilon 1" in words
    assert "spent epsilon 2 of 5" in words
    with pytest.raises(SystemExit) as ended:
        main(["federation", "fleet", str(home)])
    assert ended.value.code == 2


def test_the_live_view_has_a_page_of_it_with_every_word_escaped(home):
    pytest.importorskip("starlette", reason="needs tacit[ui]")
    from tests.ui.test_service import TOKEN, Client

    client = Client(home)
    client.request("GET", f"/?token={TOKEN}")
    overview = client.request("GET", "/").text
    assert "href='fleet/study'" in overview
    page = client.request("GET", "/fleet/study").text
    assert "site 0" in page
    assert "1 budget, 1 canceled" in re.sub(r"\s+", " ", page)
    assert "<b>" not in page.replace("<b>Tacit</b>", "")
    assert "&lt;b&gt;" in page
    assert client.request("GET", "/fleet/elsewhere").status_code == 404
