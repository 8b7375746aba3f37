"""The benchmarks: how they measure, and that every published table is that of stored results."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.metrics.pairwise import laplacian_kernel

from benchmarks import __main__ as speed
from benchmarks import (
    cases,
    coverage,
    datasets,
    gpu,
    harness,
    inverse,
    kernel_study,
    kernel_times,
    limits,
    logistic,
    logistic_risk,
    problems,
    real_data,
)
from benchmarks.harness import Case, Work, filled, in_turns, load, measure, run_case, verdict

PAGES = (
    speed, real_data, gpu, coverage, datasets, inverse, kernel_study, kernel_times, limits,
    logistic, logistic_risk,
)  # fmt: skip


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


@pytest.mark.parametrize("module", PAGES, ids=lambda one: one.__name__)
def test_the_published_tables_are_those_of_the_stored_results(module):
    page = (harness.DOCS / module.PAGE).read_text(encoding="utf-8")
    assert filled(page, module.parts()) == page
    with pytest.raises(ValueError, match="not enough values"):
        filled(page, {"no such part": ""})


@pytest.mark.parametrize(("takes", "rounds"), [(0.5, 5), (4.0, 3), (30.0, 2), (90.0, 1)])
def test_competitors_take_turns_and_slow_ones_are_not_repeated(takes, rounds):
    clock = Clock()
    both = {"a": clock.worker(takes), "b": clock.worker(0.1)}
    times, answers = in_turns(both, 5, clock=clock)
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
    outcome = run_case(case, clock=clock)
    assert outcome["measures"][0]["value"] == pytest.approx(ratio)
    assert verdict(outcome) == found
    assert ("because" in harness.results([outcome])) == (found in {"LOSES", "below its goal"})


def test_what_fails_is_part_of_the_result():
    def fails():
        raise ValueError("no\nmore")

    outcome = run_case(Case("g", "n", "p", fails, "why"))
    assert (verdict(outcome), outcome["error"]) == ("FAILED", "ValueError: no")
    assert "failed: ValueError: no" in harness.results([outcome])
    extra = Work(lambda: 3, measures=lambda ours, _: (measure("things", ours, 2, "at most"),))
    assert verdict(run_case(Case("g", "n", "p", lambda: extra, "why"))) == "LOSES"


def test_every_case_has_a_reason_ready_and_a_name_of_its_own():
    every = list(cases.cases())
    every += [case for case in gpu.cases() if case.group == "gpu"]
    assert len({(one.group, one.name, one.peer) for one in every}) == len(every)
    assert all(one.why.endswith(".") for one in every)
    stored = {(one["group"], one["name"], one["peer"]) for one in load("cpu.json")["outcomes"]}
    assert stored <= {(one.group, one.name, one.peer) for one in every}
    assert harness.seconds(0.0123) == "12.3 ms"
    assert harness.rounded({"a": (1.23456, 2)}) == {"a": [1.235, 2]}


def test_figures_are_drawn_for_light_and_dark_pages(tmp_path):
    found = load("datasets.json")["data"][:3]
    harness.draw(datasets.errors(found), "e", tmp_path)
    assert {one.name for one in tmp_path.iterdir()} == {"e-light.svg", "e-dark.svg"}


def test_a_case_of_real_data_holds_the_answers_of_both():
    case = next(one for one in real_data.cases() if one.name == "linnerud, quadratic")
    outcome = run_case(case, longest=0.01)
    assert outcome["ours"]
    assert real_data.row(outcome)[1] == "20 × 9 × 3 targets"
    error, *scores = (one["value"] for one in outcome["measures"][1:4])
    assert 0.5 < error < 1.5
    assert json.loads(json.dumps(outcome)) == outcome
    X, y, new = real_data.generated(50, 8, decay=2)
    assert X.shape == (50, 8)
    assert LinearRegression().fit(X, y).score(*new) > 0.5
    assert np.isfinite(scores).all()


def test_limits_are_compared_with_random_designs():
    rows = limits.compare("AR(1)", 0.5, 120, 3, "HeavyBallFlow") + limits.compare(
        "AR(1)", 0.5, 120, 3, "NuMethod"
    )
    assert [row["method"][:5] for row in rows] == ["Heavy", "NuMet"]
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

    problem = problems.Problem("line", "kernel", load, kernel=laplacian_kernel, generated=True)
    one = datasets.cross_validated(problem, quick=True)
    assert set(one["models"]) == set(datasets.models_of(32, 32, kernel=True))
    assert max(found["error"] for found in one["models"].values()) < 0.3
    assert one["models"]["RidgeCV"]["difference"] == 0
    listed = list(problems.problems())
    assert len({one.name for one in listed}) == len(listed) >= 20
    quadratic = next(one for one in listed if one.name == "diabetes, quadratic")
    X, _ = quadratic.load(0)
    train, test = problems.prepared(quadratic, X[:100], X[100:])
    np.testing.assert_allclose(train.mean(axis=0), 0, atol=1e-10)
    assert abs(test.mean(axis=0)).max() > 0.01


def test_a_row_tested_twice_is_one_observation():
    losses = {"RidgeCV": np.zeros((2, 3)), "auto": np.array([[1.0, 2.0, 6.0], [3.0, 4.0, 8.0]])}
    times = {"RidgeCV": [1.0], "auto": [1.0, 5.0, 2.0]}
    once = datasets.compared(losses, times, 2.0, generated=False)["auto"]
    means = np.array([2.0, 3.0, 7.0])
    assert once["difference"] == pytest.approx(means.mean() / 2)
    assert once["standard_error"] == pytest.approx(means.std(ddof=1) / np.sqrt(3) / 2)


def test_the_excess_risk_is_that_of_new_rows():
    X, y, coef, variances = datasets.aligned(1.0, 0)
    assert variances @ coef**2 == pytest.approx(1)
    model = LinearRegression().fit(X, y)
    new = np.random.default_rng(1).standard_normal((40_000, len(coef))) * np.sqrt(variances)
    simulated = np.mean((model.predict(new) - new @ coef) ** 2)
    assert datasets.excess(model, coef, variances) == pytest.approx(simulated, rel=0.03)


def test_images_are_measured_along_rays():
    lengths = problems.tomography().sum(axis=1)
    assert 0 < lengths.min() < lengths.max() <= np.sqrt(2) + 0.01
    found = inverse.compare("deblurring", 16, 0)
    assert {one["rule"] for one in found} == {"discrepancy", "ncp", "l-curve", "path-gcv"}
    assert all(one["ratio"] > 0.99 for one in found)


@pytest.mark.parametrize("is_classes", [False, True])
def test_all_models_of_a_cut_see_numbers_text_and_gaps(rng, is_classes):
    numbers = rng.standard_normal((60, 2))
    codes = rng.integers(0, 3, 60).astype(float)
    y = numbers[:, 0] + (codes == 1) + 0.1 * rng.standard_normal(60)
    y = (y > 0.3).astype(int) if is_classes else y
    numbers[::7, 1] = np.nan
    codes[5] = np.nan
    data = kernel_study.Table("one", np.column_stack([numbers, codes]), 1, y, is_classes)
    names = [kernel_study.OURS, kernel_study.BOOSTING]
    names.append(kernel_study.LOGISTIC if is_classes else "RidgeCV")
    models = {name: {"0": one} for name, one in kernel_study.cut_of(data, names, 0).items()}
    entry = {"rows": 60, "columns": 3, "classes": 2 * is_classes, "models": models}
    errors = {name: np.array(one["0"]["errors"]) for name, one in models.items()}
    assert {name: len(one) for name, one in errors.items()} == dict.fromkeys(names, 5)
    expected = errors["stoptime"].mean() / errors["gradient boosting"].mean()
    ratio = kernel_study.ratio(entry, "stoptime")
    assert ratio == pytest.approx(expected if is_classes else np.sqrt(expected))
    assert kernel_study.spread(entry, "stoptime") > 0
    text = kernel_study.results({"one": entry}, classes=is_classes).replace("**", "")
    assert f"| one | 60 | 3 | {ratio:.2f} ±" in text
    assert ("Mean log loss: gradient boosting" in text) == is_classes


def test_a_table_of_a_package_has_numbers_then_codes():
    source = {"name": "iris", "package": "sklearn", "table": "iris", "left out": ""}
    table = kernel_study.table_of(source | {"response": "classes", "target": "target"})
    assert (table.columns.shape, table.text, set(table.y)) == ((150, 4), [], {0, 1, 2})


def test_the_page_says_which_tables_were_cut_how_often():
    cuts = {"few": (80, 5), "more": (200, 5), "many": (4000, 3)}
    entries = {
        name: {"rows": rows, "models": {"stoptime": dict.fromkeys(range(times))}}
        for name, (rows, times) in cuts.items()
    }
    said = kernel_study.cuts_of(entries)
    assert said.startswith("3 tables: 5 × 5 folds of the 2 tables of up to 200 rows, 3 × 5 folds")


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_measurement_of_classes_has_every_number():
    some = {logistic.OURS: "auto", logistic.PLAIN: logistic.METHODS[logistic.PLAIN]}
    one = next(one for one in problems.with_classes() if one.name == "wine")
    found = logistic.compared(replace(one, times=1), some)
    assert set(found["models"]) == {*some, logistic.PEER, logistic.SQUARED}
    assert all(np.isfinite(values).all() for values in found["models"].values())
    assert min(found["linearised"]) > 0
    perfect = np.eye(3)[[0, 1, 2, 0]]
    assert logistic.calibration_error(np.array([0, 1, 2, 0]), perfect, np.arange(3)) == 0
    assert logistic.calibration_error(np.array([1, 2, 0, 1]), perfect, np.arange(3)) == 1


def test_the_simulation_finds_ridge_best_on_isotropic_signals():
    names = ("vanishing decay", "friction 3", "friction 9")
    few = {name: logistic_risk.METHODS[name] for name in names}
    found = logistic_risk.simulated(2, {"isotropic, strong": (0.0, 0.0, 4.0)}, few)
    ratios = [one[0] for one in found["ratios"]["isotropic, strong"].values()]
    assert 0.9 < min(ratios) <= max(ratios) < 1.2
    assert found["closest"][0][1] == pytest.approx(found["closest"][0][2], abs=2)
    assert logistic_risk.picture(found).axes[0].get_legend() is not None


def test_the_case_of_cross_entropy_runs_on_a_processor_too():
    pytest.importorskip("torch")
    work = gpu.cross_entropy(2000, 16, 5, folds=5, steps=6, device="cpu")
    outcome = run_case(Case("logistic", "n", "p", lambda: work, "why", rounds=1))
    assert outcome["measures"][1] == measure("steps", 6)
