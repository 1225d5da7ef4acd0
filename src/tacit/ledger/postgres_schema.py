"""The tables of a ledger on a PostgreSQL server, the triggers that guard them, and the three roles that may use them.

Everything is in the schema ``tacit`` of a separate database. A writer can only insert entries: a trigger that runs as
the owner checks on the server that an entry follows the last one, has the right digest and is of a kind that the writer
may add, and then moves the head. No other writer's entry can come between: ``turn`` is an empty table that is locked
during a charge, before the charge reads anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tacit.core import InvalidInput
from tacit.ledger.entries import LEDGER_FORMAT, ORIGIN

__all__ = ["CATALOG", "FOUND", "SERVER_SCHEMA", "TURN", "default_prefix", "definitions", "role_statements"]

TURN = "LOCK TABLE turn IN EXCLUSIVE MODE"

_REFUSE = """
BEGIN
  RAISE EXCEPTION 'the ledger is append-only';
END
"""

_MOVE = """
BEGIN
  IF NEW.count IS DISTINCT FROM OLD.count + 1 THEN
    RAISE EXCEPTION 'the ledger is append-only';
  END IF;
  RETURN NEW;
END
"""

_MOVE_ACCOUNT = """
BEGIN
  IF NEW.account <> OLD.account OR NEW.sequence <= OLD.sequence THEN
    RAISE EXCEPTION 'the ledger is append-only';
  END IF;
  RETURN NEW;
END
"""

# It runs as the owner, whoever inserts; session_user is the user who has logged in.
_FOLLOW = """
DECLARE
  last record;
BEGIN
  SELECT count, digest INTO last FROM tacit.head FOR UPDATE;
  IF NEW.sequence IS DISTINCT FROM last.count + 1 OR NEW.previous IS DISTINCT FROM last.digest THEN
    RAISE EXCEPTION 'the entry does not follow the last one' USING ERRCODE = 'serialization_failure';
  END IF;
  IF NEW.digest <> encode(sha256(convert_to(
      NEW.previous || E'\\n' || NEW.sequence || E'\\n' || NEW.kind || E'\\n' || NEW.body, 'UTF8')), 'hex') THEN
    RAISE EXCEPTION 'the entry is not what its digest says' USING ERRCODE = 'check_violation';
  END IF;
  IF NEW.kind NOT IN ('payment', 'release') AND NOT pg_has_role(session_user, current_user, 'MEMBER') THEN
    RAISE EXCEPTION 'only the owner opens accounts, changes ceilings and accepts copies'
      USING ERRCODE = 'insufficient_privilege';
  END IF;
  UPDATE tacit.head SET count = NEW.sequence, digest = NEW.digest;
  IF NEW.account IS NOT NULL THEN
    INSERT INTO tacit.accounts VALUES (NEW.account, NEW.sequence, NEW.digest)
      ON CONFLICT (account) DO UPDATE SET sequence = excluded.sequence, digest = excluded.digest;
  END IF;
  RETURN NULL;
