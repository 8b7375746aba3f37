"""The command ``stoptime`` as people use it: results, mistakes, files, pipes and Ctrl-C."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import stoptime as st
from helpers import run
from stoptime.cli import app


def stoptime(line):
    return run(*shlex.split(line))


def told(line):
    """Return what a command prints as JSON."""
    result = stoptime(f"{line} --json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def in_words(result):
    """Return an error of usage without its frame."""
    return " ".join(result.stderr.replace("│", " ").split())


@pytest.fixture
def houses(tmp_path, monkeypatch):
    """A table with decimal commas in an old encoding, new rows, and a folder to work in."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(20220)
    n = 60
    size = rng.normal(100, 30, n).round(2)
    town = rng.choice(["Köln", "Rom"], n)
    price = (3 * size + 50 * (town == "Köln") + rng.normal(0, 20, n)).round(2)
    frame = pd.DataFrame({"size": size, "Ort": town, "price": price})
    frame["cheap"] = np.where(price < 300, "yes", "no")
    frame.loc[2, "size"] = np.nan
    options = {"index": False, "sep": ";", "decimal": ",", "encoding": "cp1252"}
    frame.to_csv("houses.csv", **options)
    frame.head(5).drop(columns=["price", "cheap"]).to_csv("new.csv", **options)
    return tmp_path


