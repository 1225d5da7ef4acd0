import numpy as np
import pytest
from matplotlib.figure import Figure

from tacit.report.charts import draw_queries
from tacit.runs.run import Run

GENERATOR = np.random.default_rng(0)


@pytest.fixture
def draw(tmp_path, monkeypatch):
    """Draw a run with these class names, and look at the figure that was saved."""
    kept = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *rest, **more: (kept.append(figure), save(figure, *rest, **more))
    )

    def make(public, names, queries=None, certainty=None, **options):
        classes = np.array(names)
        queries = queries or len(names)
        membership = np.arange(len(public)) % queries
        query_labels = classes[np.arange(queries) % len(names)]
        run = Run(
            student=None, labels=query_labels[membership], probabilities=None, classes=classes,
            arrays={
                "queries": np.zeros((queries, 2), np.float32), "query_labels": query_labels, "membership": membership,
                **({} if certainty is None else {"certainty": np.array(certainty)}),
            },
            guarantee=type("Claim", (), {"simulation": False})(), guarantees={}, receipts=(), recipe={},
        )  # fmt: skip
        draw_queries(run, public, tmp_path / "queries.png", **options)
        assert (tmp_path / "queries.png").stat().st_size > 1000
        return kept[-1]

    return make


def tiles(figure):
    return [axes.images[0] for axes in figure.axes if axes.images]


def legend(figure):
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def test_a_table_of_sixteen_columns_is_a_map(draw):
    figure = draw(GENERATOR.normal(size=(50, 16)), ["ill", "well"], queries=7)
    assert not tiles(figure)
    assert figure.get_suptitle() == "7 queries and the labels they got, among 50 public samples"
    assert legend(figure) == ["ill", "well"]


@pytest.mark.parametrize("columns", [1, 2, 64, 784])
def test_every_width_of_table_is_a_map(draw, columns):
    assert not tiles(draw(GENERATOR.integers(0, 255, size=(20, columns)), ["a", "b"]))


def test_one_public_row_is_a_map_too(draw):
    draw(np.ones((1, 3)), ["a", "b"], queries=1)


def test_names_with_dollars_and_underscores_are_drawn_as_they_are(draw):
    names = ["$x", "$10-$20", "_hidden", r"\frac{$", "$\\bad{$", "a_b^c", "%"]
    assert legend(draw(GENERATOR.normal(size=(50, 3)), names)) == names
    figure = draw(GENERATOR.integers(0, 255, size=(50, 8, 8)), names)
    assert [axes.get_title() for axes in figure.axes] == names


def test_letters_that_the_font_lacks_are_no_failure(draw):
    draw(GENERATOR.normal(size=(50, 3)), ["健康", "病気"])
    draw(GENERATOR.normal(size=(50, 8, 8)), ["健康", "病気"])


def test_gray_images_are_not_drawn_as_negatives(draw):
    images = np.zeros((4, 8, 8))
    images[:, 2:6, 2:6] = 255
    (first, _) = tiles(draw(images, ["a", "b"]))
    assert first.to_rgba(1.0)[:3] == (1, 1, 1)
    (first, _) = tiles(draw(images, ["a", "b"], dark_ink=True))
    assert first.to_rgba(1.0)[:3] == (0, 0, 0)


@pytest.mark.parametrize("shape", [(8, 9, 3), (3, 8, 9)])
def test_color_images_are_drawn_in_color(draw, shape):
    images = GENERATOR.integers(0, 256, size=(6, *shape), dtype=np.uint8)
    (first, _) = tiles(draw(images, ["a", "b"]))
    assert first.get_array().shape == (8, 9, 3)
    expected = images if shape[-1] == 3 else images.transpose(0, 2, 3, 1)
    assert np.allclose(first.get_array(), (expected[::2].mean(axis=0) - images.min()) / np.ptp(images))


@pytest.mark.parametrize("shape", [(8, 8, 1), (1, 8, 8), (8, 8)])
def test_one_channel_is_gray(draw, shape):
    assert tiles(draw(GENERATOR.integers(0, 256, size=(6, *shape)), ["a", "b"]))[0].get_array().shape == (8, 8)


def test_series_are_not_images(draw):
    assert not tiles(draw(GENERATOR.normal(size=(6, 100, 3)), ["a", "b"]))
    assert not tiles(draw(GENERATOR.normal(size=(6, 8, 8, 5)), ["a", "b"]))


def test_more_queries_than_tiles_are_said(draw):
    figure = draw(GENERATOR.integers(0, 16, size=(200, 8, 8)), ["a", "b"], queries=75)
    assert len(tiles(figure)) == 60
    assert figure.get_suptitle() == "Queries and the labels they got, 60 of 75 shown"
    assert "shown" not in draw(GENERATOR.integers(0, 16, size=(200, 8, 8)), ["a", "b"], queries=60).get_suptitle()


def test_a_query_without_samples_is_a_blank_tile(draw):
    assert len(tiles(draw(np.ones((3, 8, 8)), ["a", "b"], queries=5))) == 3
    draw(np.ones((3, 5)), ["a", "b"], queries=5)


def test_many_and_long_names_stay_readable(draw):
    names = [f"class number {number}" for number in range(40)]
    figure = draw(GENERATOR.normal(size=(80, 5)), names)
    assert len(legend(figure)) == 30
    assert figure.axes[0].get_legend().get_title().get_text() == "label (30 of 40)"
    assert legend(draw(GENERATOR.normal(size=(20, 5)), ["n" * 200, "two\nlines"])) == ["n" * 23 + "…", "two lines"]


def test_doubtful_queries_are_marked_and_counted(draw):
    sure = [0.9, 0.5, 0.8, 0.9, 0.6, 0.8]  # of queries 0, 1, 2, 0, 1, 2
    figure = draw(GENERATOR.integers(0, 16, size=(6, 8, 8)), ["a", "b", "c"], certainty=sure)
    assert figure.get_suptitle() == "Queries, the labels they got and how certain they are"
    assert [axes.get_title() for axes in figure.axes] == ["a", "b?", "c"]
    assert [axes.get_xlabel() for axes in figure.axes] == ["90%", "55%", "80%"]
    assert "1 query is doubtful: its public samples" in figure.get_supxlabel()
    none = draw(GENERATOR.integers(0, 16, size=(6, 8, 8)), ["a", "b", "c"], certainty=[0.9] * 6)
    assert "no query is doubtful" in none.get_supxlabel()
    ringed = draw(GENERATOR.normal(size=(6, 5)), ["a", "b", "c"], certainty=sure)
    assert "ringed: doubtful ones" in ringed.axes[0].get_xlabel()
