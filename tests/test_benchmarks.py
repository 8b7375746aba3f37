"""The benchmarks: how they measure, and that every published table is that of stored results."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.metrics.pairwise import laplacian_kernel

import stoptime as st
from benchmarks import cases, coverage, inverse, limits, page, real_data
from benchmarks.harness import (
    Case,
    Settings,
    Work,
    interleaved,
    load,
    measure,
    rounded,
    run_case,
    seconds,
    verdict,
)  # fmt: skip
from benchmarks.study import inverse as problems_of_images
from benchmarks.study import measure as study
from benchmarks.study import models, report
from benchmarks.study.problems import Problem, prepared, problems

DOCS = page.ROOT / "docs"


class Clock:
    """A clock that moves only while somebody works."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def worker(self, takes):
        def work():
            self.now += takes
            return takes

        return work


@pytest.mark.parametrize(("takes", "rounds"), [(0.5, 5), (4.0, 3), (30.0, 2), (90.0, 1)])
def test_competitors_take_turns_and_slow_ones_are_not_repeated(takes, rounds):
    clock = Clock()
    settings = Settings(1, clock=clock)
    times, answers = interleaved({"a": clock.worker(takes), "b": clock.worker(0.1)}, 5, settings)
    assert times["a"] == pytest.approx([takes] * rounds)
    assert len(times["b"]) == 5
    assert answers == {"a": takes, "b": 0.1}


@pytest.mark.parametrize(
    ("sense", "goal", "ratio", "found"),
    [
        ("at least", 1.0, 4.0, "holds"),
        ("at least", 10.0, 4.0, "below its goal"),
        ("at most", 0.1, 0.25, "LOSES"),
        ("at most", None, 0.25, "no goal"),
    ],
)
def test_a_case_compares_the_best_rounds_with_its_goal(sense, goal, ratio, found):
    clock = Clock()
    work = Work(clock.worker(1.0), clock.worker(2.0), share=0.5)
    case = Case("group", "name", "peer", lambda: work, "because", goal, sense)
    outcome = run_case(case, Settings(1, clock=clock))
    assert outcome["measures"][0]["value"] == pytest.approx(ratio)
    assert verdict(outcome) == found
    assert ("because" in "".join(page.table([outcome]))) == (found in {"LOSES", "below its goal"})


def test_what_fails_or_is_missing_is_part_of_the_result():
    def fails():
        raise ValueError("no\nmore")

    outcome = run_case(Case("g", "n", "p", fails, "why"), Settings(1))
    assert (verdict(outcome), outcome["error"]) == ("FAILED", "ValueError: no")
    needs = run_case(Case("g", "n", "p", fails, "why", needs=("no_such_module",)), Settings(1))
    assert verdict(needs) == "not run"
    assert "no_such_module" in page.row(needs)
    extra = Work(lambda: 3, measures=lambda ours, _: (measure("things", ours, 2, "at most"),))
    assert verdict(run_case(Case("g", "n", "p", lambda: extra, "why"), Settings(1))) == "LOSES"


def test_every_case_has_a_reason_ready_and_a_name_of_its_own():
    every = cases.all_cases(quick=False)
    assert len({(one.group, one.name, one.peer) for one in every}) == len(every)
    assert all(one.why.endswith(".") for one in every)
    assert seconds(0.0123) == "12.3 ms"
    assert rounded({"a": (1.23456, 2)}) == {"a": [1.235, 2]}


def test_the_published_pages_are_those_of_the_stored_results():
    assert (DOCS / "benchmarks.md").read_text(encoding="utf-8") == page.text()
    assert (DOCS / "datasets.md").read_text(encoding="utf-8") == report.text(load("datasets.json"))
    rows = load("limits.json")
    assert limits.table(rows) in (DOCS / "beyond.md").read_text(encoding="utf-8")
    assert coverage.table() in (DOCS / "left_out.md").read_text(encoding="utf-8")
    assert inverse.table() in (DOCS / "stopping.md").read_text(encoding="utf-8")


def test_figures_are_drawn_for_light_and_dark_pages(tmp_path):
    assert page.ratios(load("cpu.json")["outcomes"], "dark").axes
    assert len(real_data.heat_map(load("real_data.json")["cells"], "light").axes) == 5
    page.draw(lambda shade: report.errors(load("datasets.json")["data"][:3], shade), tmp_path, "e")
    assert {one.name for one in tmp_path.iterdir()} == {"e-light.svg", "e-dark.svg"}


