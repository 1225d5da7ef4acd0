"""The ledger on a PostgreSQL server: what is its own, beside the laws that every ledger keeps."""

import json
import os
import stat
import threading
import time

import pytest

from tacit.cli import main
from tacit.core.account import Ceiling
from tacit.core.errors import DamagedLedger, InvalidInput, LedgerError, StaleLedger
from tacit.core.places import LedgerUrl
from tacit.core.spend import Pure
from tacit.ledger import open_ledger, store
from tacit.ledger.verify import verify
from tests.postgres import Proxy, needs_postgres

pytestmark = needs_postgres
POLICY = {"clinic": Ceiling(1)}
SECRET = "hunter2-hunter2"


@pytest.fixture
def url(postgres, ledger_database):
    return postgres.url(ledger_database)


@pytest.fixture
def proxy(postgres):
    made = Proxy(postgres)
    yield made
    made.close()


def pay(ledger, request="r-1", spend="1/10"):
    return ledger.charge("clinic", Pure(spend), "labels", "system", request, "question")


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    captured = capsys.readouterr()
    return ended.value.code, " ".join((captured.out + captured.err).split())


def test_a_payment_is_on_the_disk_and_no_step_waits_for_ever(url):
    with open_ledger(url, POLICY) as ledger:
        for name, value in (
            ("synchronous_commit", "on"),
            ("lock_timeout", "1min"),
            ("statement_timeout", "1min"),
            ("idle_in_transaction_session_timeout", "1min"),
        ):
            assert ledger._store.execute(f"SHOW {name}").fetchone() == (value,)
        ledger._store.begin(write=True)
        assert ledger._store.execute("SHOW transaction_isolation").fetchone() == ("serializable",)
        ledger._store.rollback()


def test_a_ledger_that_is_there_keeps_its_accounts(url):
    for policy in (POLICY, {"clinic": Ceiling(2)}, None):
        with open_ledger(url, policy) as ledger:
            assert ledger.accounts() == POLICY
    with open_ledger(url.replace("postgresql:", "postgres:")) as ledger:
        assert ledger.durable


def test_whoever_holds_the_turn_too_long_is_named(url):
    with open_ledger(url, POLICY) as one, open_ledger(f"{url}&options=-c%20lock_timeout%3D50") as other:
        one._store.begin(write=True)
        with pytest.raises(LedgerError, match=r"another process has held it for 60 s. Nothing was charged. Try again"):
            pay(other)
        one._store.rollback()
        assert pay(other).account == "clinic"


def test_a_server_that_stalls_is_given_up(url, proxy, ledger_database, postgres, monkeypatch):
    from tacit.ledger import postgres_store

    with open_ledger(url, POLICY) as ledger:
        pay(ledger)
    monkeypatch.setattr(postgres_store, "ANSWER_SECONDS", 0.3)
    with open_ledger(postgres.url(ledger_database, host=proxy.folder)) as ledger:
        proxy.arm(at=1, how="stall")
        started = time.monotonic()
        assert pay(ledger, "r-2").request == "r-2"
        assert time.monotonic() - started < 30
        # A server that does not even open: the first attempt's doubt is what is said.
        proxy.arm(at=1, how="stall", then=None)
        proxy.refusing = True
        with pytest.raises(LedgerError, match=r"the connection to the server was lost. Nothing was charged"):
            pay(ledger, "r-3")


def test_a_commit_whose_answer_is_lost_is_found_by_its_request(url, proxy, ledger_database, postgres):
    """The payment is written, nobody heard of it, and the same request finds it."""
    with open_ledger(url, POLICY) as ledger:
        pay(ledger, "first")
    with open_ledger(postgres.url(ledger_database, host=proxy.folder)) as ledger:
        proxy.arm()
        pay(ledger, "counted")
        proxy.arm(at=proxy.number_of("COMMIT"), how="after", then=lambda: setattr(proxy, "refusing", True))
        with pytest.raises(LedgerError) as failed:
            pay(ledger, "lost")
        proxy.refusing = False
        proxy.arm()
        before = postgres.execute("SELECT count(*) FROM tacit.entries WHERE request = 'lost'", database=ledger_database)
        receipt = pay(ledger, "lost")
    assert "Whether the last step was written is not known. Send the same request again" in str(failed.value)
    assert before == [(1,)]
    with open_ledger(url) as ledger:
        assert ledger.balance("clinic").payments == 3
        assert receipt in ledger.receipts("clinic")