def test_help_and_version_are_told_without_loading_the_library():
    code = (
        "import sys, stoptime.cli; print(sorted({'numpy', 'sklearn', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"
    assert stoptime("--version").stdout.strip() == st.__version__
    for command in ("fit", "predict", "plan", "bounds", "reproduce", "explore"):
        assert f"stoptime {command}" in stoptime(f"{command} --help").stdout


def test_runs_with_no_file_and_prints_a_compact_table():
    result = stoptime("fit diabetes -m nesterov-flow")
    assert result.exit_code == 0, result.output
    words = ["accelerated-flow (friction 3)", "by leave-one-out", "mean absolute", "alpha"]
    words += ["per standardised column  in original units", "ridge, as RidgeCV", "minus that of"]
    assert [one for one in words if one not in result.stdout] == []
    assert max(map(len, result.stdout.splitlines())) <= 120


def test_the_commands_of_the_page_run(tmp_path, monkeypatch, rng):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"size": rng.normal(size=60), "town": rng.choice(["Oslo", "Rome"], 60)})
    frame.head(5).to_csv("new.csv", index=False)
    frame.assign(price=frame["size"] + rng.normal(size=60)).to_csv("houses.csv", index=False)
    frame.assign(outcome=np.where(frame["size"] > 0, "ill", "well")).to_csv("patients.csv")
    page = Path(__file__).parents[2] / "docs" / "command_line.md"
    lines = re.findall(r"^stoptime (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(lines) >= 6
    for line in lines:
        assert stoptime(f"{line} --force").exit_code == 0, line


def test_json_says_what_the_library_says(houses):
    found = told("fit houses.csv -t price --drop cheap --report r.html --model m.json")
    fit = st.fit_table("houses.csv", "price", preparation=st.TablePreparation(drop=["cheap"]))
    assert float(found["stop"]) == fit.model.stop_
    assert found["error"]["rmse"] == fit.errors.rmse
    assert found["importance"] == fit.importance()
    assert found["messages"] == list(fit.notes)
    assert [one["name"] for one in found["comparison"]] == [one.name for one in fit.scores]
    original = found["coefficients"]["price"]["original_units"]["coefficients"]
    assert list(original.values()) == fit.coefficients()[0].original_coef.tolist()
    assert found["files"] == {"model": "m.json", "report": "r.html"}
    assert {path.name for path in houses.iterdir()} == {
        "houses.csv", "new.csv", "m.json", "r.html"
    }  # fmt: skip


@pytest.mark.usefixtures("houses")
def test_options_reach_the_fit():
    line = 'fit houses.csv -t price -m ridge -m "AcceleratedFlow(5.0)" --cv 4 --stops 1,2,5,inf'
    found = told(f"{line} --no-intercept --no-standardise --drop Ort --drop cheap")
    fitted = found["coefficients"]["price"]["as_fitted"]
    assert (list(fitted["coefficients"]), fitted["intercept"]) == (["size"], 0)
    assert (found["rows"], found["error"]["how"]) == (60, "4-fold cross-validation")
    assert found["stop"] in {1, 2, 5, "inf"}
    notes = stoptime("fit houses.csv -t price --kinds size=text --na Rom --categories 3").stderr
    assert 'note: Column "size": of 59 different texts' in notes
    named = told("fit houses.csv -t price --na size --drop cheap")  # a word, not the column
    assert "size" in named["importance"]


@pytest.mark.parametrize(
    "options",
    [
        "-m 'Averaged(Nesterov(friction=5), kind=\"tail\")' --stops 20",
        "-m 'GradientDescent(step=Cosine(peak=0.1, total=50))' --stops 20",
        "-m conjugate-gradient --rule discrepancy",
        "-m ridge --rule 'Discrepancy(noise=400.0)' --log",
    ],
)
@pytest.mark.usefixtures("houses")
def test_every_method_and_rule_of_the_library_can_be_given(options):
    result = stoptime(f"fit houses.csv -t price --no-compare {options}")
    assert result.exit_code == 0, result.output


def test_a_plan_takes_calls_of_methods_too():
    plain = told("plan --penalty 0.01 --lr 0.5 --friction 5")
    assert told("plan --penalty 0.01 --method 'Nesterov(0.5, friction=5)'") == plain
    averaged = stoptime("plan --penalty 0.01 --method 'Averaged(HeavyBall(0.5, 0.9))'")
    assert "not proven for averaged (heavy-ball (lr 0.5, momentum 0.9)" in averaged.stdout
    assert "the step as a number" in stoptime("plan --penalty 0.01").stderr
    assert "no method" in in_words(stoptime("plan --penalty 0.01 --method 'system(1)'"))


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("absent.csv -t x", 1, "absent.csv does not exist"),
        ("twice.csv -t a", 1, 'two columns named "a"'),
        ("houses.csv -t prize", 1, 'no column "prize": did you mean "price"?'),
        ("houses.csv -t price --missing error", 1, '"size" has 1 missing value'),
        ("houses.csv -t price -m ridge --stops 3,2,-1", 1, "non-negative numbers; got -1"),
        ("houses.csv", 2, "say which column to predict. The columns are size, Ort, price, cheap."),
        ("houses.csv -t price -m nestrov-flow", 2, 'did you mean "nesterov-flow"'),
        ("houses.csv -t price -m 'system(1)'", 2, "no method, schedule or rule 'system'"),
        ("houses.csv -t price -m 'AcceleratedFlow(-1)'", 2, "friction must be"),
        ("houses.csv -t price --rule loocv", 2, 'did you mean "loo"'),
        ("houses.csv -t price --rule loo --cv 5", 2, "by folds, without a rule: give one of"),
        ("houses.csv -t price --stops many", 2, "neither a number of stops"),
        ("houses.csv -t price --kinds zip", 2, "not of the form column=kind"),
        ("houses.csv -t price --report absent/report.html", 2, "does not exist"),
        ("houses.csv -t price --report report.pdf", 2, "must end in .html"),
        ("houses.csv -t price --missing guess", 2, "'guess' is not one of 'impute', 'error'"),
        ("houses.csv -t price --cv 1", 2, "'--cv'"),
    ],
)
def test_errors_of_data_are_one_line_and_those_of_usage_name_the_option(houses, line, code, words):
    (houses / "twice.csv").write_text("a,a\n1,2\n")
    result = stoptime(f"fit {line} --model m.json")
    assert (result.exit_code, result.stdout) == (code, "")
    assert words in in_words(result)
    if code == 1:
        assert result.stderr.startswith("stoptime: ")
        assert result.stderr.count("\n") == 1
    assert not (houses / "m.json").exists()


def test_debug_shows_the_traceback():
    result = stoptime("--debug fit absent.csv -t x")
    assert isinstance(result.exception, FileNotFoundError)


@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.parquet"])
def test_predictions_come_with_the_columns_of_the_table(houses, name):
    stoptime("fit houses.csv -t price --drop cheap --model m.json --no-compare --log")
    result = stoptime(f"predict m.json new.csv --out {name}")
    assert result.exit_code == 0, result.output
    assert "note: new.csv is not UTF-8" in result.stderr
    found = st.tables.read_table(houses / name).frame
    assert list(found) == ["size", "Ort", "prediction", "lower", "upper"]
    table = st.tables.read_table("new.csv").frame
    assert found["size"].tolist()[:2] == table["size"].tolist()[:2]  # as it was written
    model = st.load("m.json")
    with pytest.warns(st.PreparationWarning):
        np.testing.assert_allclose(found["prediction"].astype(float), model.predict(table))
    with open("new.csv", "rb") as file:  # noqa: PTH123
        piped = CliRunner().invoke(app, ["predict", "m.json", "-"], input=file.read()).stdout
    np.testing.assert_allclose(
        pd.read_csv(io.StringIO(piped))["lower"], found["lower"].astype(float)
    )


