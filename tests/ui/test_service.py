"""The live view without a browser: who has no token sees the same words whatever is asked for, and it only reads."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tacit.core.account import Ceiling
from tacit.core.errors import InvalidInput
from tacit.ledger.sqlite import SqliteLedger
from tacit.runs.progress import STAGES, RunProgress, watched_run
from tacit.ui.folder import is_ledger, job_states, look
from tacit.ui.pages import planned

service = pytest.importorskip("tacit.ui.service", reason="tacit[ui] is not installed")
httpx = pytest.importorskip("httpx", reason="tacit[federated] is not installed")
PARTS = tacit.digits()
PORT, TOKEN = 8123, "a-token-that-nobody-guesses"
HOME = f"http://127.0.0.1:{PORT}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("site")
    with SqliteLedger.create(place / "main.ledger", {"clinic": Ceiling(3), "idle": Ceiling(1)}) as ledger:
        tacit.distill(
            (PARTS.private_samples, PARTS.private_labels), PARTS.public_samples, 1.0, classes=range(10), ledger=ledger,
            account="clinic",
        ).save(place / "runs" / "first")  # fmt: skip
    (place / "runs" / "broken").mkdir()
    (place / "runs" / "broken" / "run.json").write_text("{")
    (place / ".hidden").mkdir()
    shutil.copytree(place / "runs" / "first", place / ".hidden" / "run")
    (place / "notes.db").write_bytes(b"SQLite format 3\0" + bytes(100))
    return place


class Client:
    """A browser without a window: it keeps cookies and follows the way it is sent."""

    def __init__(self, folder):
        self.app, self.cookies, self.root = service.make_app(folder, PORT, TOKEN), {}, ""

    def request(self, method, place, follow=True, **more):
        async def ask():
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url=HOME, cookies=self.cookies) as client:
                answer = await client.request(method, self.root + place, follow_redirects=follow, **more)
                self.cookies = dict(client.cookies)
                if answer.history and TOKEN in place:
                    self.root = answer.url.path.removesuffix("/")
                return answer

        return asyncio.run(ask())

    def get(self, place, **more):
        return self.request("GET", place, **more)


@pytest.fixture
def client(folder):
    return Client(folder)


PLACES = ["/", "/plan", "/state.json", "/run/runs/first", "/run/none", "/ledger/main.ledger", "/ui.css", "/ui.js", "/x"]


def test_without_the_token_everything_is_the_same_few_words(client):
    told = set()
    for place in PLACES:
        for extra in ("", "?token=", "?token=wrong", f"?token={TOKEN[:-1]}"):
            answer = client.get(place + extra)
            told.add((answer.status_code, answer.text, str(sorted(answer.headers.items()))))
    client.cookies = {f"tacit-ui-{PORT}": TOKEN}
    answer = client.get("/")
    told.add((answer.status_code, answer.text, str(sorted(answer.headers.items()))))
    assert len(told) == 1
    assert next(iter(told))[:2] == (403, "Forbidden\n")


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", f"127.0.0.1.evil.example:{PORT}"]
)
def test_a_name_that_was_made_to_point_here_sees_nothing(client, host):
    assert client.get(f"/?token={TOKEN}", headers={"Host": host}).text == "Forbidden\n"
    client.get(f"/?token={TOKEN}")
    assert client.get("/", headers={"Host": host}).text == "Forbidden\n"
    assert client.get("/").status_code == 200


def test_the_token_becomes_a_cookie_and_leaves_the_address(client):
    answer = client.get(f"/?token={TOKEN}", follow=False)
    assert answer.status_code == 303
    assert re.fullmatch(r"/[\w-]{22}/", answer.headers["location"])
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert client.request(method, "/").text == "Forbidden\n"


def test_the_cookie_is_sent_to_no_other_port_of_this_machine(client):
    """Another user may listen there: a host's cookies are sent to all of its ports, so the path is secret, too."""
    answer = client.get(f"/?token={TOKEN}", follow=False)
    jar = httpx.Cookies()
    jar.extract_cookies(answer)

    def sent(place):
        request = httpx.Request("GET", place)
        jar.set_cookie_header(request)
        return "cookie" in request.headers

    assert sent(HOME + answer.headers["location"])
    for other in ("http://127.0.0.1:9999/", "http://127.0.0.1:9999/plan", "http://localhost:9999/", f"{HOME}/"):
        assert not sent(other)
    # Nor does the cookie open anything outside of that path.
    assert client.get("/").text == "Forbidden\n"
    client.root = answer.headers["location"].removesuffix("/")
    assert client.get("/").status_code == 200


