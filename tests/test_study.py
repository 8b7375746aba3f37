"""The study of prediction errors: its data, its comparison and its page."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.metrics.pairwise import laplacian_kernel

from benchmarks import datasets
from benchmarks.study import inverse, measure, models, report
from benchmarks.study.problems import Problem, prepared, problems

PUBLISHED = Path(datasets.RESULTS) / "datasets.json"


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    monkeypatch.setattr(datasets, "QUICK", ("linnerud",))
    monkeypatch.setattr(datasets, "RESULTS", tmp_path)
    monkeypatch.setattr(measure, "ALIGNMENTS", {"a = 1": 1.0})
    monkeypatch.setattr(measure, "ROWS", 40)
    monkeypatch.setattr(measure, "COLUMNS", 10)
    return tmp_path


def test_a_quick_study_is_stored_and_not_published(tiny, capsys):
    assert datasets.main(["--quick"]) == 0
    assert [file.name for file in tiny.iterdir()] == ["datasets-quick.json"]
    results = json.loads((tiny / "datasets-quick.json").read_text(encoding="utf-8"))
    (one,) = results["data"]
    assert (one["n"], one["p"], one["repeats"]) == (20, 3, 1)
    assert set(one["models"]) == set(models.linear(16, 3))
    assert sum(one["chosen"].values()) == measure.FOLDS
    assert one["models"]["RidgeCV"]["difference"] == 0
    assert all(found["seconds"] > 0 for found in one["models"].values())
    (risks,) = results["synthetic"]
    assert risks["models"]["RidgeCV"]["ratio"] == 1
    assert "linnerud: auto / RidgeCV" in capsys.readouterr().out


def test_every_kernel_model_sees_the_same_matrix():
    def load(seed):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((40, 2))
        return X, X[:, 0] + 0.1 * rng.standard_normal(40)

    one = measure.cross_validated(
        Problem("line", "kernel", load, kernel=laplacian_kernel, generated=True), quick=True
    )
    assert set(one["models"]) == set(models.kernel())
    errors = [found["error"] for found in one["models"].values()]
    assert max(errors) < 0.3


def test_kernel_features_reproduce_the_kernel():
    X = np.random.default_rng(0).standard_normal((30, 2))
    K = laplacian_kernel(X)
    features = models.KernelFeatures().fit(K[:20, :20])
    product = features.transform(K[20:, :20]) @ features.transform(K[:20, :20]).T
    np.testing.assert_allclose(product, K[20:, :20], rtol=1e-10)


def test_a_row_tested_twice_is_one_observation():
    losses = {"RidgeCV": np.zeros((2, 3)), "auto": np.array([[1.0, 2.0, 6.0], [3.0, 4.0, 8.0]])}
    seconds = {"RidgeCV": [1.0], "auto": [1.0, 5.0, 2.0]}
    once = measure.compared(losses, seconds, 2.0, generated=False)["auto"]
    means = np.array([2.0, 3.0, 7.0])
    assert once["difference"] == pytest.approx(means.mean() / 2)
    assert once["standard_error"] == pytest.approx(means.std(ddof=1) / np.sqrt(3) / 2)
    assert once["seconds"] == 2
    drawn = measure.compared(losses, seconds, 2.0, generated=True)["auto"]
    assert drawn["difference"] == once["difference"]
    assert drawn["standard_error"] < once["standard_error"]


def test_the_excess_risk_is_that_of_new_rows():
    X, y, coef, variances = measure.aligned(1.0, 0)
    assert variances @ coef**2 == pytest.approx(1)
    model = LinearRegression().fit(X, y)
    new = np.random.default_rng(1).standard_normal((40_000, len(coef))) * np.sqrt(variances)
    simulated = np.mean((model.predict(new) - new @ coef) ** 2)
    assert measure.excess(model, coef, variances) == pytest.approx(simulated, rel=0.03)


def test_the_second_derivative_is_inverted():
    x, _, _ = inverse.grid()
    A = inverse.second_derivative()
    bent = -(np.pi**2) * np.sin(np.pi * x)
    np.testing.assert_allclose(A @ bent, np.sin(np.pi * x), atol=1e-4)


def test_rays_have_their_length_inside_the_image():
    lengths = inverse.tomography().sum(axis=1)
    assert lengths.max() <= np.sqrt(2) + 0.01
    assert lengths.min() > 0


def test_inverse_problems_draw_new_noise_for_each_seed():
    for load in inverse.PROBLEMS.values():
        A, y = load(0)
        other, z = load(1)
        np.testing.assert_array_equal(A, other)
        assert 0.001 < np.std(y - z) / np.std(y) < 0.05


def test_preparation_is_fitted_to_the_training_rows():
    one = next(one for one in problems() if one.name == "diabetes, quadratic")
    X, _ = one.load(0)
    train, test = prepared(one, X[:100], X[100:])
    np.testing.assert_allclose(train.mean(axis=0), 0, atol=1e-10)
    assert abs(test.mean(axis=0)).max() > 0.01


def test_data_of_a_package_that_is_not_there_are_skipped():
    one = Problem("a", "shipped", lambda _: None, package="no_such_package")
    assert one.missing == "pip install no_such_package"
    assert not replace(one, package="numpy").missing


def test_a_penalty_at_the_end_of_the_grid_is_noticed():
    X = np.random.default_rng(0).standard_normal((30, 3))
    assert models.at_edge(RidgeCV(models.PENALTIES).fit(X, X @ [1.0, 2.0, 3.0]))


def test_names_are_unique_and_there_are_enough():
    names = [one.name for one in problems()]
    assert len(set(names)) == len(names) >= 20
    assert set(datasets.QUICK) <= set(names)


def test_the_committed_page_is_that_of_the_committed_results():
    results = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    page = (report.ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
    assert page == report.text(results)


def test_the_page_shows_losses_and_gaps():
    results = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    first = results["data"][0]
    first["models"]["auto"] |= {"difference": 3.0, "standard_error": 1.0}
    results["missing"] = [{"name": "far away", "missing": "pip install it"}]
    text = report.text(results)
    assert f"| {first['name'].replace(' ', ' ')} |" in text
    assert "more than one standard error is missed" in text
    assert "- far away: not run (pip install it)" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.endswith("|") for line in rows)


def test_figures_are_drawn(tmp_path):
    report.write(PUBLISHED, tmp_path)
    for name in ("errors-light", "errors-dark", "risks-light", "risks-dark"):
        assert (tmp_path / report.FIGURES / f"{name}.svg").stat().st_size > 5000
