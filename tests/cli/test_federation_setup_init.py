"""``tacit federation init --node`` writes inside its folder, over nothing, and only what can be used."""

import pytest

from tacit.cli.federation_setup import new_node
from tacit.core.errors import InvalidInput

ADDRESS = "study.example.org:9092"


@pytest.fixture
def authority(tmp_path):
    file = tmp_path / "authority.pem"
    file.write_text("-----BEGIN CERTIFICATE-----\n")
    return file


@pytest.mark.parametrize(
    ("name", "address", "told"),
    [
        ("../evil", ADDRESS, "a node's name has letters"),
        ("", ADDRESS, "a node's name has letters"),
        ("north", "study.example.org", "host:port"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_written(tmp_path, authority, name, address, told):
    with pytest.raises(InvalidInput, match=told):
        new_node(tmp_path / "here", name, address, authority)
    assert sorted(tmp_path.iterdir()) == [authority]


def test_a_file_that_is_no_certificate_is_refused(tmp_path, authority):
    authority.write_text("a secret key")
    with pytest.raises(InvalidInput, match="not a certificate"):
        new_node(tmp_path / "here", "north", ADDRESS, authority)


def test_a_second_node_does_not_replace_the_policy_of_the_first(tmp_path, authority):
    pytest.importorskip("cryptography")
    new_node(tmp_path / "here", "north", ADDRESS, authority)
    policy = tmp_path / "here" / "policy.toml"
    policy.write_text("filled in")
    for name in ("south", "north"):
        with pytest.raises(InvalidInput, match="exists already"):
            new_node(tmp_path / "here", name, ADDRESS, authority)
    assert policy.read_text() == "filled in"