def test_links_lead_to_pages(client):
    client.get(f"/?token={TOKEN}")
    for place in ("/", "/plan", "/run/runs/first", "/ledger/main.ledger", "/run/runs/none"):
        links = re.findall(r"(?:href|src|action)='([^'#]*)'", client.get(place).text)
        found = {
            httpx.URL(HOME + client.root + place).join(link).path for link in links if not link.startswith("data:")
        }
        assert f"{client.root}/" in found
        for each in found:
            assert client.get(each.removeprefix(client.root)).status_code in (200, 500)


def test_every_page_is_guarded_and_shows_what_is_there(client, folder):
    before = (folder / "main.ledger").read_bytes()
    client.get(f"/?token={TOKEN}")
    for place in PLACES[:6]:
        answer = client.get(place)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        for name, value in service.GUARDED.items():
            assert answer.headers[name] == value
        assert not re.search(r"https?://", answer.text)
    page = client.get("/").text
    assert "href='run/runs/first'" in page
    assert "cannot be read" in page
    assert ".hidden" not in page
    assert "notes.db" not in page
    assert "<td>1</td><td>2</td>" in page
    assert "The privacy statement" in client.get("/run/runs/first").text
    for report, up in (("/run/runs/first", "../../"), ("/ledger/main.ledger", "../")):
        assert f"<a href='{up}'>Overview</a>" in client.get(report).text
    assert "clinic" in client.get("/ledger/main.ledger").text
    for wrong in ("/run/runs/../runs/first", "/run/../../etc/passwd", "/run/.hidden/run", "/run/%2e%2e/site", "/run/."):
        # What leaves the path of all pages is refused like everything outside.
        assert client.get(wrong).status_code in (403, 404, 200)
        assert "The privacy statement" not in client.get(wrong).text or wrong == "/run/runs/../runs/first"
    assert client.get("/run/runs/broken").status_code == 500
    assert client.get("/ledger/notes.db").status_code == 404
    assert (folder / "main.ledger").read_bytes() == before
    assert not is_ledger(folder / "notes.db")


def test_a_form_is_answered_or_says_what_is_wrong(client):
    client.get(f"/?token={TOKEN}")
    given = {"records": "2000", "classes": "5", "epsilon": "0.5", "delta": "1e-6", "holders": "4", "purity": "0.9"}
    page = client.get("/plan", params=given).text
    assert "What to expect" in page
    # Every method that has a forecast is there, or says why not; trust models stand side by side.
    for name in ("rknn", "fedmd", "pate", "privatekt"):
        assert f"<td>{name}</td>" in page
    for trust in ("central", "local", "shuffle"):
        assert f"<td>rknn</td><td>{trust}</td>" in page
    for name in ("auto", "class_sums", "noisy_sgd", "private_knn"):
        assert f"Method {name} (central): needs public samples for a forecast" in page
    for name, wrong in (("records", "0"), ("records", "1.5"), ("epsilon", "nan"), ("purity", "2"), ("classes", "<b>")):
        page = client.get("/plan", params=given | {name: wrong}).text
        assert f"{name}: must be" in page
        assert "<b>" not in page.replace("<b class", "")
    with pytest.raises(InvalidInput, match="epsilon: must be"):
        planned(given | {"epsilon": "9" * 5000}, {})