def test_who_comes_without_the_lock_meets_the_servers_checks(url, monkeypatch):
    """Two that both saw the same moment: the second one's entry does not follow, and it begins again."""
    from tacit.ledger import postgres_store

    with open_ledger(url, {"clinic": Ceiling("3/10")}) as one, open_ledger(url) as other:
        pay(one, "r-1")
        monkeypatch.setattr(postgres_store, "TURN", "SELECT 1")
        append, interrupted = store.append, []

        def slowly(into, *content, **more):
            if into is other._store and not interrupted:
                interrupted.append(True)
                pay(one, "r-2", "2/10")
            return append(into, *content, **more)

        monkeypatch.setattr(store, "append", slowly)
        with pytest.raises(Exception, match="cannot pay"):
            pay(other, "r-3", "2/10")
        assert interrupted
        assert one.balance("clinic").remaining == 0
        assert one.verify() == []


def test_threads_share_one_ledger(url):
    with open_ledger(url, {"clinic": Ceiling("20/7")}) as ledger:
        paid, failed = [], []

        def spend(name):
            try:
                for number in range(100):
                    paid.append(pay(ledger, f"{name}-{number}", "1/7"))
            except Exception as error:
                failed.append(type(error).__name__)

        threads = [threading.Thread(target=spend, args=(name,)) for name in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == ["BudgetExceeded"] * 3
        assert len({receipt.digest for receipt in paid}) == 20


def test_a_ledger_carried_over_a_fork_is_refused(url):
    with open_ledger(url, POLICY) as ledger:
        ledger._process = -1
        with pytest.raises(LedgerError, match="was opened before a fork"):
            pay(ledger)
        ledger._process = os.getpid()


# What stands in the way.


def test_what_is_wrong_with_a_server_is_said_and_the_password_is_not(postgres, ledger_database, tmp_path, capsys):
    where = f"host={postgres.socket_folder}"
    postgres.execute(f"CREATE ROLE guarded_{ledger_database} LOGIN PASSWORD '{SECRET}'")
    user = f"guarded_{ledger_database}"
    cases = [
        (f"postgresql://{user}:{SECRET}@/{ledger_database}?host={tmp_path}", 1, "the server cannot be reached"),
        (f"postgresql://{user}:{SECRET}@127.0.0.1:1/{ledger_database}", 1, "the server cannot be reached"),
        (f"postgresql://{user}:{SECRET}@/no_such?{where}", 2, "the server has no such database"),
        (f"postgresql://nobody:{SECRET}@/{ledger_database}?{where}", 2, "the server refuses this user or password"),
        (f"postgresql://{user}:{SECRET}@/{ledger_database}?{where}", 2, "there is no ledger at"),
        (f"postgresql://{user}:{SECRET}@/{ledger_database}?{where}&passwort={SECRET}", 2, "not a URL"),
        (f"postgresql://{user}:{SECRET}%zz@/{ledger_database}?{where}", 2, "not a URL"),
        (f"postgresql://{user}:{SECRET}@/?service=no_such_service", 2, "no such service"),
        (f"mysql://{user}:{SECRET}@here/{ledger_database}", 2, ""),
    ]
    for place, wanted, words in cases:
        code, said = run(capsys, "ledger", "show", place)
        assert (code, words in said, SECRET in said) == (wanted, True, False), said
    for command in (("ledger", "verify"), ("ledger", "export"), ("report", "--out", "x.html"), ("doctor", "--ledger")):
        code, said = run(capsys, *command, cases[0][0])
        assert (code, SECRET in said) == (1, False), said
    postgres.execute(f"DROP ROLE {user}")


def test_a_wrong_password_is_wrong_use(postgres, ledger_database, capsys):
    """A server that asks for passwords, on a connection of this machine."""
    hba = postgres.data / "pg_hba.conf"
    before = hba.read_text()
    user = f"asked_{ledger_database}"
    postgres.execute(f"CREATE ROLE {user} LOGIN PASSWORD 'right-{SECRET}'")
    hba.write_text(f"local all {user} scram-sha-256\n{before}")
    postgres.execute("SELECT pg_reload_conf()")
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            place = postgres.url(ledger_database, user=f"{user}:{SECRET}")
            code, said = run(capsys, "ledger", "show", place)
            if "refuses" in said:
                break
            time.sleep(0.05)  # the server reads its rules when it gets to it
        assert (code, SECRET in said) == (2, False)
        assert "the server refuses this user or password" in said
        code, said = run(capsys, "ledger", "show", postgres.url(ledger_database, user=user))
        assert (code, "PGPASSWORD, a password file" in said) == (2, True)
        for how in ("PGPASSWORD", "PGPASSFILE", "PGSERVICEFILE"):
            with pytest.MonkeyPatch.context() as patch:
                place = postgres.url(ledger_database, user=user)
                if how == "PGPASSWORD":
                    patch.setenv(how, f"right-{SECRET}")
                else:
                    file = postgres.folder / how.lower()
                    file.touch(mode=stat.S_IRUSR | stat.S_IWUSR)
                    patch.setenv(how, str(file))
                    if how == "PGPASSFILE":
                        file.write_text(f"*:*:*:*:right-{SECRET}\n")
                    else:
                        lines = {"host": postgres.socket_folder, "dbname": ledger_database, "user": user}
                        lines["password"] = f"right-{SECRET}"
                        file.write_text("[clinic]\n" + "".join(f"{name}={each}\n" for name, each in lines.items()))
                        place = "postgresql:///?service=clinic"
                with pytest.raises(InvalidInput, match="there is no ledger at"):
                    open_ledger(place)
    finally:
        hba.write_text(before)
        postgres.execute("SELECT pg_reload_conf()", f"DROP ROLE {user}")


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        ("postgresql://u@h/d", f"postgresql://u:{SECRET}@h/d"),
        ("postgresql://u@h/d", f"postgresql://u:{SECRET}@{SECRET}@h/d"),
        ("postgresql://u@h/d", f"postgresql://u:/{SECRET}?@h/d"),
        ("postgresql://h/d", f"postgresql://:{SECRET}@h/d"),
        ("postgresql://h/d?user=u", f"postgresql://h/d?password={SECRET}&user=u"),
        ("postgresql://h/d", f"postgresql://h/d?p%61ssword={SECRET}"),
        ("postgresql://h/d", f"postgresql://h/d#{SECRET}"),
        ("postgresql://h:5432/d", "postgresql://h:5432/d"),
        ("ledgers://u@h", f"ledgers://u:{SECRET}@h?key={SECRET}"),
    ],
)
def test_a_url_is_shown_without_its_password(shown, text):
    url = LedgerUrl(text)
    assert str(url) == shown
    assert SECRET not in f"{url} {url!r} {url!s} {[url]}"
    assert url.text == text