def test_a_cell_of_real_data_holds_the_answers_of_both():
    place = next(one for one in real_data.places() if one.row == "linnerud")
    cell = real_data.measured(place, Settings(1, longest=0.01))
    assert cell["failed"] == ""
    assert real_data.times_as_fast(cell) > 0
    assert 0.5 < real_data.times_the_error(cell) < 1.5
    rows = real_data.generated(50, 8, decay=2)
    assert rows.X.shape == (50, 8)
    assert rows.score(LinearRegression().fit(rows.X, rows.y)) > 0.5
    assert json.loads(json.dumps(cell)) == cell


def test_limits_are_compared_with_random_designs(monkeypatch):
    chosen = [st.HeavyBallFlow(0.5), st.NuMethod(0.02)]
    monkeypatch.setattr(limits, "methods", lambda *_: chosen)
    rows = limits.compare("AR(1)", 0.5, 120, 3)
    assert [row["method"] for row in rows] == [str(one) for one in chosen]
    # terms of order 1/n remain
    assert all(row["quadrature"] < 1e-6 and row["beyond"] < 5 / 120 for row in rows)


def test_every_saved_limit_agrees_with_simulation():
    """Within one percent or three standard errors; else without the effect of order 1/n."""
    rows = load("limits.json")
    assert len(rows) == 325
    missed = [row for row in rows if row["beyond"] > 0]
    assert len(missed) == 3
    assert {row["covariance"] for row in missed} == {"spiked"}
    assert all(row["method"].startswith("HeavyBall") for row in missed)
    assert all(row["extrapolated_beyond"] == 0 for row in missed)
    assert max(row["quadrature"] for row in rows) < 4e-7


def test_the_study_compares_every_model_on_the_same_rows():
    def load(seed):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((40, 2))
        return X, X[:, 0] + 0.1 * rng.standard_normal(40)

    problem = Problem("line", "kernel", load, kernel=laplacian_kernel, generated=True)
    one = study.cross_validated(problem, quick=True)
    assert set(one["models"]) == set(models.kernel())
    assert max(found["error"] for found in one["models"].values()) < 0.3
    assert one["models"]["RidgeCV"]["difference"] == 0
    names = [one.name for one in problems()]
    assert len(set(names)) == len(names) >= 20
    quadratic = next(one for one in problems() if one.name == "diabetes, quadratic")
    X, _ = quadratic.load(0)
    train, test = prepared(quadratic, X[:100], X[100:])
    np.testing.assert_allclose(train.mean(axis=0), 0, atol=1e-10)
    assert abs(test.mean(axis=0)).max() > 0.01


def test_a_row_tested_twice_is_one_observation():
    losses = {"RidgeCV": np.zeros((2, 3)), "auto": np.array([[1.0, 2.0, 6.0], [3.0, 4.0, 8.0]])}
    times = {"RidgeCV": [1.0], "auto": [1.0, 5.0, 2.0]}
    once = study.compared(losses, times, 2.0, generated=False)["auto"]
    means = np.array([2.0, 3.0, 7.0])
    assert once["difference"] == pytest.approx(means.mean() / 2)
    assert once["standard_error"] == pytest.approx(means.std(ddof=1) / np.sqrt(3) / 2)


def test_the_excess_risk_is_that_of_new_rows():
    X, y, coef, variances = study.aligned(1.0, 0)
    assert variances @ coef**2 == pytest.approx(1)
    model = LinearRegression().fit(X, y)
    new = np.random.default_rng(1).standard_normal((40_000, len(coef))) * np.sqrt(variances)
    simulated = np.mean((model.predict(new) - new @ coef) ** 2)
    assert study.excess(model, coef, variances) == pytest.approx(simulated, rel=0.03)


def test_images_are_measured_along_rays():
    lengths = problems_of_images.tomography().sum(axis=1)
    assert 0 < lengths.min() < lengths.max() <= np.sqrt(2) + 0.01
    found = inverse.compare("deblurring", 16, 0)
    assert {one["rule"] for one in found} == {"discrepancy", "ncp", "l-curve", "path-gcv"}
    assert all(one["ratio"] > 0.99 for one in found)


def test_times_of_kernels_on_the_page_are_those_of_the_stored_run():
    small, large, landmarks = load("kernel_times.json")["cases"]
    text = (DOCS / "kernels.md").read_text(encoding="utf-8")
    for n, case in ((1000, small), (3000, large)):
        row = f"| {n} rows, default call | {case['seconds']:.2g} | "
        assert row in text
        assert f"{case['one eigendecomposition']:.2g}" in text.split(row)[1].splitlines()[0]
    row = f"landmarks, given kernel, all stops and methods | {landmarks['seconds']:.0f} | "
    assert row in text
    assert text.split(row)[1].splitlines()[0].endswith(f": {landmarks['bare algebra']:.0f} |")