END
"""

_FUNCTIONS = {"refuse": _REFUSE, "move": _MOVE, "move_account": _MOVE_ACCOUNT, "follow": _FOLLOW}
_PATH = "search_path=pg_catalog, pg_temp"

_TABLES = (
    "CREATE SCHEMA tacit",
    "CREATE TABLE tacit.format (number integer NOT NULL)",
    """CREATE TABLE tacit.entries (
  sequence bigint PRIMARY KEY,
  kind text NOT NULL,
  body text NOT NULL,
  payload bytea,
  previous text NOT NULL,
  digest text NOT NULL,
  account text GENERATED ALWAYS AS ((body::jsonb) ->> 'account') STORED,
  request text GENERATED ALWAYS AS ((body::jsonb) ->> 'request') STORED,
  payment bigint GENERATED ALWAYS AS (((body::jsonb) ->> 'payment')::bigint) STORED
)""",
    "CREATE TABLE tacit.head "
    "(only_one boolean PRIMARY KEY CHECK (only_one), count bigint NOT NULL, digest text NOT NULL)",
    "CREATE TABLE tacit.accounts (account text PRIMARY KEY, sequence bigint NOT NULL, digest text NOT NULL)",
    "CREATE TABLE tacit.turn (nothing boolean CHECK (false) NOT NULL)",
)
_INDEXES = (
    "CREATE UNIQUE INDEX one_payment_a_request ON tacit.entries USING btree (account, request) "
    "WHERE (kind = 'payment'::text)",
    "CREATE UNIQUE INDEX one_release_a_payment ON tacit.entries USING btree (payment) WHERE (kind = 'release'::text)",
    "CREATE INDEX entries_of_account ON tacit.entries USING btree (account, sequence) WHERE (account IS NOT NULL)",
)
_TRIGGERS = (
    "CREATE TRIGGER entries_follow AFTER INSERT ON tacit.entries FOR EACH ROW EXECUTE FUNCTION tacit.follow()",
    "CREATE TRIGGER entries_stay BEFORE DELETE OR UPDATE ON tacit.entries FOR EACH ROW EXECUTE FUNCTION tacit.refuse()",
    "CREATE TRIGGER entries_stay_whole BEFORE TRUNCATE ON tacit.entries FOR EACH STATEMENT "
    "EXECUTE FUNCTION tacit.refuse()",
    "CREATE TRIGGER head_stays BEFORE DELETE ON tacit.head FOR EACH ROW EXECUTE FUNCTION tacit.refuse()",
    "CREATE TRIGGER head_stays_whole BEFORE TRUNCATE ON tacit.head FOR EACH STATEMENT EXECUTE FUNCTION tacit.refuse()",
    "CREATE TRIGGER head_moves_on BEFORE UPDATE ON tacit.head FOR EACH ROW EXECUTE FUNCTION tacit.move()",
    "CREATE TRIGGER accounts_stay BEFORE DELETE ON tacit.accounts FOR EACH ROW EXECUTE FUNCTION tacit.refuse()",
    "CREATE TRIGGER accounts_stay_whole BEFORE TRUNCATE ON tacit.accounts FOR EACH STATEMENT "
    "EXECUTE FUNCTION tacit.refuse()",
    "CREATE TRIGGER accounts_move_on BEFORE UPDATE ON tacit.accounts FOR EACH ROW "
    "EXECUTE FUNCTION tacit.move_account()",
)

SERVER_SCHEMA = (
    *_TABLES,
    *_INDEXES,
    f"INSERT INTO tacit.format VALUES ({LEDGER_FORMAT})",  # noqa: S608
    f"INSERT INTO tacit.head VALUES (true, 0, '{ORIGIN}')",  # noqa: S608
    *(
        f"CREATE FUNCTION tacit.{name}() RETURNS trigger LANGUAGE plpgsql "
        f"{'SECURITY DEFINER' if name == 'follow' else 'SECURITY INVOKER'} "
        f"SET search_path = pg_catalog, pg_temp AS $body${body}$body$"
        for name, body in _FUNCTIONS.items()
    ),
    *(f"REVOKE ALL ON FUNCTION tacit.{name}() FROM PUBLIC" for name in _FUNCTIONS),
    *_TRIGGERS,
)

# PostgreSQL's own text of every definition in the ledger's schema.
CATALOG = """
SELECT 'table ' || relname || ' ' || relpersistence::text || relrowsecurity::text FROM pg_class
  WHERE relnamespace = 'tacit'::regnamespace AND relkind NOT IN ('i', 't')
UNION ALL SELECT 'column ' || relname || '.' || attname || ' ' || format_type(atttypid, atttypmod) || attnotnull::text
    || coalesce(' ' || pg_get_expr(adbin, adrelid), '')
  FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
  LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
  WHERE relnamespace = 'tacit'::regnamespace AND relkind = 'r' AND attnum > 0 AND NOT attisdropped
UNION ALL SELECT 'constraint ' || relname || ' ' || pg_get_constraintdef(pg_constraint.oid)
  FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid
  WHERE relnamespace = 'tacit'::regnamespace AND contype IN ('c', 'p', 'u', 'f', 'x')
UNION ALL SELECT pg_get_indexdef(indexrelid) || CASE WHEN indisvalid THEN '' ELSE ' INVALID' END
  FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
  WHERE relnamespace = 'tacit'::regnamespace AND relkind = 'r' AND NOT indisprimary
UNION ALL SELECT replace(pg_get_triggerdef(pg_trigger.oid), ' FUNCTION tacit.', ' FUNCTION ')
    || CASE tgenabled WHEN 'O' THEN '' ELSE ' DISABLED' END
  FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
  WHERE relnamespace = 'tacit'::regnamespace AND NOT tgisinternal
UNION ALL SELECT 'rule ' || rulename FROM pg_rewrite JOIN pg_class ON pg_class.oid = ev_class
  WHERE relnamespace = 'tacit'::regnamespace
UNION ALL SELECT 'function ' || proname || ' ' || prosecdef::text || ' ' || coalesce(proconfig[1], '') || prosrc
  FROM pg_proc WHERE pronamespace = 'tacit'::regnamespace