def test_another_database_and_another_format_are_left_alone(url, postgres, ledger_database):
    postgres.execute("CREATE SCHEMA tacit", database=ledger_database)
    for policy in (None, POLICY):
        with pytest.raises(LedgerError, match="is not a Tacit ledger: its schema tacit is something else"):
            open_ledger(url, policy)
    postgres.execute("DROP SCHEMA tacit", database=ledger_database)
    open_ledger(url, POLICY).close()
    postgres.execute("UPDATE tacit.format SET number = 3", database=ledger_database)
    with pytest.raises(LedgerError, match="is a ledger of format 3; this version of Tacit reads and writes format 2"):
        open_ledger(url)


def test_a_database_of_another_encoding_is_refused_and_nothing_is_left(postgres):
    postgres.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    try:
        for _ in range(2):
            with pytest.raises(InvalidInput, match="another encoding than UTF8"):
                open_ledger(postgres.url("latin"), POLICY)
    finally:
        postgres.drop("latin")


# What is stored, and what was done to it.

CHANGES = [
    ("DROP TRIGGER entries_stay ON tacit.entries", "a definition was removed by hand: CREATE TRIGGER entries_stay"),
    ("DROP TRIGGER entries_follow ON tacit.entries", "a definition was removed by hand: CREATE TRIGGER entries_follow"),
    ("ALTER TABLE tacit.entries DISABLE TRIGGER entries_stay", "a definition was added by hand"),
    ("DROP INDEX tacit.one_payment_a_request", "a definition was removed by hand: CREATE UNIQUE INDEX one_payment"),
    ("CREATE RULE lost AS ON INSERT TO tacit.entries DO INSTEAD NOTHING", "a definition was added by hand: rule lost"),
    ("ALTER TABLE tacit.entries SET UNLOGGED", "a definition was added by hand: table entries u"),
    ("ALTER TABLE tacit.head ADD COLUMN more text", "a definition was added by hand: column head.more"),
    (
        "CREATE OR REPLACE FUNCTION tacit.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "a definition was added by hand: function refuse",
    ),
]


