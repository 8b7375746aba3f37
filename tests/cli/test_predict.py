"""The command ``stoptime predict``, and files that exist already."""

import json
import os
import shlex
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import stoptime as st
from helpers import run
from stoptime.cli import app


def stoptime(line):
    return run(*shlex.split(line))


@pytest.fixture
def folder(tmp_path, rng, monkeypatch):
    """A table with decimal commas, new rows of it, and a model."""
    monkeypatch.chdir(tmp_path)
    n = 50
    frame = pd.DataFrame(
        {"Größe": rng.normal(100, 30, n).round(2), "Ort": rng.choice(["Köln", "Bonn"], n)}
    )
    frame["Preis"] = (
        3 * frame["Größe"] + 40 * (frame["Ort"] == "Köln") + rng.normal(size=n)
    ).round(2)
    options = {"index": False, "sep": ";", "decimal": ",", "encoding": "cp1252"}
    frame.to_csv("houses.csv", **options)
    frame.drop(columns="Preis").head(6).to_csv("new.csv", **options)
    result = stoptime("fit houses.csv -t Preis --model model.json --no-compare")
    assert result.exit_code == 0, result.output
    return tmp_path


@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.parquet"])
def test_predictions_come_with_the_columns_of_the_table(folder, name):
    result = stoptime(f"predict model.json new.csv --out {name}")
    assert result.exit_code == 0, result.output
    assert "note: new.csv is not UTF-8" in result.stderr
    found = st.tables.read_table(folder / name).frame
    assert list(found) == ["Größe", "Ort", "prediction", "lower", "upper"]
    table = st.tables.read_table("new.csv").frame
    assert found["Größe"].tolist() == table["Größe"].tolist()  # as it was written
    model = st.load("model.json")
    np.testing.assert_allclose(found["prediction"].astype(float), model.predict(table))
    ends = st.predict_interval(model, table)
    np.testing.assert_allclose(found[["lower", "upper"]].astype(float), ends)


@pytest.mark.usefixtures("folder")
def test_fit_and_predict_give_the_same_and_read_standard_input():
    at_once = stoptime("fit houses.csv -t Preis --no-compare --predict new.csv --out -").stdout
    with open("new.csv", "rb") as file:  # noqa: PTH123
        later = CliRunner().invoke(app, ["predict", "model.json", "-"], input=file.read()).stdout
    first, second = (pd.read_csv(pd.io.common.StringIO(one)) for one in (at_once, later))
    np.testing.assert_allclose(first["prediction"], second["prediction"], rtol=1e-12)


@pytest.mark.usefixtures("folder")
def test_rows_that_a_fit_would_drop_have_no_prediction():
    stoptime("fit houses.csv -t Preis --missing drop --no-compare --model whole.json")
    table = pd.DataFrame(
        {"Größe": ["90,5", None], "Ort": ["Köln", "Bonn"], "prediction": ["a", "b"]}
    )
    table.to_csv("gaps.csv", index=False, sep=";")
    found = json.loads(stoptime("predict whole.json gaps.csv --json").stdout)
    assert [row["prediction_by_stoptime"] is None for row in found["predictions"]] == [False, True]
    told = " ".join(found["messages"])
    assert "No prediction for 1 of 2 rows" in told
    assert 'already: that of the model is "prediction_by_stoptime"' in told


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda frame: frame.drop(columns="Ort"), 'bad.csv: There is no column "Ort"'),
        (lambda frame: frame.assign(Größe="groß"), 'bad.csv: Column "Größe" must hold numbers'),
    ],
)
@pytest.mark.usefixtures("folder")
def test_errors_name_the_file(change, words):
    change(pd.read_csv("new.csv", sep=";", encoding="cp1252")).to_csv("bad.csv", index=False)
    result = stoptime("predict model.json bad.csv")
    assert result.exit_code == 1
    assert words in result.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("model.json new.csv --out new.csv --force", "is also read"),
        ("model.json new.csv --interval 0", "between 0 and 1"),
        ("model.json new.csv --out p.json", "must end in .csv"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_wrong_calls(options, words):
    result = stoptime(f"predict {options}")
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.replace("│", " ").split())


FILES = {  # each is written by a command that ends in its name
    "m.json": "fit houses.csv -t Preis -m ridge --no-compare --model",
    "r.html": "fit houses.csv -t Preis -m ridge --no-compare --report",
    "p.csv": "predict model.json new.csv --out",
    "x.html": "explore --no-open --out",
    "p.png": "plan --penalty 0.01 --lr 1 --out",
}


@pytest.mark.parametrize("name", FILES)
def test_no_command_overwrites_a_file_without_force(folder, name):
    (folder / name).write_text("old")
    result = stoptime(f"{FILES[name]} {name}")
    assert result.exit_code == 2
    assert f"{name} exists: add --force" in " ".join(result.stderr.replace("│", " ").split())
    assert (folder / name).read_text() == "old"
    assert stoptime(f"{FILES[name]} {name} --force").exit_code == 0
    assert (folder / name).read_bytes() != b"old"


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 2)])
def test_a_terminal_is_asked_before_a_file_is_overwritten(folder, monkeypatch, answer, code):
    (folder / "p.csv").write_text("old")
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("stoptime.cli.terminal.sys", terminal)
    result = CliRunner().invoke(app, [*shlex.split(FILES["p.csv"]), "p.csv"], input=answer)
    assert result.exit_code == code
    assert "p.csv exists. Overwrite it?" in result.stderr
    assert ((folder / "p.csv").read_bytes() == b"old") == (code == 2)


def test_an_output_that_fails_at_the_end_costs_nothing_else(folder, monkeypatch):
    def full(*_):
        raise OSError(28, os.strerror(28), ".p-0123456789abcdef.csv")

    monkeypatch.setattr("stoptime.cli.terminal.write_predictions", full)
    result = stoptime(
        "fit houses.csv -t Preis --predict new.csv --out p.csv --model m.json --report r.html "
        "--no-compare"
    )
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == (
        "stoptime: p.csv could not be written: No space left on device."
    )
    assert "typical error" in result.stdout
    assert "wrote m.json\nwrote r.html\n" in result.stdout
    assert not [one for one in folder.iterdir() if one.name.startswith((".", "p."))]


def test_help_has_examples():
    for command in ("fit", "predict", "plan", "bounds", "reproduce", "explore"):
        text = stoptime(f"{command} --help").stdout
        assert f"stoptime {command}" in text
