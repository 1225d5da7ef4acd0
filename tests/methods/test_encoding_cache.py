"""Encodings are kept by content, whole or not at all, and a holder's only where the holder says so."""

import ast
import dataclasses
import stat
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.core.errors import InvalidInput
from tacit.methods import encoding
from tacit.methods.encoding import EncodedCache, encoder_digest
from tacit.representations.scaled import Identity, PrincipalComponents, Standardized

SAMPLES = np.arange(12.0).reshape(3, 4)
CALLS = []


@dataclasses.dataclass(frozen=True)
class Counted:
    """Counts how often it is asked to encode."""

    factor: int = 2

    def encode(self, samples):
        CALLS.append(len(samples))
        return (self.factor * samples.reshape(len(samples), 4)).astype(np.float32)


@pytest.fixture
def cache(tmp_path):
    CALLS.clear()
    return EncodedCache(tmp_path / "kept" / "here")


def test_an_encoding_is_computed_once(cache):
    first = cache.encode(Counted(), SAMPLES)
    again = EncodedCache(cache.folder).encode(Counted(), SAMPLES.copy())
    assert CALLS == [3]
    assert again.dtype == np.float32
    assert np.array_equal(first, again)


@pytest.mark.parametrize(
    ("representation", "samples"),
    [
        (Counted(3), SAMPLES),
        (Counted(), SAMPLES + 1),
        (Counted(), SAMPLES[::-1]),
        (Counted(), SAMPLES.astype(np.float32)),
        (Counted(), SAMPLES.reshape(3, 2, 2)),
        (Counted(), SAMPLES[:2]),
    ],
)
def test_anything_else_has_another_place(cache, representation, samples):
    cache.encode(Counted(), SAMPLES)
    assert np.array_equal(cache.encode(representation, samples), representation.encode(samples))
    assert len(list(cache.folder.iterdir())) == 2


def test_the_layout_in_memory_does_not_matter(cache):
    cache.encode(Counted(), SAMPLES)
    cache.encode(Counted(), np.asfortranarray(SAMPLES))
    assert CALLS == [3]


def test_a_row_is_rounded_alike_however_many_rows_there_are():
    """einsum adds up a row of a Fortran array in another order if it is the only one of its chunk."""
    random = np.random.default_rng(0)
    rows = np.asfortranarray(random.normal(size=(encoding._CHUNK + 1, 64)))
    directions = random.normal(size=(8, 64))
    # Orthogonal to the last row: what is left is rounding, which a question can magnify.
    directions -= np.outer(directions @ rows[-1] / (rows[-1] @ rows[-1]), rows[-1])
    magnified = PrincipalComponents(np.zeros(64), directions * 1e22)
    whole = np.concatenate(list(encoding.encoded_chunks(magnified, rows)))
    fewer = np.concatenate(list(encoding.encoded_chunks(magnified, np.asfortranarray(rows[-3:]))))
    assert np.array_equal(whole[-3:], fewer)


def test_no_samples_have_an_encoding_too(cache):
    assert cache.encode(Counted(), SAMPLES[:0]).shape == (0, 4)


@pytest.mark.parametrize("damage", ["flipped", "short", "empty", "rows", "pickle"])
def test_a_damaged_file_is_computed_anew(cache, damage):
    expected = cache.encode(Counted(), SAMPLES)
    (file,) = cache.folder.iterdir()
    held = file.read_bytes()
    if damage == "flipped":
        file.write_bytes(held[:-1] + bytes([held[-1] ^ 1]))
    elif damage == "short":
        file.write_bytes(held[:-4])
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "rows":
        other = EncodedCache(cache.folder.parent / "other")
        other.encode(Counted(), SAMPLES[:2])
        file.write_bytes(next(iter(other.folder.iterdir())).read_bytes())
    else:
        with file.open("wb") as stream:
            stream.write(bytes(32))
            np.save(stream, np.array([print], dtype=object), allow_pickle=True)
    CALLS.clear()
    assert np.array_equal(cache.encode(Counted(), SAMPLES), expected)
    assert np.array_equal(cache.encode(Counted(), SAMPLES), expected)
    assert CALLS == [3]


def test_only_the_owner_can_read_what_is_kept(cache):
    cache.encode(Counted(), SAMPLES)
    (file,) = cache.folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(cache.folder.stat().st_mode) & 0o077 == 0


def test_an_interrupted_write_leaves_nothing(cache, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cache.encode(Counted(), SAMPLES)
    assert list(cache.folder.iterdir()) == []


@dataclasses.dataclass(frozen=True)
class Opaque:
    """Its parameter is code, so nobody can tell two of them apart."""

    function: object

    def encode(self, samples):
        return self.function(samples)


def test_what_cannot_be_named_is_not_kept(cache):
    with pytest.raises(InvalidInput, match="cannot be cached"):
        cache.encode(Opaque(lambda samples: samples), SAMPLES)
    assert list(cache.folder.iterdir()) == []


def test_names_are_of_kind_and_content():
    public = np.arange(8.0).reshape(4, 2)
    assert encoder_digest(Standardized.fit(public)) == encoder_digest(Standardized.fit(public.copy()))
    assert encoder_digest(Standardized.fit(public)) != encoder_digest(Standardized.fit(2 * public))

    @dataclasses.dataclass(frozen=True)
    class Width:
        width: int

    assert encoder_digest(Identity(4)) != encoder_digest(Width(4))
    # The same number as another type is another parameter.
    assert len({encoder_digest(Identity(value)) for value in (1, 1.0, True, "1", np.array([1]), (1,))}) == 6


SOURCE = Path(tacit.__file__).parent


def uses_cache(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and "encoded_cache" in node.module:
            return True
        if isinstance(node, ast.Import) and any("encoded_cache" in each.name for each in node.names):
            return True
    return False


def test_a_question_cannot_bring_a_cache_to_a_holder():
    """A cache is not a representation: it takes one, so it cannot stand in a question in place of one."""
    with pytest.raises(TypeError):
        EncodedCache.encode(SAMPLES)
    wires = sorted(SOURCE.glob("methods/*/wire.py")) + sorted(SOURCE.glob("federation/**/*.py"))
    assert wires
    assert [file for file in wires if uses_cache(file)] == []
    # No representation keeps what it encodes, either.
    own = [file for file in SOURCE.glob("representations/*.py") if file.name != "encoded_cache.py"]
    assert [file.name for file in own if uses_cache(file)] == []


def test_a_holder_that_names_no_cache_keeps_nothing(tmp_path, monkeypatch):
    """The whole pipeline on private records writes no encoding anywhere."""
    from tacit.datasets.published import digits
    from tacit.runs.distill import distill

    kept = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(EncodedCache, "encode", lambda *_: kept.append("cache"))
    monkeypatch.setattr(np, "save", lambda *_, **__: kept.append("save"))
    parts = digits()
    distill((parts.private_samples[:200], parts.private_labels[:200]), parts.public_samples[:120], epsilon=5)
    assert kept == []
    assert list(tmp_path.iterdir()) == []
