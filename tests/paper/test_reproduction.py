"""The reproduction is complete and deterministic, writes whole files and reports its progress."""

import csv
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import stoptime
from helpers import run
from stoptime.bounds import summary
from stoptime.paper import reproduction

FEW = (1.0, 100.0, 2000.0)  # condition numbers


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    told = []
    target = tmp_path_factory.mktemp("reproduction") / "deep" / "folder"
    files = reproduction.reproduce(target, condition_numbers=FEW, progress=told.append)
    assert told == [*dict(reproduction.experiments(False, FEW)), "summary"]
    assert sorted(path.name for path in target.iterdir()) == sorted(path.name for path in files)
    return target


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def drawn(example, name="experiment"):
    """The rows of a figure of an example, whose code is run as the gallery runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPLBACKEND", "Agg")
        path = Path(__file__).parents[2] / "examples" / f"{example}.py"
        found = runpy.run_path(str(path))[name]
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def test_every_figure_comes_in_all_formats_with_its_numbers(folder):
    for name, _ in reproduction.experiments(False, FEW):
        for extension in ("pdf", "svg", "png"):
            assert (folder / f"{name}.{extension}").stat().st_size > 1000
        assert len(rows(folder / f"{name}.csv")) > 4
    assert (folder / "stability_polynomial.pdf").read_bytes().startswith(b"%PDF")


def test_numbers_are_those_of_the_library(folder):
    table = rows(folder / "stability_polynomial.csv")
    assert len(table) == 4 * 4 * len(reproduction.INVERSE_PENALTIES)
    row = next(r for r in table if r["method"] == "ridge" and r["spectrum"] == "ν = 1")
    penalty = 1 / float(row["inverse_penalty"])
    s = np.sort(1 / np.arange(1, 101))
    a = reproduction.dense_signal()
    bias, variance = (
        np.sum((a * penalty / (s + penalty)) ** 2),
        np.sum(s / (s + penalty) ** 2) / 500,
    )
    assert float(row["bias"]) == pytest.approx(bias, rel=1e-12)
    assert float(row["variance"]) == pytest.approx(variance, rel=1e-12)
    heavy = {(r["curve"], float(r["x"])): r for r in rows(folder / "heavy_ball_constant.csv")}
    for curve, kappa, value, distance in (
        ("the paper's bound h(κ)", 1.0, 9.0827, 1e-4),
        ("one stop for each κ, μ/λ*", 100.0, 2.789, 0.02),
        ("best stop of each spectrum", 100.0, 1.907, 0.02),
    ):
        assert float(heavy[curve, kappa]["value"]) == pytest.approx(value, abs=distance)
    assert ("best stop of each spectrum", 2000.0) not in heavy


def test_summary_names_the_statements_and_figures(folder):
    text = (folder / "summary.md").read_text()
    for expected in (
        "| accelerated flow / ridge, best stop of each spectrum |",
        "| accelerated flow / ridge, one stop for all spectra |",
        "Theorem: parameter error bound for heavy ball | 25.0000 |",
        "stability_designs",
        "the ratio that the theorems of the paper bound",
    ):
        assert expected in text
    # no number of the paper is dropped without proofs, and bounds are rounded up
    printed = [claim for claim in summary.claims((1, 10, 100, 1000)) if claim.paper is not None]
    assert len(printed) == 17
    assert all(f"| {claim.statement} |" in text for claim in printed)
    start = "| heavy-ball flow / ridge, κ"
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith(start)]
    for kappa, best, one in zip((1, 10, 100, 1000), rows[::2], rows[1::2], strict=True):
        for row in (best, one):
            assert float(row[2]) >= stoptime.bounds.heavy_ball_theorem(kappa)


def few_bounds(monkeypatch):
    """The table of the constants of flows that are in print, without the heavy ball."""
    some = summary.claims(())[:6]
    monkeypatch.setattr(summary, "claims", lambda _: some)
    return stoptime.bounds.table


def test_certified_summary_and_figure(monkeypatch):
    pytest.importorskip("flint", reason='proofs need python-flint: pip install "stoptime[certify]"')
    proven = few_bounds(monkeypatch)()
    text = reproduction.summary([("figure", "caption")], proven)
    for kind, source in (
        (summary.BEST_STOP, "Theorem: risk inflation for accelerated flow"),
        (summary.ONE_STOP, "the same, by one stop"),
    ):
        assert f"| accelerated flow / ridge, {kind} | {source} | 1.5991 |" in text
    proofs, estimates = (
        np.array([value for *_, value in reproduction.heavy_ball_bound(c, [10.0]).rows])
        for c in (True, False)
    )
    # the bound and 1 + √κ, one stop to 3e-3, and the best stop to 1e-2
    np.testing.assert_array_less(np.abs(estimates / proofs - 1), [1e-15, 1e-15, 6e-3, 2e-2])
    assert np.all(np.diff(proofs) < 0)


def test_the_same_run_gives_the_same_bytes(folder, tmp_path):
    for path in dict(reproduction.experiments(False, FEW))["stability_designs"]().write(tmp_path):
        assert path.read_bytes() == (folder / path.name).read_bytes(), path.name


def test_command_line_reproduces(tmp_path, monkeypatch):
    fast = reproduction.experiments(False, FEW)[-1:]
    monkeypatch.setattr(reproduction, "experiments", lambda *_: fast)
    result = run("reproduce", "--no-certify", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "5 files in" in result.output
    assert (tmp_path / "out" / "summary.md").exists()


def test_command_line_bounds(monkeypatch):
    """Both readings of the theorem are printed; large condition numbers take longer."""
    pytest.importorskip("flint", reason='proofs need python-flint: pip install "stoptime[certify]"')
    monkeypatch.setattr(stoptime.bounds, "table", few_bounds(monkeypatch))
    result = run("bounds")
    assert result.exit_code == 0
    lines = {line.split("  ")[0]: line for line in result.output.splitlines()}
    assert "1.2676" in lines["accelerated flow / ridge, best stop of each spectrum"]
    assert "1.59910940" in lines["accelerated flow / ridge, one stop for all spectra"]
    assert "confirmed" in lines["gradient flow / ridge, one stop for all spectra"]


def test_a_missing_extra_is_named(monkeypatch):
    from stoptime.__main__ import main

    for name in [name for name in sys.modules if name.startswith("stoptime.cli")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as stop:
        main()
    assert 'pip install "stoptime[cli]"' in str(stop.value)


def test_simulated_runs_have_the_exact_risk():
    table = [r for r in drawn("from_flow_to_iteration") if r["panel"] == "risk"]
    assert len(table) == 3 * 61
    for row in table:
        error = float(row["two_standard_errors"]) / 2
        assert abs(float(row["value"]) - float(row["reference"])) <= 4.5 * error + 1e-9


def test_friction_buys_safety_and_calibration_closeness():
    inflation = {row["friction"]: row["inflation"] for row in drawn("safer_momentum")}
    assert inflation[3.0] == pytest.approx(1.5991094, abs=1e-6)
    assert inflation[5.0] == pytest.approx(1.2580520, abs=1e-6)
    distances = drawn("safer_momentum", "second_experiment")
    best = min(distances, key=lambda row: row["accelerated_flow"])
    assert best["c"] == pytest.approx(5.0002, rel=1e-6)
    assert best["accelerated_flow"] == pytest.approx(0.14061, abs=1e-5)


def test_simulated_batches_agree_with_the_exact_risk():
    table = [row for row in drawn("random_batches") if row["panel"] == "batches of 8"]
    exact = {row["steps"]: float(row["risk"]) for row in table if row["curve"] == "exact"}
    simulated = [row for row in table if row["curve"] == "simulated"]
    assert len(simulated) > 5
    for row in simulated:
        error = float(row["two_standard_errors"]) / 2
        assert abs(float(row["risk"]) - exact[row["steps"]]) < 4 * error


def test_no_method_pays_less_than_the_price_of_its_products():
    pytest.importorskip("flint", reason='proofs need python-flint: pip install "stoptime[certify]"')
    known = {"largest_eigenvalue": 1000.0, "penalty": 1.0}
    table = drawn("price_of_products")
    assert len({row["curve"] for row in table}) == 8
    for row in table:
        least = stoptime.bounds.price_of_products(int(row["products"]), **known)
        assert float(row["ratio"]) >= least.lower * (1 - 1e-12)
        if row["curve"] == "optimal iteration":
            assert float(row["ratio"]) == pytest.approx(least.upper, rel=1e-12)


def test_the_page_on_adam_says_what_the_figure_shows():
    best = {}
    worst = {}
    for row in drawn("what_adam_regularises"):
        key = row["panel"], row["curve"]
        best[key] = min(best.get(key, np.inf), float(row["value"]))
        worst[key] = max(worst.get(key, 0.0), float(row["value"]))
    equal, sparse = "Signal: coefficients of equal size", "Signal: one coefficient in ten"
    assert best[equal, "adam"] < 0.7 * best[equal, "ridge"]
    assert best[sparse, "adam"] > 1.8 * best[sparse, "ridge"]
    for signal in (equal, sparse):
        assert 0.9 < best[signal, "gradient-descent"] / best[signal, "ridge"] < 1.1
    assert worst["distance", "Adam, from ridge in its own metric"] < 0.1
    assert worst["distance", "gradient descent, from ridge"] < 0.1
    assert worst["distance", "Adam, from ridge"] > 0.5
