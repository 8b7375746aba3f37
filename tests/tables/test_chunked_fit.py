"""Tables that are never in memory as a whole give what they give when they are."""

import json

import numpy as np
import pandas as pd
import pytest

import stoptime as st
from helpers import run
from stoptime.tables import assessment, recipe


def fit(*arguments):
    result = run("fit", *arguments)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(params=["csv", "tsv", "parquet", "semicolons"])
def table(request, tmp_path, rng, monkeypatch):
    monkeypatch.setattr(recipe, "TABLE_BLOCK_ROWS", 70)
    n = 500
    frame = pd.DataFrame(rng.normal(size=(n, 4)) + 3, columns=list("abcd"))
    frame["town"] = rng.choice(["Oslo", "Rome", "Bern"], n)
    frame["weight"] = rng.uniform(0.5, 2, n)
    frame["price"] = frame["a"] - frame["b"] + (frame["town"] == "Oslo") + rng.normal(size=n)
    frame.loc[[3, 444], "price"] = np.nan
    frame.loc[[5, 333], "c"] = np.nan
    path = tmp_path / f"table.{request.param if request.param != 'semicolons' else 'csv'}"
    if request.param == "parquet":
        frame.to_parquet(path, row_group_size=90)
    elif request.param == "semicolons":
        frame.to_csv(path, index=False, sep=";", decimal=",")
    else:
        frame.to_csv(path, index=False, sep="\t" if request.param == "tsv" else ",")
    return path


@pytest.mark.parametrize(
    "options", [[], ["--weights", "weight"], ["--missing", "drop", "--no-standardise"]]
)
def test_models_are_those_of_the_whole_table(table, options):
    arguments = [table, "--target", "price", "--rule", "path-gcv", "--json", *options]
    whole, chunked = (
        json.loads(fit(*arguments, mode).stdout) for mode in ("--in-memory", "--chunked")
    )
    assert chunked["rows"] == whole["rows"]
    assert float(chunked["stop"]) == pytest.approx(float(whole["stop"]), rel=1e-6)
    assert chunked["error"] == pytest.approx(whole["error"], rel=1e-9)
    assert chunked["coefficients"] == pytest.approx(whole["coefficients"], rel=1e-6, abs=1e-8)
    notes = [note for note in whole["messages"] if "left out" in note or "Missing" in note]
    assert notes
    assert set(notes) <= set(chunked["messages"])


def test_what_had_to_be_changed_is_told(table):
    result = fit(table, "--target", "price", "--chunked")
    assert '"path-gcv" is used instead' in result.stderr
    assert "Read in chunks: 498 rows" in result.stderr
    result = fit(table, "--target", "price", "--chunked", "--cv", "3")
    assert "cannot be shuffled" in result.stderr


def test_the_recipe_is_made_of_the_opening_rows(table, monkeypatch):
    monkeypatch.setattr(recipe, "OPENING_ROWS", 120)
    found = json.loads(fit(table, "--target", "price", "--chunked", "--json").stdout)
    assert found["rows"] == 498
    assert any("The first 119 rows" in note for note in found["messages"])


def test_report_model_and_predictions(table, tmp_path):
    names = {
        option: tmp_path / name for option, name in (("--report", "r.html"), ("--model", "m.json"))
    }
    written = [word for pair in names.items() for word in pair]
    out = tmp_path / "out.csv"
    fit(table, "--target", "price", "--chunked", *written, "--predict", table, "--out", out)
    model = st.load(names["--model"])
    assert len(pd.read_csv(out)) == 500
    assert model.coef.shape == (8,)  # four numbers, three towns, the weights
    code = names["--report"].read_text(encoding="utf-8")
    assert "in_memory=False" in code


@pytest.mark.parametrize("options", [["--cv", "3"], ["--missing", "drop"], ["--weights", "weight"]])
def test_the_code_of_the_report_fits_the_same_model(table, options, capsys):
    from stoptime.tables import Policy
    from stoptime.tables.fitting import Request, fit_table

    request = Request(
        str(table),
        "price",
        cv=3 if "--cv" in options else None,
        policy=Policy(missing="drop" if "drop" in options else "impute"),
        weights="weight" if "weight" in options else None,
        in_memory=False,
    )
    fitted = fit_table(request)
    exec(compile(fitted.request.code(), "code", "exec"), {})  # noqa: S102 - it is what the report shows
    stop, error = fitted.model.stop_, fitted.model.choice_.error
    assert f"stop {stop:.6g}, error {error:.6g}" in capsys.readouterr().out


def test_files_are_read_in_chunks_where_memory_is_short(table, monkeypatch):
    monkeypatch.setattr(assessment, "free_memory", lambda: 1000)
    assert "Read in chunks" in fit(table, "--target", "price").stderr
    assert "Read in chunks" not in fit(table, "--target", "price", "--in-memory").stderr


def test_a_word_among_numbers_far_down_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(recipe, "OPENING_ROWS", 50)
    monkeypatch.setattr(recipe, "TABLE_BLOCK_ROWS", 50)
    rows = [f"{i},{i % 7},{i % 3}" for i in range(200)]
    rows[150] = "150,oops,1"
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["y,a,b", *rows]))
    result = run("fit", path, "--target", "y", "--chunked")
    assert result.exit_code == 1
    assert '"a"' in result.output
