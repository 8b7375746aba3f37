"""The numbers of the README are those of the stored results."""

import importlib.util
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import gmean

from benchmarks import kernel_study, real_data
from helpers import run

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
TEXT = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


def stored(name):
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def kernel_ratios():
    """Return RMSE over that of gradient boosting, for every table of numbers up to 3000 rows."""
    tables = stored("kernel_study.json").values()
    few = [one for one in tables if not one["classes"] and one["rows"] <= 3000]
    return np.array([kernel_study.ratio(one, "stoptime") for one in few])


def test_kernels():
    ratios = kernel_ratios()
    mean = gmean(ratios)
    assert f"On {len(ratios)} real tables" in TEXT
    assert f"{mean:.2f} times that of default gradient boosting" in TEXT
    assert f"better on {np.count_nonzero(ratios < 1)}" in TEXT
    assert f"{ratios.max():.2f} times on the worst" in TEXT


def test_cross_entropy():
    page = (ROOT / "docs" / "logistic.md").read_text(encoding="utf-8")
    found = re.search(
        r"By default the log loss is ([\d.]+) times the peer's in the geometric mean, ([\d.]+) "
        r"times at most.*? The fit is ([\d.]+) times as fast in the median",
        page,
    )
    sets = re.search(r"On (\d+) data sets, beside", page)[1]
    ratio, worst, speed = found.groups()
    assert f"{float(ratio):.2f} times that of `LogisticRegressionCV` on {sets} data sets" in TEXT
    assert f"{float(worst):.2f} times on the worst" in TEXT
    assert f"{float(speed):.0f} times as fast in the median" in TEXT


def test_linear_models():
    cells = stored("real_data.json")["cells"]
    ratios = np.array([real_data.times_as_fast(cell) for cell in cells if not cell["failed"]])
    assert f"Speed on {len(ratios)} problems: {np.median(ratios):.1f} times that of" in TEXT
    assert f"at least as fast on {100 * np.mean(ratios >= 1):.0f} %" in TEXT
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    slowest = re.search(r'slowest on "wine, raw" \(([\d.]+) times\)', page)[1]
    assert f"the slowest, the raw wine data, has {slowest} (" in TEXT


def test_accuracy_of_linear_models():
    found = stored("datasets.json")
    parts = [one["models"]["auto"] for one in found["data"]]
    ridge = [one["models"]["RidgeCV"] for one in found["data"]]
    ratios = [own["error"] / other["error"] for own, other in zip(parts, ridge, strict=True)]
    sure = [own["difference"] / own["standard_error"] for own in parts]
    assert f"on {len(parts)} ordinary data sets the errors are equal" in TEXT
    assert f"{min(ratios):.2f} to {max(ratios):.2f} times" in TEXT
    better, worse = (sum(sign * one > 1 for one in sure) for sign in (-1, 1))
    assert f"better on {better} and worse on {worse} " in TEXT
    drawn = [one for one in found["synthetic"] if one["name"].startswith("a =")]
    risks = [one["models"]["auto"]["ratio"] for one in drawn]
    leaning = [one for one in risks if one < 0.99]  # where some directions are preferred
    assert f"excess risk is {min(leaning):.2f} to {max(leaning):.2f} times" in TEXT


def test_coverage():
    cells = stored("coverage.json")["cells"]
    few = [one for one in cells if (one["n"], one["aspect"]) == (60, 0.95)]
    covered = [one["coverage"][1] for one in cells if one not in few]
    assert f"cover {min(covered):.1f} to {max(covered):.1f} % of new responses" in TEXT
    plain, nested = (min(one["coverage"][kind] for one in few) for kind in (1, 2))
    assert f"with 57 columns for 60 rows {plain:.1f} %, or {nested:.1f} % with" in TEXT


def test_large_data():
    outcomes = stored("gpu.json")["outcomes"]
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