@pytest.mark.parametrize(("change", "words"), CHANGES)
def test_guards_that_were_changed_by_hand_are_found(url, postgres, ledger_database, change, words):
    open_ledger(url, POLICY).close()
    postgres.execute(change, database=ledger_database)
    assert words in " ".join(map(str, verify(url)))
    with pytest.raises(DamagedLedger, match="a definition was"):
        open_ledger(url)


TAMPERED = [
    ("UPDATE tacit.entries SET body = replace(body, '1/10', '1/99') WHERE sequence = 3", "entry 3: its content"),
    ("DELETE FROM tacit.entries WHERE sequence = 3", "entry 3: it is missing"),
    ("DELETE FROM tacit.entries WHERE sequence = 5", "entry 5: it is missing: the head record counts 5"),
    ("UPDATE tacit.entries SET payload = 'other' WHERE kind = 'release'", "its payload does not match its digest"),
    ("UPDATE tacit.accounts SET sequence = 2", "the last entry of account 'clinic' is not the one that is noted"),
    ("DELETE FROM tacit.head", "lost its head record"),
]


@pytest.mark.parametrize(("change", "words"), TAMPERED)
def test_rows_that_were_changed_by_an_administrator_are_found(url, postgres, ledger_database, change, words):
    with open_ledger(url, POLICY) as ledger:
        ledger.store_release(pay(ledger), b"release")
        pay(ledger, "r-2")
    postgres.execute("SET session_replication_role = replica", change, database=ledger_database)
    assert words in " ".join(map(str, verify(url)))
    with pytest.raises(DamagedLedger):
        open_ledger(url)


def test_a_backup_that_is_put_back_is_noticed(url, postgres, ledger_database, capsys):
    with open_ledger(url, POLICY) as ledger:
        pay(ledger)
    kept = f"{ledger_database}_backup"
    postgres.execute(f"CREATE DATABASE {kept} TEMPLATE {ledger_database}")
    with open_ledger(url) as ledger:
        pay(ledger, "r-2")
    postgres.execute(f"ALTER DATABASE {ledger_database} RENAME TO {kept}_newer")
    postgres.execute(f"ALTER DATABASE {kept} RENAME TO {ledger_database}")
    try:
        with pytest.raises(StaleLedger, match=r"it has 3 entries; it was last used as .* an older copy was restored"):
            open_ledger(url)
        code, said = run(capsys, "ledger", "verify", url)
        assert (code, "whole 3 entries" in said, "an older copy was restored" in said) == (1, True, True)
        code, said = run(capsys, "ledger", "accept", url, "--reason", "the disk was replaced")
        assert code == 0
        with open_ledger(url) as ledger:
            pay(ledger, "r-3")
        code, said = run(capsys, "ledger", "verify", url)
        assert (code, "accepted entry 4" in said) == (0, True)
    finally:
        postgres.drop(f"{kept}_newer")


def test_a_ledger_that_is_gone_is_not_made_anew(url, postgres, ledger_database):
    with open_ledger(url, POLICY) as ledger:
        pay(ledger)
    postgres.execute("DROP SCHEMA tacit CASCADE", database=ledger_database)
    with pytest.raises(StaleLedger, match="and it is gone: a new one would give back what it has spent"):
        open_ledger(url, POLICY)


