"""The study of kernels: its measurements, what is run again, and its page."""

import json

import numpy as np
import pytest

from benchmarks import kernel_study
from benchmarks.kernel_tables import place


@pytest.fixture
def tables(rng, tmp_path):
    """Write tables of numbers, text and gaps, with a number or with classes to predict."""
    numbers = rng.standard_normal((60, 2))
    codes = rng.integers(0, 3, (60, 1))
    y = numbers[:, 0] + (codes[:, 0] == 1) + 0.1 * rng.standard_normal(60)
    numbers[::7, 1] = np.nan
    codes[5] = -1
    for name, response in (("numbers", y), ("labels", (y > 0.3).astype(np.int64))):
        columns = {"numbers": numbers, "codes": codes, "y": response}
        np.savez(place(tmp_path, name), **columns, is_classes=name == "labels")
    return [place(tmp_path, name) for name in ("numbers", "labels")]


def test_results_are_stored_compared_and_not_run_twice(tables, tmp_path, capsys, monkeypatch):
    lines = tmp_path / "study.jsonl"
    names = [kernel_study.OURS, kernel_study.BOOSTING, "RidgeCV", kernel_study.LOGISTIC]
    tasks = kernel_study.all_tasks(tables, names, repeats=1)
    kernel_study.run(tmp_path, tasks, 1, 0.0, lines)
    assert capsys.readouterr().out == "30 fits are left\n"  # time was up before the first
    kernel_study.run(tmp_path, tasks, 1, 300.0, lines)
    assert capsys.readouterr().out.count(" s\n") == len(tasks) == 6 * 5
    kernel_study.run(tmp_path, tasks, 1, 300.0, lines)
    assert capsys.readouterr().out == "0 fits are left\n"
    found = kernel_study.gathered(kernel_study.lines_of(lines))
    entry = found["numbers"]
    assert (entry["rows"], entry["columns"], entry["classes"]) == (60, 3, 0)
    errors = {name: np.array(one["0"]["errors"]) for name, one in entry["models"].items()}
    assert {name: len(one) for name, one in errors.items()} == dict.fromkeys(errors, 5)
    expected = np.sqrt(errors["stoptime"].mean() / errors["gradient boosting"].mean())
    ratio = kernel_study.ratio(entry, "stoptime", "gradient boosting")
    assert ratio == pytest.approx(expected)
    assert kernel_study.spread(entry, "stoptime", "gradient boosting") > 0
    page = tmp_path / "page.md"
    page.write_text(
        "Before.\n<!-- regression -->\nearlier\n<!-- end of regression -->\n"
        "<!-- classes -->\nearlier\n<!-- end of classes -->\nAfter.\n"
    )
    monkeypatch.setattr(kernel_study, "PAGE", page)
    kernel_study.page(found)
    kernel_study.page(found)  # which changes nothing
    text = page.read_text()
    assert text.startswith("Before.\n")
    assert text.endswith("After.\n")
    assert "earlier" not in text
    assert f"| numbers | 60 | 3 | {ratio:.2f} ±" in text.replace("**", "")
    assert "Mean log loss: gradient boosting" in text


def test_the_published_page_shows_the_stored_results(monkeypatch, tmp_path):
    copy = tmp_path / "kernels.md"
    published = kernel_study.PAGE.read_text(encoding="utf-8")
    copy.write_text(published, encoding="utf-8")
    monkeypatch.setattr(kernel_study, "PAGE", copy)
    kernel_study.page(json.loads(kernel_study.RESULTS.read_text()))
    assert copy.read_text(encoding="utf-8") == published
