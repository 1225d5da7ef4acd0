"""One suite for every representation that is fitted on public samples, on digits of 8x8 pixels.

A record's features must be that record's alone, to the last bit: a vote is only worth its sensitivity if no other
row of a batch can move it. ``tests/representations/test_rows.py`` has the same for what has a name.
"""

from __future__ import annotations

import dataclasses
import hashlib
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tacit.core.errors import InvalidInput
from tacit.datasets.published import digits
from tacit.methods.encoding import encoded_chunks, encoder_digest
from tacit.neighbors import nearest_queries
from tacit.representations.chained import Chained
from tacit.representations.groups import ClusteringHead, MixtureShares
from tacit.representations.image_features import Deskewed, OrientedGradients
from tacit.representations.maps import Interpolated, spectral_map
from tacit.representations.patches import PatchDictionary
from tacit.representations.random_features import RandomFeatures
from tacit.representations.scaled import Identity, PrincipalComponents, Standardized
from tacit.representations.student_features import StudentFeatures
from tacit.representations.transformed_kmeans import TransformedShares

PARTS = digits()
PUBLIC, OTHER_PUBLIC = PARTS.public_samples[:200], PARTS.public_samples[200:400]
# Half of them raw integers, whose distances tie; the other half between the grid's points.
NOISE = np.random.default_rng(0).uniform(0, 1, size=(60, 64))
RECORDS = PARTS.private_samples[:60] + NOISE * (np.arange(60) % 2)[:, None]


@dataclasses.dataclass(frozen=True)
class Doubled:
    """A student whose features are the samples, doubled."""

    digest: str

    def features(self, X):
        return 2 * X.reshape(len(X), 64)


def placed(public):
    return Interpolated.fit(public, np.random.default_rng(1).normal(size=(len(public), 3)))


FITS = {
    "identity": Identity.fit,
    "standardized": Standardized.fit,
    "pca": PrincipalComponents.fit,
    "random features": partial(RandomFeatures.fit, waves=30),
    "deskewed": Deskewed.fit,
    "hog": OrientedGradients.fit,
    "interpolated": placed,
    "spectral": partial(spectral_map, components=5),
    "patches": partial(PatchDictionary.fit, words=12, patch=4),
    "transformed": partial(TransformedShares.fit, groups=4),
    "chained": lambda public: Chained.fit(
        public, Deskewed.fit, OrientedGradients.fit, partial(PrincipalComponents.fit, components=8)
    ),
    "mixture": lambda public: Chained.fit(
        public, partial(PrincipalComponents.fit, components=6), partial(MixtureShares.fit, groups=4)
    ),
    "head": partial(ClusteringHead.fit, groups=4, neighbors=5, starts=2),
    "student": lambda public: StudentFeatures(Doubled(repr(public.sum()))),
}
# These take from the public samples only what both sets have in common: their width, shape and brightness.
SAME_FOR_BOTH = {"identity", "deskewed", "hog"}


@pytest.fixture(scope="module")
def fitted():
    return {name: fit(PUBLIC) for name, fit in FITS.items()}


@pytest.mark.parametrize("name", sorted(FITS))
def test_a_row_is_encoded_by_itself_to_the_last_bit(fitted, name):
    whole = fitted[name].encode(RECORDS)
    assert whole.dtype == np.float32
    assert whole.ndim == 2
    assert np.isfinite(whole).all()
    alone = np.concatenate([fitted[name].encode(RECORDS[[row]]) for row in range(len(RECORDS))])
    assert np.array_equal(whole, alone)
    assert np.array_equal(whole[::-1], fitted[name].encode(RECORDS[::-1]))


@pytest.mark.parametrize("name", sorted(FITS))
def test_the_size_of_a_batch_and_its_layout_do_not_matter(fitted, name):
    many = np.tile(RECORDS, (18, 1))  # 1080 rows: more than are worked on at a time
    whole = fitted[name].encode(many)
    assert np.array_equal(whole[-60:], fitted[name].encode(RECORDS))
    assert np.array_equal(whole[:7], fitted[name].encode(np.asfortranarray(many[:7])))
    assert np.array_equal(whole[:7], fitted[name].encode(many[:7].reshape(7, 8, 8)))


@pytest.mark.parametrize("name", sorted(FITS))
def test_fitting_twice_gives_the_same_and_leaves_the_public_samples_alone(fitted, name):
    before = PUBLIC.copy()
    again = FITS[name](PUBLIC)
    assert np.array_equal(before, PUBLIC)
    assert encoder_digest(again) == encoder_digest(fitted[name])
    assert np.array_equal(again.encode(RECORDS), fitted[name].encode(RECORDS))


