"""The short tables of the leaderboards on the page that a practitioner decides by: they are what was measured."""

from pathlib import Path

from experiments import leaderboard_summary
from experiments.leaderboard_summary import curves, fixed_lines, margins, read_boards

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_shows_what_the_boards_say():
    page, boards = (DOCS / "which-method.md").read_text(encoding="utf-8"), read_boards(DOCS / "results")
    assert set(boards) == set(leaderboard_summary.BOARDS)
    for name, rows in boards.items():
        assert "\n".join(curves(name, rows)) in page, f"{name}: see leaderboard_summary"
    assert "\n".join(fixed_lines(boards)) in page
    assert "\n".join(margins(boards)) in page


def test_a_margin_is_over_the_best_line_of_a_baseline_and_no_line_of_other_units_or_of_more_noise_counts():
    def row(method, epsilon, test):
        return {"names": {"method": method, "ε": epsilon}, "runs": [{"test": test - 0.1}, {"test": test + 0.1}]}

    rows = [row("rknn", "0.1", 0.6), row("auto", "0.1", 0.5), row("noisy_sgd", "0.1", 0.4), row("label_dp", "0.1", 0.9)]
    rows += [row("noisy_sgd two layers", "0.1", 0.62), row("pate lnmax", "0.1", 0.3), row("auto", "3", 0.7)]
    assert margins({"digits": rows})[2:] == ["| digits | 0.1 | rknn 60.0 | -2.0 |  |  | 30.0 |"]


def test_cells_without_a_run_are_empty_and_older_code_is_marked():
    def row(method, epsilon, code="this", tests=(0.5,)):
        return {"names": {"method": method, "ε": epsilon, "code": code}, "runs": [{"test": each} for each in tests]}

    rows = [row("rknn", "0.1"), row("rknn", "1", "earlier", (0.4, 0.6)), row("auto", "1", "defaults")]
    assert curves("digits", rows)[2:] == ["| rknn | 50.0 | 50.0 ± 14.1† | 1 to 2 |", "| auto |  | 50.0 | 1 |"]
    fixed = [row("no privacy: all", ""), row("ε = 0: an oracle", ""), row("ε = 0: a guess", "")]
    lines = fixed_lines({"digits": fixed, "mnist": fixed[:1]})
    assert lines[0] == "| | ε = 0: a guess | ε = 0: an oracle | no privacy: all |"
    assert lines[3] == "| MNIST |  |  | 50.0 |"
