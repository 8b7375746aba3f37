"""The numbers of the README are those of the stored results."""

import importlib.util
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import gmean

from benchmarks import datasets, kernel_study, logistic, real_data
from benchmarks.harness import load
from helpers import run

ROOT = Path(__file__).parents[1]
TEXT = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


def test_kernels():
    """RMSE over that of gradient boosting, on every table of numbers up to 3000 rows."""
    tables = load("kernel_study.json").values()
    few = [one for one in tables if not one["classes"] and one["rows"] <= 3000]
    ratios = np.array([kernel_study.ratio(one, "stoptime") for one in few])
    assert f"On {len(ratios)} real tables" in TEXT
    assert f"{gmean(ratios):.2f} times that of default gradient boosting" in TEXT
    assert f"better on {np.count_nonzero(ratios < 1)}" in TEXT
    assert f"{ratios.max():.2f} times on the worst" in TEXT


def test_cross_entropy():
    data = load("logistic.json")["data"]
    loss = logistic.ratios(data, logistic.OURS)
    speed = 1 / logistic.ratios(data, logistic.OURS, place=2)
    worse = f"{gmean(loss):.2f} times that of `LogisticRegressionCV` on {len(data)} data sets"
    assert worse in TEXT
    assert f"{loss.max():.2f} times on the worst" in TEXT
    assert f"{np.median(speed):.0f} times as fast in the median" in TEXT


def test_linear_models():
    outcomes = load("real_data.json")["outcomes"]
    ratios = np.array([real_data.speed(one) for one in outcomes])
    assert f"Speed on {len(ratios)} problems: {np.median(ratios):.1f} times that of" in TEXT
    assert f"at least as fast on {100 * np.mean(ratios >= 1):.0f} %" in TEXT
    assert outcomes[ratios.argmin()]["name"] == "linnerud, splines"
    assert f"the slowest, splines of 20 rows, has {ratios.min():.2f} (" in TEXT


def test_accuracy_of_linear_models():
    found = load("datasets.json")
    data = found["data"]
    ratios = [one["models"]["auto"]["error"] / one["models"]["RidgeCV"]["error"] for one in data]
    assert f"on {len(data)} ordinary data sets the errors are equal" in TEXT
    assert f"{min(ratios):.2f} to {max(ratios):.2f} times" in TEXT
    verdicts = [datasets.verdict(one) for one in data]
    better, worse = verdicts.count("better"), verdicts.count("worse")
    assert f"better on {better} and worse on {worse} " in TEXT
    drawn = [one for one in found["synthetic"] if one["name"].startswith("a =")]
    risks = [one["models"]["auto"]["ratio"] for one in drawn]
    leaning = [one for one in risks if one < 0.99]  # where some directions are preferred
    assert f"excess risk is {min(leaning):.2f} to {max(leaning):.2f} times" in TEXT


def test_coverage():
    cells = load("coverage.json")["cells"]
    few = [one for one in cells if (one["n"], one["aspect"]) == (60, 0.95)]
    covered = [one["coverage"][1] for one in cells if one not in few]
    assert f"cover {min(covered):.1f} to {max(covered):.1f} % of new responses" in TEXT
    plain, nested = (min(one["coverage"][kind] for one in few) for kind in (1, 2))
    assert f"with 57 columns for 60 rows {plain:.1f} %, or {nested:.1f} % with" in TEXT


def test_large_data():
    outcomes = load("gpu.json")["outcomes"]
    large = next(one for one in outcomes if one["name"].startswith("default fit, large"))
    assert f"1 000 000 × 4096 takes {np.median(large['ours']):.1f} s on an H200" in TEXT


def test_the_constant_of_the_theorem():
    text = (ROOT / "docs" / "theorems.md").read_text(encoding="utf-8")
    quantity = r"<!-- risk_inflation\(AcceleratedFlow\(\), adaptive=True\)"
    upper = re.search(rf"\[[\d.]+, ([\d.]+)\]{quantity}", text)[1]
    assert f"holds with {upper} instead of 1.5991" in TEXT


def test_first_screen():
    words = (ROOT / "README.md").read_text(encoding="utf-8").split()
    assert len(words) <= 700
    assert TEXT.index("```python") < TEXT.index("## When it helps")


@pytest.mark.parametrize("link", re.findall(r"\]\(((?!http)[^)#]+)\)", TEXT))
def test_links_lead_to_files(link):
    assert (ROOT / link).exists()


def test_its_commands_run_as_those_of_the_wheel(tmp_path, monkeypatch):
    """``make test-dist`` runs them on the installed wheel, with the table that is written here."""
    path = ROOT / "tools" / "test_dist.py"
    spec = importlib.util.spec_from_file_location("test_dist", path)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    monkeypatch.chdir(tmp_path)
    tool.write_table(tmp_path / "data.csv")
    for command in tool.readme_commands():
        done = run(*shlex.split(command)[1:])
        assert done.exit_code == 0, done.output
    assert (tmp_path / "report.html").exists()