def test_a_ledger_exchanged_under_an_open_connection_is_refused(url, postgres, ledger_database):
    with open_ledger(url, POLICY) as ledger:
        pay(ledger)
        kept = f"{ledger_database}_other"
        postgres.execute(f"CREATE DATABASE {kept}")
        open_ledger(postgres.url(kept), POLICY).close()
        postgres.drop(ledger_database)
        postgres.execute(f"ALTER DATABASE {kept} RENAME TO {ledger_database}")
        with pytest.raises(LedgerError, match="another ledger is at"):
            pay(ledger, "r-2")


# Commands and files.


def test_the_commands_take_a_url(url, tmp_path, capsys):
    policy = tmp_path / "policy.toml"
    policy.write_text("[accounts.clinic]\nepsilon = 1\n")
    code, said = run(capsys, "ledger", "open", url, "--policy", policy)
    assert (code, said.startswith("created")) == (0, True)
    with open_ledger(url) as ledger:
        pay(ledger)
    policy.write_text("[accounts.clinic]\nepsilon = 2\n")
    assert "changed clinic" in run(capsys, "ledger", "open", url, "--policy", policy)[1]
    assert "r-1" in run(capsys, "ledger", "show", url, "clinic")[1]
    assert "whole 4 entries" in run(capsys, "ledger", "verify", url)[1]
    lines = run(capsys, "ledger", "export", url, "--out", tmp_path / "x.jsonl")[1]
    assert "4 entries" in lines
    assert json.loads((tmp_path / "x.jsonl").read_text().splitlines()[2])["kind"] == "payment"
    code, said = run(capsys, "doctor", "--ledger", url)
    assert "answers, with 1 account" in said
    assert run(capsys, "report", url, "--out", tmp_path / "page.html")[0] == 0
    assert "clinic" in (tmp_path / "page.html").read_text()
    code, said = run(capsys, "report", url)
    assert (code, "give --out" in said) == (2, True)


def test_a_run_pays_from_a_server_and_writes_no_password(url, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = ["a,b,kind"] + [f"{number % 7},{number % 5},{'xy'[number % 2]}" for number in range(80)]
    (tmp_path / "private.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "public.csv").write_text(
        "\n".join(["a,b"] + [f"{number % 7},{number % 3}" for number in range(40)]) + "\n"
    )
    with open_ledger(url, POLICY):
        pass
    secret = url.replace("postgres@", f"postgres:{SECRET}@")
    common = ("--private", "private.csv", "--label", "kind", "--public", "public.csv", "--epsilon", "0.5")
    command = ("distill", *common, "--classes", "x,y", "--method", "rknn", "--ledger", secret, "--account", "clinic")
    code, said = run(capsys, *command, "--out", "dry", "--dry-run")
    assert (code, "clinic can pay" in said, SECRET in said) == (0, True, False), said
    code, said = run(capsys, *command, "--out", "run")
    assert (code, SECRET in said) == (0, False), said
    with open_ledger(url) as ledger:
        assert ledger.balance("clinic").payments == 1
    code, said = run(capsys, *command, "--out", "second", "--epsilon", "0.9")
    assert (code, "cannot pay" in said, SECRET in said) == (1, True, False), said
    assert run(capsys, "report", "run", "--ledger", secret)[0] == 0
    for file in (each for each in tmp_path.rglob("*") if each.is_file()):
        assert SECRET.encode() not in file.read_bytes(), file
    assert "postgresql://postgres@" in (tmp_path / "run" / "recipe.toml").read_text()


def test_a_nodes_file_names_a_server(url, tmp_path):
    from tacit.federation.node.node import prepare_ledger
    from tacit.federation.settings import NODE_EXAMPLE, read_node_file
    from tacit.ledger.policy_file import RULES_EXAMPLE

    secret = url.replace("postgres@", f"postgres:{SECRET}@")
    text = NODE_EXAMPLE.replace('"north.ledger"', json.dumps(secret))
    (tmp_path / "node.toml").write_text(text)
    found = read_node_file(tmp_path / "node.toml")
    assert found.ledger == LedgerUrl(secret)
    assert SECRET not in f"{found} {found!r} {found.model_dump()}"
    found.policy.write_text(f'[accounts."{found.account}"]\nepsilon = 1\n{RULES_EXAMPLE}')
    told = []
    for _ in range(2):
        prepare_ledger(found, told.append)
    assert told == [f"made the ledger {LedgerUrl(secret)}"]
