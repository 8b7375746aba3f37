"""The command ``stoptime fit`` as people use it."""

import json
import shlex
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import stoptime as st
from helpers import run


def stoptime(line):
    return run(*shlex.split(line))


def told(line):
    """Return what a command prints as JSON."""
    result = stoptime(f"{line} --json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def houses(tmp_path, rng, monkeypatch):
    monkeypatch.chdir(tmp_path)
    n = 60
    frame = pd.DataFrame(
        {"size": rng.normal(100, 30, n), "town": rng.choice(["Oslo", "Rome", None], n)}
    )
    frame["price"] = 3 * frame["size"] + 50 * (frame["town"] == "Oslo") + rng.normal(0, 20, n)
    frame["cheap"] = np.where(frame["price"] < 300, "yes", "no")
    frame.loc[2, "size"] = np.nan
    frame.to_csv("houses.csv", index=False)
    frame.head(5).drop(columns=["price", "cheap"]).assign(town="Bern").to_csv(
        "new.csv", index=False
    )
    (tmp_path / "old.csv").write_text("x\n1\n")
    return tmp_path


def test_the_version_is_told_without_loading_the_library():
    began = time.monotonic()
    code = (
        "import sys, stoptime.cli; print(sorted({'numpy', 'sklearn', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"
    assert time.monotonic() - began < 5  # a quarter of a second on a free machine
    assert stoptime("--version").stdout.strip() == st.__version__


def test_runs_with_no_file_and_prints_a_compact_table():
    result = stoptime("fit diabetes -m nesterov-flow")
    assert result.exit_code == 0, result.output
    for words in (
        "accelerated-flow (friction 3)", "by leave-one-out", "mean absolute", "degrees of freedom",
        "alpha", "per standardised column  in original units", "ridge, as RidgeCV", "least squares",
        "minus that of stoptime",
    ):  # fmt: skip
        assert words in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 120


@pytest.mark.usefixtures("houses")
def test_json_says_what_the_library_says():
    found = told("fit houses.csv -t price --drop cheap")
    fit = st.fit_table("houses.csv", "price", preparation=st.TablePreparation(drop=["cheap"]))
    assert found["stop"] == fit.model.stop_
    assert found["error"]["rmse"] == fit.errors.rmse
    assert found["importance"] == fit.importance()
    assert found["messages"] == list(fit.notes)
    assert [one["name"] for one in found["comparison"]] == [one.name for one in fit.scores]
    original = found["original_units"]["coefficients"]
    assert list(original.values()) == fit.coefficients()[0].original_coef.tolist()


def test_everything_at_once(houses):
    line = "fit houses.csv -t price --drop cheap --report r.html --model m.json --interval 0.8"
    found = told(f"{line} --predict new.csv --out p.csv")
    assert found["files"] == {"model": "m.json", "report": "r.html", "out": "p.csv"}
    assert "Missing values, set to the median: size (1)." in found["messages"]
    assert any("none of the known categories: town (5)" in one for one in found["messages"])
    assert "houses.csv" in (houses / "r.html").read_text()
    written = pd.read_csv("p.csv")
    assert list(written) == ["size", "town", "prediction", "lower", "upper"]
    with pytest.warns(st.PreparationWarning):
        np.testing.assert_allclose(
            written["prediction"], st.load("m.json").predict(pd.read_csv("new.csv"))
        )
    names = {"houses.csv", "new.csv", "old.csv", "r.html", "m.json", "p.csv"}
    assert {path.name for path in houses.iterdir()} == names


@pytest.mark.usefixtures("houses")
def test_options_reach_the_fit():
    line = "fit houses.csv -t price -m ridge -m nesterov-flow:friction=5 --cv 4 --stops 1,2,5,inf"
    found = told(f"{line} --no-intercept --no-standardise --missing drop --drop town --drop cheap")
    assert found["features"] == ["size"]
    assert found["rows"] == 59
    assert found["error"]["how"] == "4-fold cross-validation"
    assert found["stop"] in {1, 2, 5, "inf"}
    assert found["intercept"] == 0
    notes = stoptime("fit houses.csv -t price --kinds size=text --na Rome --categories 3").stderr
    assert 'note: Column "size": of 59 different texts' in notes
    named = told("fit houses.csv -t price --na size --drop cheap")  # a word, not the column
    assert "size" in named["features"]


@pytest.mark.parametrize(
    "options",
    [
        "-m 'Averaged(Nesterov(friction=5), kind=\"tail\")' --stops 20",
        "-m 'GradientDescent(step=Cosine(peak=0.1, total=50))' --stops 20",
        "-m conjugate-gradient --rule discrepancy",
        "-m adam --rule sure --stops 20",
        "-m ridge --rule 'Discrepancy(noise=400.0)'",
        "-m heavy-ball-flow:damping=0.5",
        "--rule one-standard-error",
        "-m butterworth:order=3",
    ],
)
@pytest.mark.usefixtures("houses")
def test_every_method_and_rule_of_the_library_can_be_given(options):
    result = stoptime(f"fit houses.csv -t price --no-compare {options}")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("absent.csv -t x", "absent.csv does not exist"),
        ("houses.csv -t prize", 'no column "prize": did you mean "price"?'),
        ("houses.csv -t town --no-classify", "must be numbers"),
        ("houses.csv -t price --classify", "too many for classes"),
        ("houses.csv -t price --missing error", '"size" has 1 missing value'),
        ("houses.csv -t price -m ridge -m nesterov --rule discrepancy", "cannot compare methods"),
        ("houses.csv -t price --cv 61", "61"),
        ("houses.csv -t price --predict absent.csv --out out.csv", "absent.csv does not exist"),
        (
            "houses.csv -t price -m ridge --stops 3,2,-1",
            "stops must be non-negative numbers; got -1",
        ),
    ],
)
def test_errors_of_data_are_one_line_and_exit_1(houses, line, words):
    result = stoptime(f"fit {line}")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("stoptime: ")
    assert result.stderr.count("\n") == 1
    assert words in result.stderr
    assert len(list(houses.iterdir())) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("", "say which column to predict. The columns are size, town, price, cheap."),
        ("-t a -t b", "give one target at a time"),
        ("-t price -m nestrov-flow", 'did you mean "nesterov-flow"'),
        ("-t price -m ridge:friction=3", "Its parameters: none"),
        ("-t price -m nesterov-flow:friction=-1", "friction must be"),
        ("-t price -m 'system(1)'", "there is no method, schedule or rule 'system'"),
        ("-t price --rule loocv", 'did you mean "loo"'),
        ("-t price --rule loo --cv 5", "by folds, without a rule: give one of"),
        ("-t price --stops many", "neither a number of stops"),
        ("-t price --kinds zip", "not of the form column=kind"),
        ("-t price --predict new.csv", "give both"),
        ("-t price --interval 1", "between 0 and 1"),
        ("-t price --report absent/report.html", "does not exist"),
        ("-t price --report .", "is a folder"),
        ("-t price --model houses.csv", "is also DATA"),
        ("-t price --model x.json --report ./x.json", "is also --model"),
        ("-t price --report report.pdf", "must end in .html"),
        ("-t price --predict new.csv --out old.csv", "add --force"),
        ("-t price --predict new.csv --out p.xlsx", "must end in .csv"),
        ("-t price --model -", "only --out can be standard output"),
        ("-t price --predict new.csv --out - --json", "taken by --json"),
        ("-t price --missing guess", "must be impute, drop or error"),
        ("-t price --cv 1", "'--cv'"),
    ],
)
@pytest.mark.usefixtures("houses")
def test_errors_of_usage_exit_2(options, words):
    result = stoptime(f"fit houses.csv {options}")
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.replace("│", " ").split())