"""

FOUND = frozenset(
    {
        *(f"table {name} pfalse" for name in ("format", "entries", "head", "accounts", "turn")),
        "column format.number integertrue",
        "column entries.sequence biginttrue",
        *(f"column entries.{name} texttrue" for name in ("kind", "body", "previous", "digest")),
        "column entries.payload byteafalse",
        *(
            f"column entries.{name} textfalse ((body)::jsonb ->> '{name}'::text)" for name in ("account", "request")
        ),
        "column entries.payment bigintfalse (((body)::jsonb ->> 'payment'::text))::bigint",
        "column head.only_one booleantrue",
        "column head.count biginttrue",
        "column head.digest texttrue",
        "column accounts.account texttrue",
        "column accounts.sequence biginttrue",
        "column accounts.digest texttrue",
        "column turn.nothing booleantrue",
        "constraint entries PRIMARY KEY (sequence)",
        "constraint head PRIMARY KEY (only_one)",
        "constraint head CHECK (only_one)",
        "constraint accounts PRIMARY KEY (account)",
        "constraint turn CHECK (false)",
        *_INDEXES,
        # PostgreSQL leaves out the schema of a function that it would find without it.
        *(trigger.replace(" FUNCTION tacit.", " FUNCTION ") for trigger in _TRIGGERS),
        *(f"function {name} {str(name == 'follow').lower()} {_PATH}{body}" for name, body in _FUNCTIONS.items()),
    }
)  # fmt: skip


def definitions(found: frozenset[str]) -> Iterator[str]:
    """The differences between the definitions found and those expected.

    >>> list(definitions(FOUND - {"column head.digest texttrue"}))
    ['a definition was removed by hand: column head.digest texttrue']
    """
    for statement in sorted(found.symmetric_difference(FOUND)):
        change = "added" if statement in found else "removed"
        yield f"a definition was {change} by hand: {' '.join(statement.split())[:200]}"


def default_prefix(database: str) -> str:
    """The default prefix of the names of a ledger's roles.

    >>> default_prefix("clinic-budget")
    'tacit_clinic_budget'
    """
    return f"tacit_{re.sub('[^a-z0-9_]', '_', database.lower())}"[:50]


def role_statements(database: str, prefix: str) -> list[str]:
    """The statements that make the roles of a ledger; run by a user who may create roles and change its owner.

    The owner changes ceilings. The writer adds payments and releases and can change or remove nothing; the reader
    reads. None of them can log in: they are granted to the users of people and nodes.

    >>> [each for each in role_statements("budget", "clinic") if "INSERT" in each]
    ['GRANT INSERT (sequence, kind, body, payload, previous, digest) ON tacit.entries TO "clinic_writer"']
    """
    if not re.fullmatch("[a-z_][a-z0-9_]{0,49}", prefix):
        raise InvalidInput("a prefix of roles is at most 50 small letters, digits and _, and begins with no digit")
    owner, writer, reader = (f'"{prefix}_{each}"' for each in ("owner", "writer", "reader"))
    quoted = database.replace('"', '""')
    tables = ("format", "entries", "head", "accounts", "turn")
    return [
        # An existing role is kept: roles belong to the server, and an operator may have made them before.
        *(
            f"DO $$BEGIN CREATE ROLE {role} NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END$$"
            for role in (owner, writer, reader)
        ),
        f'REVOKE CREATE, TEMPORARY ON DATABASE "{quoted}" FROM PUBLIC',
        f'GRANT CONNECT ON DATABASE "{quoted}" TO {owner}, {writer}, {reader}',
        # An object can be given only to a role that may create there.
        f'GRANT CREATE ON DATABASE "{quoted}" TO {owner}',
        f"ALTER SCHEMA tacit OWNER TO {owner}",
        *(f"ALTER TABLE tacit.{table} OWNER TO {owner}" for table in tables),
        *(f"ALTER FUNCTION tacit.{name}() OWNER TO {owner}" for name in _FUNCTIONS),
        f'REVOKE CREATE ON DATABASE "{quoted}" FROM {owner}',
        f"REVOKE ALL ON ALL TABLES IN SCHEMA tacit FROM PUBLIC, {writer}, {reader}",
        f"REVOKE ALL ON SCHEMA tacit FROM PUBLIC, {writer}, {reader}",
        f"GRANT USAGE ON SCHEMA tacit TO {writer}, {reader}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA tacit TO {writer}, {reader}",
        f"GRANT INSERT (sequence, kind, body, payload, previous, digest) ON tacit.entries TO {writer}",
        # Locking a table needs the right to change it; this one has a constraint that no row satisfies.
        f"GRANT UPDATE ON tacit.turn TO {writer}",
    ]