@pytest.mark.usefixtures("houses")
def test_classes_are_predicted():
    result = stoptime("fit houses.csv -t cheap --drop price --model m.json")
    for words in ("accuracy", "log loss", "predicted probability", "came true", "error rate"):
        assert words in result.stdout
    assert "which are taken as classes" in result.stderr
    table = pd.DataFrame({"size": ["90,5", None], "Ort": ["Rom", "Rom"], "prediction": ["a", "b"]})
    table.to_csv("gaps.csv", index=False, sep=";")
    result = stoptime("predict m.json gaps.csv")
    found = pd.read_csv(io.StringIO(result.stdout))
    assert set(found["prediction_by_stoptime"]) <= {"no", "yes"}
    assert (found["probability_no"] + found["probability_yes"]).tolist() == pytest.approx([1, 1])
    assert "Missing values, set to the median: size (1)" in result.stderr
    assert 'already: that of the model is "prediction_by_stoptime"' in result.stderr
    table.drop(columns="Ort").to_csv("bad.csv", index=False)
    result = stoptime("predict m.json bad.csv")
    assert (result.exit_code, 'bad.csv: There is no column "Ort"' in result.stderr) == (1, True)
    for options, words in (("--interval 0", "between 0 and 1"), ("--out p.json", "must end in")):
        assert words in in_words(stoptime(f"predict m.json gaps.csv {options}"))


FILES = {  # each is written by a command that ends in its name
    "m.json": "fit diabetes -m ridge --no-compare --model",
    "x.html": "explore --no-open --out",
    "p.png": "plan --penalty 0.01 --lr 1 --out",
}


@pytest.mark.parametrize("name", FILES)
def test_no_command_overwrites_a_file_without_force(houses, name):
    (houses / name).write_text("old")
    result = stoptime(f"{FILES[name]} {name}")
    assert result.exit_code == 2
    assert f"{name} exists: add --force" in in_words(result)
    assert (houses / name).read_text() == "old"
    assert stoptime(f"{FILES[name]} {name} --force").exit_code == 0
    assert (houses / name).read_bytes() != b"old"
    assert told("plan --penalty 0.01 --lr 1")["iterations"] > 0


INTERRUPTED = """
import random, signal, sys, time
from stoptime.cli import run

def fit(number):
    try:
        run(["fit", "diabetes", "-m", "ridge", "--no-compare", "--model", f"{number}.json"])
    except SystemExit as end:
        return end.code
    except KeyboardInterrupt:  # after the command has ended
        return 0

signal.signal(signal.SIGALRM, signal.default_int_handler)
fit("first")
began = time.monotonic()
fit("second")
whole = time.monotonic() - began
moments = random.Random(0)
codes = []
for number in range(15):
    signal.setitimer(signal.ITIMER_REAL, moments.uniform(1e-3, whole))
    codes.append(fit(number))
    signal.setitimer(signal.ITIMER_REAL, 0)
print(sorted(set(codes) - {None}), file=sys.stderr)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="timers of Unix")
def test_ctrl_c_at_any_moment_leaves_whole_files_or_none(tmp_path):
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", INTERRUPTED], cwd=tmp_path, capture_output=True, text=True,
        check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.stderr.splitlines()[-1] in {"[0, 130]", "[130]"}, done.stderr
    assert "stoptime: interrupted; no file was left half written." in done.stderr
    for path in tmp_path.iterdir():
        st.load(path)


@pytest.mark.skipif(sys.platform != "linux", reason="a full device of Linux")
@pytest.mark.parametrize(
    ("end", "code", "words"),
    [("> /dev/full", 1, "No space left on device"), ("| true", 1, "")],
)
def test_a_full_disk_is_one_line_and_a_closed_pipe_is_quiet(tmp_path, end, code, words):
    line = f"set -o pipefail; {sys.executable} -m stoptime fit diabetes -m ridge --json {end}"
    done = subprocess.run(["/bin/bash", "-c", line], cwd=tmp_path, capture_output=True, text=True)  # noqa: PLW1510, S603
    assert done.returncode == code
    assert words in done.stderr
    assert done.stderr.count("\n") == bool(words)
