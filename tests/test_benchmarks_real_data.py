"""The comparison with RidgeCV on real data: its cells, figures and page. Nothing is timed here."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV

import stoptime as st
from benchmarks import page as whole_page
from benchmarks.harness import Settings
from benchmarks.real_data import __main__ as command
from benchmarks.real_data import cells, page, problems
from benchmarks.real_data.cells import Cell, CellRun, goals
from benchmarks.real_data.problems import Place, Rows

ENVIRONMENT = {"processor": "a processor", "versions": {"numpy": "2"}}


def a_cell(ratio, row="diabetes", column="raw", table="data", ours=1.0):
    seconds = {"default": (2 * ours, ours), "ridge": (ours / 2,), "RidgeCV": (ratio * ours,)}
    errors = {"default": 1.02, "ridge": 1.0, "RidgeCV": 1.0}
    scores = {"default": 0.4, "ridge": 0.5, "RidgeCV": 0.5}
    return Cell(table, row, column, (442, 10), seconds, errors, scores)


def a_run():
    spread = [
        a_cell(8.0, "2 000 × 200", f"a = {a}", "shapes", ours) for a, ours in ((0, 1.0), (6, 4.0))
    ]
    failed = Cell("data", "wine", "cubic", (178, 559), failed="ValueError: no")
    losing = a_cell(0.5, "wine")
    return CellRun("full", "2026-01-01", ENVIRONMENT, (a_cell(2.0), losing, failed, *spread))


def test_every_cell_has_a_place_of_its_own_and_a_quick_run_has_some_of_them():
    everything = problems.places(quick=False)
    keys = {(place.table, place.row, place.column) for place in everything}
    assert len(keys) == len(everything)
    assert {place.table for place in everything} == set(page.TABLES)
    quick = {(place.table, place.row, place.column) for place in problems.places(quick=True)}
    assert quick < keys
    assert len(quick) == sum(map(len, problems.QUICK.values()))


@pytest.mark.parametrize("columns", problems.COLUMNS)
@pytest.mark.parametrize("name", ["diabetes", "iris", "linnerud"])
def test_columns_of_bundled_data_are_finite(name, columns):
    rows = problems.bundled(name, columns)
    assert np.isfinite(rows.X).all()
    assert len(rows.X) == len(rows.y)


def test_splines_of_columns_with_few_values_are_finite():
    assert np.isfinite(problems.bundled("digits", "splines").X).all()


def test_an_expansion_that_is_too_wide_is_refused(monkeypatch):
    monkeypatch.setattr(problems, "MOST_COLUMNS", 20)
    with pytest.raises(ValueError, match="diabetes has 65 quadratic columns, more than 20"):
        problems.bundled("diabetes", "quadratic")


def test_generated_rows_have_the_eigenvalues_that_they_promise():
    rows = problems.generated(20000, 5, decay=2)
    eigenvalues = np.linalg.eigvalsh(np.cov(rows.X.T))[::-1]
    np.testing.assert_allclose(eigenvalues, np.arange(1, 6.0) ** -2, rtol=0.05)
    assert rows.new[0].shape == (problems.NEW_ROWS, 5)
    assert problems.generated(30, 4, 2, targets=3).y.shape == (30, 3)


@pytest.mark.parametrize("name", problems.COPIES)
def test_half_of_the_columns_are_copies(name):
    X = problems.copied(problems.COPIES[name]).X
    half = X.shape[1] // 2
    distance = np.abs(X[:, half:] - X[:, :half]).std()
    assert distance == pytest.approx(problems.COPIES[name], rel=0.5)


@pytest.mark.parametrize("new", [True, False])
def test_a_cell_holds_the_answers_of_all_competitors(new):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = X @ np.ones(3) + rng.standard_normal(60)
    rows = Rows(X[:40], y[:40], (X[40:], y[40:]) if new else None)
    place = Place("data", "a", "b", lambda: rows)
    settings = Settings(threads=1, longest=0.0, least=1)
    cell = cells.measured(place, settings, {"default": st.StoppedRegressorCV()})
    assert not cell.failed
    assert cell.shape == (40, 3)
    assert set(cell.seconds) == set(cell.errors) == set(cell.scores) == {"default", "RidgeCV"}
    fitted, X_new, y_new = rows.X, X[40:], y[40:]
    response = rows.y
    if not new:
        fitted, X_new, response, y_new = rows.split()
    ridge = RidgeCV(cells.ALPHAS).fit(fitted, response)
    assert cell.scores["RidgeCV"] == pytest.approx(ridge.score(X_new, y_new))
    # both estimate the error of new rows, whose noise has variance one
    assert cell.times_the_error() == pytest.approx(1, abs=0.1)


def test_left_out_errors_of_both_have_the_same_unit():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2))
    y = X @ np.ones((2, 3)) + rng.standard_normal((30, 3))
    ridge = RidgeCV(1.0).fit(X, y)
    without = [RidgeCV(1.0).fit(np.delete(X, i, 0), np.delete(y, i, 0)) for i in range(len(X))]
    refits = [y[i] - model.predict(X[i : i + 1])[0] for i, model in enumerate(without)]
    assert cells._left_out(ridge) == pytest.approx(np.mean(np.square(refits)))
    stopped = st.StoppedRegressorCV().fit(X, y)
    exact = st.leave_one_out(X, y, stopped.method_, [stopped.stop_]).errors
    assert cells._left_out(stopped) == pytest.approx(np.mean(exact))


def test_a_failure_is_part_of_the_result():
    rows = Rows(np.full((5, 2), np.nan), np.zeros(5))
    place = Place("data", "a", "b", lambda: rows)
    cell = cells.measured(place, Settings(threads=1), {"default": st.StoppedRegressorCV()})
    assert cell.failed.startswith("ValueError: ")
    assert command.line(cell).startswith("FAILED: ValueError")
    assert np.isnan(cell.times_as_fast())
    assert np.isnan(cell.times_the_error())


def test_a_fit_that_is_refused_without_held_out_rows_keeps_its_times():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    place = Place("data", "a", "b", lambda: Rows(X, X @ np.ones(2) + rng.standard_normal(40)))
    # forty folds need forty rows
    fussy = st.StoppedRegressorCV(cv=40)
    cell = cells.measured(place, Settings(threads=1, longest=0.0, least=1), {"ridge": fussy})
    assert not cell.failed
    assert cell.seconds["ridge"]
    assert np.isnan(cell.scores["ridge"])
    run = CellRun("full", "", ENVIRONMENT, (a_cell(2.0), cell))
    assert page.refusals(run)[0].startswith('- a, b: without the held-out rows, the fit of "ridge"')
    assert page.refusals(a_run()) == []


def test_goals():
    spread, *others = goals(a_run().cells)
    assert (spread.value, spread.holds) == (4.0, False)
    assert [measure.value for measure in others] == [5.0, 0.5, 75.0, 100.0]
    assert [measure.holds for measure in others] == [True, False, True, True]
    assert len(goals([a_cell(2.0)])) == 4  # no spread without its cells
    assert goals([]) == []


def test_json_round_trip(tmp_path):
    cells.save(a_run(), tmp_path / "run.json")
    assert cells.load(tmp_path / "run.json") == a_run()
    (tmp_path / "run.json").write_text('{"schema": 0}', encoding="utf-8")
    with pytest.raises(ValueError, match="run the benchmark again"):
        cells.load(tmp_path / "run.json")


def test_the_section_lists_failures_and_losses_first():
    text = whole_page.real_data_section(a_run())
    rows = [line for line in text if line.startswith("| ")]
    start = next(i for i, line in enumerate(rows) if line.startswith("| problem"))
    assert "**failed**: ValueError: no" in rows[start + 1]
    assert "**0.5**, loses" in rows[start + 2]
    assert not any("loses" in line for line in rows[start + 3 :])
    assert len({line.count("|") for line in rows[start:]}) == 1
    goal = next(line for line in rows if line.startswith("| slowest over fastest"))
    assert goal.endswith("| **4**, missed | **4**, missed | at most 3 |")
    assert "_static/benchmarks/real-data-ridge-dark.svg" in "\n".join(text)


def test_the_page_begins_with_one_figure_and_what_it_says():
    said = page.in_short(a_run())
    speeds = [cell.times_as_fast() for cell in a_run().cells]
    speeds = sorted(speed for speed in speeds if np.isfinite(speed))
    assert f"of {len(speeds)} problems" in said
    assert f"({page.in_two_digits(speeds[-1])} times as fast)" in said
    assert f"({page.in_two_digits(speeds[0])} times)" in said
    results = Path(whole_page.RESULTS)
    real = whole_page.load_cells(results / "real_data.json")
    text = whole_page.text(whole_page.load(results / "cpu.json"), None, real)
    head = text.partition("## ")[0]
    assert head.count("```{image}") == 2  # one figure, on light and on dark pages
    assert "|" not in head.replace("|---", "")
    assert text.count("real-data-default-light.svg") == 1


def test_without_results_the_section_says_how_to_measure_them():
    text = "\n".join(whole_page.real_data_section(None))
    assert "No results are stored" in text
    assert "```{image}" not in text


@pytest.mark.parametrize("shade", ["light", "dark"])
def test_the_heat_map_shows_every_number_and_frames_losses(shade):
    run = a_run()
    figure = page.heat_map(run.cells, "default", shade)
    texts = [text for ax in figure.axes for text in ax.texts if text.get_text()]
    assert sorted(text.get_text() for text in texts) == ["0.50", "2.0", "8.0", "8.0", "failed"]
    assert [text.get_text() for text in texts if text.get_weight() == "bold"] == ["0.50"]
    framed = [patch for ax in figure.axes for patch in ax.patches if patch.get_linewidth() > 1]
    assert len(framed) == 1


def test_decays_are_in_order_whichever_shape_has_them():
    decays = (0, 6, 2)
    listed = [a_cell(2.0, str(n), f"a = {a}", "shapes") for n, a in enumerate(decays)]
    shown = page.heat_map(listed, "default", "light").axes
    labels = [[tick.get_text() for tick in ax.get_xticklabels()] for ax in shown]
    assert ["a = 0", "a = 2", "a = 6"] in labels


def test_colours_change_their_hue_at_one():
    palette = page.colours()
    slower, faster = palette(0.499)[:3], palette(0.501)[:3]
    assert slower[0] > slower[2] + 0.2  # orange
    assert faster[2] > faster[0]  # blue


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.042, "0.042"), (0.9, "0.90"), (1.04, "1.0"), (9.94, "9.9"), (9.96, "10"), (123.4, "123")],
)
def test_numbers_fit_into_their_cells(value, shown):
    assert page.in_two_digits(value) == shown


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    monkeypatch.setattr(command.page, "write", (tmp_path / "page").touch)
    monkeypatch.setattr(
        command, "measured", lambda place, *_: a_cell(2.0, place.row, place.column, place.table)
    )
    return tmp_path


def test_only_a_full_run_is_published(folder, capsys):
    assert command.main(["--quick"]) == 0
    assert [file.name for file in folder.iterdir()] == ["real_data_quick.json"]
    assert command.main([]) == 0
    names = {file.name for file in folder.iterdir()}
    assert names == {"real_data_quick.json", "real_data.json", "page"}
    assert len(cells.load(folder / "real_data.json").cells) == len(problems.places(quick=False))
    assert "2 000 × 20, 1 target ... times as fast: default 2" in capsys.readouterr().out


def test_one_table_can_be_published_again(folder, monkeypatch):
    command.main([])
    monkeypatch.setattr(command, "measured", lambda place, *_: a_cell(0.5, table=place.table))
    command.main(["--only", "shapes"])
    published = cells.load(folder / "real_data.json")
    again = {cell.table for cell in published.cells if cell.times_as_fast() < 1}
    assert again == {"shapes"}
    tables = [cell.table for cell in published.cells]
    assert tables == sorted(tables, key=list(page.TABLES).index)
    elsewhere = replace(published, environment={"processor": "another"})
    with pytest.raises(ValueError, match="published are results of another"):
        command.merged(elsewhere, published)


def test_a_failure_shows_in_the_exit_status(folder, monkeypatch):
    failed = a_run().cells[2]
    monkeypatch.setattr(command, "measured", lambda *_: failed)
    assert command.main(["--quick"]) == 1
    assert (folder / "real_data_quick.json").exists()