def test_debug_shows_the_traceback():
    result = stoptime("--debug fit absent.csv -t x")
    assert isinstance(result.exception, FileNotFoundError)


@pytest.mark.usefixtures("houses")
def test_classes_are_printed_and_reported():
    result = stoptime("fit houses.csv -t cheap --drop price --report r.html --model m.json")
    assert result.exit_code == 0, result.output
    for words in ("accuracy", "log loss", "predicted probability", "came true", "error rate"):
        assert words in result.stdout
    assert "which are taken as classes" in result.stderr
    rows = told("predict m.json houses.csv")["predictions"]
    assert rows[0]["probability_no"] + rows[0]["probability_yes"] == pytest.approx(1)


@pytest.mark.usefixtures("houses")
def test_rounding_is_printed_as_zero():
    a = np.arange(1.0, 31)
    pd.DataFrame({"a": a, "b": a**2, "y": 3 * a}).to_csv("exact.csv", index=False)
    result = stoptime("fit exact.csv -t y -m ridge --no-compare")
    assert "⁻¹" not in result.stdout
    assert "e-1" not in result.stdout


def test_the_tables_of_the_strangers_are_read(tmp_path, monkeypatch):
    """A stray first line of Excel, decimal commas, codes, units and a flag for missing values."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = [
        f"{w:.1f} kg".replace(".", ",")
        + f";0{1000 + i % 3};{t}:30;{k:.1f}K;{-999 if i == 7 else i % 5}"
        for i, (w, t, k) in enumerate(
            zip(rng.normal(70, 9, 80), rng.integers(8, 18, 80), rng.normal(90, 9, 80), strict=True)
        )
    ]
    y = [
        float(row.split(" ")[0].replace(",", ".")) * 2 + int(row.split(";")[2][:-3]) for row in rows
    ]
    lines = [f"{row};{one:.3f}".replace(".", ",") for row, one in zip(rows, y, strict=True)]
    (tmp_path / "odd.csv").write_text("sep=;\nweight;zip;time;income;far;y\n" + "\n".join(lines))
    found = told("fit odd.csv -t y --na -999")
    assert found["error"]["explained"] > 0.999
    assert [one for one in found["features"] if one.startswith("zip=")] == [
        "zip=01000",
        "zip=01001",
        "zip=01002",
    ]


def test_every_command_speaks_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert told("explore --out x.html")["files"] == ["x.html"]
    plan = told("plan --penalty 0.01 --lr 1 --out p.png")
    assert plan["iterations"] > 0
    assert (tmp_path / "p.png").exists()