def test_a_forecast_rests_on_a_public_file_of_the_folder_and_on_no_other(client, folder):
    random = np.random.default_rng(0)
    ill = random.random(200) < 0.5
    rows = [f"{a:.2f},{b:.2f},{'ill' if s else 'well'}" for a, b, s in zip(
        np.where(ill, 3, -3) + random.normal(size=200), random.normal(size=200), ill, strict=True)]  # fmt: skip
    (folder / "open.csv").write_text("age,dose,state\n" + "\n".join(rows) + "\n")
    (folder.parent / "outside.csv").write_text("age\n1\n")
    client.get(f"/?token={TOKEN}")
    assert ">open.csv</option>" in client.get("/plan").text
    given = {"records": "5000", "classes": "2", "epsilon": "1", "delta": "0", "holders": "4", "public": "open.csv"}
    page = client.get("/plan", params=given | {"label": "state"}).text
    assert "on 200 labeled public samples" in page
    assert "<td>class_sums</td>" in page
    assert "classes is 3" in client.get("/plan", params=given | {"label": "state", "classes": "3"}).text
    for wrong in ("../outside.csv", "runs/first/labels.csv", str(folder / "open.csv")):
        assert "this file no longer exists" in client.get("/plan", params=given | {"public": wrong}).text


def test_a_file_that_a_recipe_names_as_private_is_not_offered_as_public(tmp_path):
    for name in ("records.csv", "samples.csv"):
        (tmp_path / name).write_text("a\n1\n")
    assert list(look(tmp_path).tables) == ["records.csv", "samples.csv"]
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "recipe.toml").write_text('[data]\nprivate = "../records.csv"\npublic = "../samples.csv"\n')
    (tmp_path / "broken.toml").write_text("[data")
    assert list(look(tmp_path).tables) == ["samples.csv"]


def test_a_job_shows_where_it_is_and_leaves_nothing(tmp_path):
    with watched_run(tmp_path / "long", "privatekt", 100) as progress:
        progress.stage("counting votes")
        progress.round(34)
        progress.stage("91 % of the records agree")
        (found,) = job_states(look(tmp_path))
        assert (found.name, found.state, found.part) == ("long", "running", 0.34)
        assert found.doing == "counting votes, round 34 of 100"
    assert job_states(look(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []
    RunProgress(tmp_path / "cut.progress", "rknn", None)
    said = json.loads((tmp_path / "cut.progress").read_text())
    # A process that is over.
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    (tmp_path / "cut.progress").write_text(json.dumps(said | {"process": done.pid}))
    assert [each.state for each in job_states(look(tmp_path))] == ["stopped"]
    for wrong in ("{", "[]", json.dumps(said | {"stage": "record 7 is ill"}), json.dumps(said | {"process": "1"})):
        (tmp_path / "cut.progress").write_text(wrong)
        assert job_states(look(tmp_path)) == []


def test_a_federation_shows_what_its_coordinator_wrote(tmp_path):
    (tmp_path / "study" / "nodes").mkdir(parents=True)
    (tmp_path / "study" / "coordinator.pem").touch()
    (tmp_path / "study" / "nodes" / "north.pub").touch()
    (tmp_path / "study" / "job.journal").mkdir()
    said = {"state": "running", "message": "round 2: 1 of 1 nodes answered", "process": os.getpid(), "rounds": []}
    (tmp_path / "study" / "job.journal" / "progress.json").write_text(json.dumps(said))
    client = Client(tmp_path)
    page = client.get(f"/?token={TOKEN}").text
    assert "north" in page
    assert page.count("round 2: 1 of 1 nodes answered") == 2


def test_the_command_refuses_what_is_no_folder_and_says_where_it_listens(tmp_path, capsys, monkeypatch):
    with pytest.raises(SystemExit) as stopped:
        main(["ui", str(tmp_path / "none")])
    assert stopped.value.code == 2
    assert "no such folder" in capsys.readouterr().err
    program = [sys.executable, "-c", "from tacit.cli import main; main()", "ui", str(tmp_path)]
    running = subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"})
    try:
        assert running.stdout.readline().startswith("looking into")
        first = running.stdout.readline()
        assert re.search(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}$", first.strip())
    finally:
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=60)


def test_every_fixed_stage_is_one_that_may_be_written():
    source = Path(tacit.__file__).parent
    literal = {
        each
        for file in source.rglob("*.py")
        for each in re.findall(r'observer\.stage\("([^"]+)"\)', file.read_text(encoding="utf-8"))
    }
    assert literal
    assert literal <= set(STAGES)
