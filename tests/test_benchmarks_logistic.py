"""The study of cross-entropy: its problems, one small measurement, and its published page."""

import numpy as np
import pytest

from benchmarks.logistic import __main__ as study
from benchmarks.logistic import gpu, risk
from benchmarks.logistic.problems import problems


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_problems_are_many_and_reproducible():
    found = list(problems())
    assert len(found) >= 15
    shapes = {}
    for one in found:
        X, y = one.draw(0)
        again = one.draw(0)
        np.testing.assert_array_equal(X, again[0])
        assert len(y) > one.rows
        shapes[one.name] = X.shape[1] / one.rows, len(np.unique(y))
    aspects, classes = np.transpose(list(shapes.values()))
    assert aspects.min() <= 0.01
    assert aspects.max() >= 1.9
    assert (classes.min(), classes.max()) == (2, 100)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_measurement_has_every_number(monkeypatch):
    some = {study.OURS: "auto", study.PLAIN: study.METHODS[study.PLAIN]}
    monkeypatch.setattr(study, "METHODS", some)
    one = next(one for one in problems() if one.name == "wine")
    found = study.measured(type(one)(one.name, one.rows, one.draw, times=1))
    assert set(found["models"]) == {*some, study.PEER, study.SQUARED}
    assert all(np.isfinite(values).all() for values in found["models"].values())
    assert min(found["linearised"]) > 0
    perfect = np.eye(3)[[0, 1, 2, 0]]
    assert study.calibration_error(np.array([0, 1, 2, 0]), perfect, np.arange(3)) == 0
    assert study.calibration_error(np.array([1, 2, 0, 1]), perfect, np.arange(3)) == 1


def test_the_page_shows_the_stored_results():
    page = study.PAGE.read_text(encoding="utf-8")
    assert study.filled(page) == page
    with pytest.raises(ValueError, match="not enough values"):
        study.filled(page.replace("<!-- gpu -->", ""))


def test_the_simulation_finds_ridge_best_on_isotropic_signals(monkeypatch):
    monkeypatch.setattr(risk, "SETTINGS", {"isotropic, strong": (0.0, 0.0, 4.0)})
    monkeypatch.setattr(risk, "NEW", 2000)
    few = {name: risk.METHODS[name] for name in ("vanishing decay", "friction 3", "friction 9")}
    monkeypatch.setattr(risk, "METHODS", few)
    monkeypatch.setattr(risk, "COLOURS", {"ridge": ("#0072B2", "--")})
    found = risk.simulated(draws=2)
    ratios = [one[0] for one in found["ratios"]["isotropic, strong"].values()]
    assert 0.9 < min(ratios) <= max(ratios) < 1.2
    assert found["closest"][0][1] == pytest.approx(found["closest"][0][2], abs=2)
    assert risk.picture(found, "light").axes[0].get_legend() is not None


def test_the_script_for_the_gpu_runs_on_a_processor(capsys, monkeypatch):
    pytest.importorskip("torch")
    options = {"rows": 2000, "columns": 16, "classes": 5, "steps": 6, "device": "cpu"}
    given = ["gpu", *(f"--{name}={value}" for name, value in options.items())]
    monkeypatch.setattr("sys.argv", given)
    gpu.main()
    assert "6 steps" in capsys.readouterr().out