@pytest.mark.parametrize("name", sorted(set(FITS) - SAME_FOR_BOTH))
def test_other_public_samples_give_another_name(fitted, name):
    assert encoder_digest(FITS[name](OTHER_PUBLIC)) != encoder_digest(fitted[name])


@pytest.mark.parametrize("name", sorted(FITS))
def test_every_parameter_is_part_of_the_name(fitted, name):
    changed = list(variants(fitted[name]))
    assert changed
    names = [encoder_digest(each) for each in changed]
    assert len({encoder_digest(fitted[name]), *names}) == len(names) + 1


def variants(value):
    """Copies of a representation, each with one number somewhere changed."""
    for field in dataclasses.fields(value):
        held = getattr(value, field.name)
        if isinstance(held, np.ndarray):
            other = held.copy()
            other.flat[-1] += 1
            yield dataclasses.replace(value, **{field.name: other})
        elif isinstance(held, str):
            yield dataclasses.replace(value, **{field.name: held + "!"})
        elif isinstance(held, tuple) and not dataclasses.is_dataclass(held[0]):
            yield dataclasses.replace(value, **{field.name: (held[0] + 1, *held[1:])})
        elif isinstance(held, tuple):
            for place, part in enumerate(held):
                for other in variants(part):
                    yield dataclasses.replace(value, **{field.name: (*held[:place], other, *held[place + 1 :])})
        elif dataclasses.is_dataclass(held):
            for other in variants(held):
                yield dataclasses.replace(value, **{field.name: other})
        else:
            yield dataclasses.replace(value, **{field.name: held + 1})


@pytest.mark.parametrize("name", sorted(FITS))
def test_a_value_that_is_no_number_never_becomes_a_vote(fitted, name):
    broken = RECORDS.copy()
    broken[7, 3] = np.nan
    queries = fitted[name].encode(RECORDS[:3])
    encoded = np.concatenate(list(encoded_chunks(fitted[name], broken)))
    near = nearest_queries(encoded, queries, 1)
    assert near[7] == -1
    others = np.delete(np.arange(len(RECORDS)), 7)
    assert np.array_equal(near[others], nearest_queries(fitted[name].encode(RECORDS), queries, 1)[others])


@pytest.mark.parametrize("name", sorted(set(FITS) - {"student"}))
def test_samples_of_another_width_are_refused(fitted, name):
    with pytest.raises(InvalidInput, match=r"60 features|shape \(60,\)"):
        fitted[name].encode(RECORDS[:, :60])


@pytest.mark.parametrize("name", sorted(FITS))
def test_no_samples_give_no_rows(fitted, name):
    nothing = fitted[name].encode(RECORDS[:0])
    assert nothing.shape == (0, fitted[name].encode(RECORDS[:1]).shape[1])
    assert nothing.dtype == np.float32


@pytest.mark.parametrize(
    "name", sorted(set(FITS) - {"identity", "standardized", "pca", "chained", "mixture", "student"})
)
def test_nothing_to_fit_on_is_refused(name):
    with pytest.raises(InvalidInput):
        FITS[name](PUBLIC[:0])


@pytest.mark.parametrize("name", ["deskewed", "hog", "patches", "transformed"])
def test_public_images_that_show_nothing_are_refused(name):
    with pytest.raises(InvalidInput, match="all of one value"):
        FITS[name](np.ones((20, 64)))
    broken = PUBLIC.copy()
    broken[0, 0] = np.inf
    with pytest.raises(InvalidInput, match="sample 0 has a value that is not a finite number"):
        FITS[name](broken)


def test_another_process_encodes_the_same_bits(fitted):
    """Votes of a holder and centers of a coordinator must lie in one space, and hashes must not depend on a seed."""
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import hashlib, test_representations as laws
from tacit.methods.encoding import encoder_digest
for name in ("chained",):
    one = laws.FITS[name](laws.PUBLIC)
    print(encoder_digest(one), hashlib.sha256(one.encode(laws.RECORDS).tobytes()).hexdigest())
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    expected = [
        f"{encoder_digest(fitted[name])} {hashlib.sha256(fitted[name].encode(RECORDS).tobytes()).hexdigest()}"
        for name in ("chained",)
    ]
    assert said.stdout.split("\n")[:1] == expected
