"""``stoptime predict``, class targets, and outputs that cannot be written."""

import io
import json
import os
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn.metrics import confusion_matrix, log_loss
from typer.testing import CliRunner

import stoptime as st
from helpers import run
from stoptime.cli import app
from stoptime.cli.terminal import bar
from stoptime.tables import model as model_module

EURO = "€"


def european(value):
    return f"{value:,.2f}".replace(",", "_").replace(".", ",").replace("_", ".") + f" {EURO}"


@pytest.fixture
def folder(tmp_path, rng, monkeypatch):
    """A table as a German office would send it, and new rows with a gap and an unknown town."""
    monkeypatch.chdir(tmp_path)
    n = 80
    size = rng.normal(100, 30, n).round(1)
    day = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    town = rng.choice(["Bonn", "Köln"], n)
    price = 3000 * size + 20000 * (town == "Köln") + rng.normal(0, 9000, n)
    frame = pd.DataFrame(
        {
            "Nr": [f"H{i}" for i in range(n)],
            "Größe": [f"{one}".replace(".", ",") for one in size],
            "Ort": town,
            "Datum": day.strftime("%d.%m.%Y"),
            "Preis": [european(one) for one in price],
        }
    )
    options = {"sep": ";", "index": False}
    frame.to_csv("houses.csv", encoding="cp1252", **options)
    new = frame.drop(columns="Preis").head(4)
    new.loc[1, "Ort"] = "Ulm"
    new.loc[2, "Größe"] = ""
    for name in ("new.csv", "new.csv.bz2", "new.zip", "new.csv.gz"):
        new.to_csv(name, **options)
    return tmp_path


@pytest.fixture
def model(folder):
    result = run("fit", "houses.csv", "-t", "Preis", "--model", "model.json", "--no-compare")
    assert result.exit_code == 0, result.output
    assert "RidgeCV" not in result.stdout
    assert "€', read as numbers with the decimal sign ','" in result.stderr
    assert "read as dates (day.month.year)" in result.stderr
    return folder / "model.json"


@pytest.mark.parametrize("name", ["new.csv", "new.csv.bz2", "new.zip", "new.csv.gz", "-"])
def test_predictions_come_with_the_columns_of_the_table(model, name):
    given = (model.parent / "new.csv").read_bytes() if name == "-" else None
    result = CliRunner().invoke(app, ["predict", "model.json", name], input=given)
    assert result.exit_code == 0, result.output
    found = pd.read_csv(io.StringIO(result.stdout))
    assert list(found) == ["Nr", "Größe", "Ort", "Datum", "prediction", "lower", "upper"]
    assert list(found["Nr"]) == ["H0", "H1", "H2", "H3"]
    shown = "standard input" if name == "-" else name
    assert f"note: {shown}: Missing values, set to the median: Größe (1)." in result.stderr
    assert f"note: {shown}: Values not seen in fitting" in result.stderr
    loaded = st.load(model)
    frame = pd.read_csv("new.csv", sep=";", decimal=",")
    with pytest.warns(st.PreparationWarning):
        np.testing.assert_allclose(found["prediction"], loaded.predict(frame), rtol=1e-14)
    assert loaded.interval_kind == "jackknife+"
    with pytest.warns(st.PreparationWarning):
        ends = loaded.predict_interval(frame, 0.9)
    np.testing.assert_allclose(found[["lower", "upper"]], ends, rtol=1e-14)


def test_fit_and_predict_give_the_same_and_read_standard_input(model):
    table = (model.parent / "houses.csv").read_bytes()
    arguments = ["fit", "-", "-t", "Preis", "--predict", "new.csv", "--out", "-", "--no-compare"]
    fitted = CliRunner().invoke(app, arguments, input=table)
    assert fitted.exit_code == 0, fitted.output
    assert "typical error" in fitted.stderr
    assert fitted.stdout == run("predict", "model.json", "new.csv").stdout


@pytest.mark.usefixtures("model")
def test_predict_speaks_json():
    told = json.loads(run("predict", "model.json", "new.csv", "--json", "--interval", 0.8).stdout)
    assert told["intervals"] == {"kind": "jackknife+", "confidence": 0.8}
    assert [row["Nr"] for row in told["predictions"]] == ["H0", "H1", "H2", "H3"]
    assert told["predictions"][2]["Größe"] is None
    told = json.loads(run("predict", "model.json", "new.csv", "--json", "--out", "p.tsv").stdout)
    assert told["files"] == {"out": "p.tsv"}
    assert "predictions" not in told
    assert len(pd.read_csv("p.tsv", sep="\t")) == 4


@pytest.mark.usefixtures("model")
def test_names_that_are_taken_are_changed():
    frame = pd.read_csv("new.csv", sep=";", decimal=",").assign(lower=1)
    frame.to_csv("taken.csv", index=False)
    result = run("predict", "model.json", "taken.csv")
    assert "lower is lower_by_stoptime" in result.stderr
    assert "lower,prediction,lower_by_stoptime,upper" in result.stdout


@pytest.mark.usefixtures("folder")
def test_rows_that_a_fit_would_drop_have_no_prediction():
    options = ("--missing", "drop", "--no-compare", "--model", "m.json")
    assert run("fit", "houses.csv", "-t", "Preis", *options).exit_code == 0
    result = run("predict", "m.json", "new.csv", "--out", "p.csv")
    assert result.exit_code == 0, result.output
    assert "No prediction for 1 row" in result.stderr
    assert list(pd.read_csv("p.csv")["prediction"].isna()) == [False, False, True, False]


def test_words_for_missing_values_are_those_of_the_fit(folder):
    frame = pd.read_csv("houses.csv", sep=";", encoding="cp1252")
    frame.loc[0, "Größe"] = "?"
    frame.to_csv("odd_houses.csv", sep=";", index=False)
    lines = (folder / "new.csv").read_text(encoding="utf-8").splitlines()
    fields = lines[1].split(";")
    lines[1] = ";".join([fields[0], "?", *fields[2:]])
    (folder / "odd.csv").write_text("\n".join(lines), encoding="utf-8")
    fit = ("fit", "odd_houses.csv", "-t", "Preis", "--na", "?", "--no-compare")
    assert run(*fit, "--model", "m.json").exit_code == 0
    result = run("predict", "m.json", "odd.csv")
    assert result.exit_code == 0, result.output
    assert "set to the median: Größe (2)" in result.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda frame: frame.drop(columns="Ort"), 'bad.csv: There is no column "Ort"'),
        (
            lambda frame: frame.assign(Datum="soon"),
            "must be dates, all written as in fitting, not text such",
        ),
        (lambda frame: frame.assign(Größe="?"), "declare a missing value by --na"),
        (lambda frame: frame.head(0), "bad.csv has a header but no rows"),
    ],
)
def test_messages_name_the_file_and_the_remedy(model, change, words):
    frame = change(pd.read_csv("new.csv", sep=";", decimal=","))
    frame.to_csv("bad.csv", index=False)
    result = run("predict", "model.json", "bad.csv", "--out", "p.csv")
    assert result.exit_code == 1
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (model.parent / "p.csv").exists()


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "new.csv", "--force"], "is also read"),
        (["--out", "houses.csv"], "add --force"),
        (["--out", "p.doc"], "must end in .csv"),
        (["--interval", "2"], "between 0 and 1"),
    ],
)
def test_wrong_calls_of_predict(arguments, words):
    result = run("predict", "model.json", "new.csv", *arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.replace("│", " ").split())


FILES = {  # each is written by a command that ends in its name
    "m.json": ("fit", "houses.csv", "-t", "Preis", "-m", "ridge", "--no-compare", "--model"),
    "r.html": ("fit", "houses.csv", "-t", "Preis", "-m", "ridge", "--no-compare", "--report"),
    "p.csv": ("predict", "model.json", "new.csv", "--out"),
    "x.html": ("explore", "--no-open", "--out"),
    "p.png": ("plan", "--penalty", "0.01", "--lr", "1", "--out"),
}


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("name", FILES)
def test_no_command_overwrites_a_file_without_force(folder, name):
    (folder / name).write_text("old")
    result = run(*FILES[name], name)
    assert result.exit_code == 2
    assert f"{name} exists: add --force" in " ".join(result.stderr.replace("│", " ").split())
    assert (folder / name).read_text() == "old"
    result = run(*FILES[name], name, "--force")
    assert result.exit_code == 0, result.output
    assert (folder / name).read_bytes() != b"old"


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 2)])
@pytest.mark.parametrize("name", FILES)
def test_a_terminal_is_asked_before_a_file_is_overwritten(model, monkeypatch, name, answer, code):
    (model.parent / name).write_text("old")
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("stoptime.cli.terminal.sys", terminal)
    result = CliRunner().invoke(app, [*FILES[name], name], input=answer)
    assert result.exit_code == code
    assert f"{name} exists. Overwrite it?" in result.stderr
    assert ((model.parent / name).read_bytes() == b"old") == (code == 2)


def test_an_output_that_fails_at_the_end_costs_nothing_else(folder, monkeypatch):
    def full(*_):
        raise OSError(28, os.strerror(28), ".p-0123456789abcdef.csv")

    monkeypatch.setattr("stoptime.cli.fit_output.write_predictions", full)
    result = run(
        *("fit", "houses.csv", "-t", "Preis", "--predict", "new.csv", "--out", "p.csv"),
        *("--model", "m.json", "--report", "r.html", "--no-compare"),
    )
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == (
        "stoptime: p.csv could not be written: No space left on device."
    )
    assert "typical error" in result.stdout
    assert "wrote m.json\nwrote r.html" in result.stdout
    names = {one.name for one in folder.iterdir()}
    assert {"m.json", "r.html"} <= names
    assert not [name for name in names if name.startswith((".", "p."))]


@pytest.mark.usefixtures("folder")
def test_new_rows_without_a_column_do_not_lose_the_model():
    pd.read_csv("new.csv", sep=";").drop(columns="Ort").to_csv("bad.csv", index=False)
    result = run(
        *("fit", "houses.csv", "-t", "Preis", "--predict", "bad.csv", "--out", "p.csv"),
        *("--model", "m.json", "--no-compare"),
    )
    assert result.exit_code == 1
    assert 'stoptime: bad.csv: There is no column "Ort"' in result.stderr
    assert "wrote m.json" in result.stdout


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused_before_the_work(folder):
    (folder / "locked").mkdir(mode=0o500)
    result = run("fit", "houses.csv", "-t", "Preis", "--model", "locked/m.json")
    assert result.exit_code == 2
    assert "no permission" in result.stderr


@pytest.mark.usefixtures("folder")
def test_intervals_of_large_models_are_the_jackknife_with_a_note(monkeypatch):
    monkeypatch.setattr(model_module, "MOST_CHANGES", 10)
    fit = ("fit", "houses.csv", "-t", "Preis", "--no-compare", "--model", "m.json")
    assert run(*fit).exit_code == 0
    assert "(jackknife): a model file has no room" in run("predict", "m.json", "new.csv").stderr


def test_wide_data_are_explained_and_not_contradicted(tmp_path, rng):
    X = rng.normal(size=(20, 60))
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(60)])
    frame.assign(y=1e7 * X[:, 0]).to_csv(tmp_path / "wide.csv", index=False)
    report = tmp_path / "r.html"
    result = run("fit", tmp_path / "wide.csv", "-t", "y", "--no-compare", "--report", report)
    assert result.exit_code == 0, result.output
    assert "least squares has 20, one for each row" in " ".join(result.stdout.split())
    assert "e+0" not in result.stdout
    assert "noise and signal are hard to tell apart" in report.read_text(encoding="utf-8")


@pytest.mark.parametrize(("stop", "overshoots"), [("0.5", False), ("1.8", True)])
def test_degrees_of_freedom_are_read_beside_those_of_least_squares(tmp_path, stop, overshoots):
    X = np.random.default_rng(1).normal(size=(30, 200))
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(200)])
    frame.assign(twice=X[:, 0], y=X[:, 0]).to_csv(tmp_path / "wide.csv", index=False)
    fit = ("fit", tmp_path / "wide.csv", "-t", "y", "--no-compare", "-m", "nesterov-flow")
    told = " ".join(run(*fit, "--stops", f"{stop},").stdout.split())
    assert "least squares has 30, one for each row" in told
    # the fit has more than 30, and saying "of at most 30" would contradict it
    assert ("this path overshoots it" in told) == overshoots


def test_repeated_columns_add_no_degrees_of_freedom(tmp_path, rng):
    a = rng.normal(size=40)
    frame = pd.DataFrame({"a": a, "again": a, "y": a + rng.normal(size=40)})
    frame.to_csv(tmp_path / "twice.csv", index=False)
    told = " ".join(run("fit", tmp_path / "twice.csv", "-t", "y", "--no-compare").stdout.split())
    assert "least squares has 2" in told


def test_rounding_is_printed_as_zero(tmp_path):
    a = np.arange(1.0, 31)
    frame = pd.DataFrame({"a": a, "b": a**2, "y": 3 * a})
    frame.to_csv(tmp_path / "exact.csv", index=False)
    result = run("fit", tmp_path / "exact.csv", "-t", "y", "-m", "ridge", "--no-compare")
    assert "⁻¹" not in result.stdout
    assert "e-1" not in result.stdout


def test_progress_begins_at_zero(monkeypatch):
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80)
    monkeypatch.setattr("stoptime.cli.terminal.Console", lambda **_: console)
    with bar(2) as advance:
        advance("reading")
        advance("fitting")
    assert "0/2" in out.getvalue()
    assert "-1/2" not in out.getvalue()


def test_help_lists_methods_and_rules():
    text = run("fit", "--help").stdout
    for name in ("accelerated-flow", "spectral-cutoff", "one-standard-error", "path-gcv"):
        assert name in text


COMMANDS = {one.callback.__name__: one.callback.__doc__ for one in app.registered_commands}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_flags_without_a_type_and_examples_on_one_line(command):
    result = CliRunner(env={"COLUMNS": "80", "TERM": "dumb"}).invoke(app, [command, "--help"])
    lines = [line.strip(" │") for line in result.stdout.splitlines()]
    assert any(line.startswith("--help") for line in lines)
    assert "bool" not in result.stdout.lower()
    examples = re.findall(r"^.*\bstoptime .*$", COMMANDS[command], re.MULTILINE)
    assert examples
    assert {one.strip() for one in examples} <= set(lines)


# ---------------------------------------------------------------- classes


@pytest.fixture
def labelled(tmp_path, rng, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = rng.normal(size=(90, 2)).round(3)
    value = X[:, 0] + 0.4 * rng.normal(size=90)
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame["two"] = np.where(value > 0, "yes", "no")
    frame["three"] = np.array(["low", "mid", "top"])[np.digitize(value, [-0.5, 0.5])]
    frame["flag"] = value > 0
    frame["digit"] = (value > 0).astype(int) + 1
    frame.to_csv("rows.csv", index=False)
    return frame


COLUMNS = ["two", "three", "flag", "digit"]


@pytest.mark.parametrize("target", COLUMNS)
def test_classes_are_recognised_assessed_saved_and_predicted(labelled, target):
    others = [option for name in COLUMNS if name != target for option in ("--drop", name)]
    result = run("fit", "rows.csv", "-t", target, *others, "--model", "m.json", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["task"] == "classification"
    count = labelled[target].nunique()
    assert any(f"{count} different values are taken as classes" in m for m in told["messages"])
    X = labelled[["a", "b"]].to_numpy()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = st.StoppedClassifierCV().fit(X, labelled[target].to_numpy())
    found = told["classes"]
    decisions = model.left_out_decisions_
    if count == 2:
        predicted = model.classes_[(decisions > 0).astype(int)]
        chances = 1 / (1 + np.exp(-model.slope_ * decisions))
        chances = np.stack([1 - chances, chances], axis=1)
    else:
        predicted = model.classes_[decisions.argmax(axis=1)]
        chances = np.exp(model.slope_ * decisions)
        chances /= chances.sum(axis=1, keepdims=True)
    truth = labelled[target].to_numpy()
    assert found["labels"] == model.classes_.tolist()
    assert found["confusion"] == confusion_matrix(truth, predicted).tolist()
    assert found["accuracy"] == pytest.approx((truth == predicted).mean())
    assert found["log_loss"] == pytest.approx(
        log_loss(truth, chances, labels=model.classes_), rel=1e-6
    )
    cases = sum(one[2] for one in found["calibration"])
    assert cases == len(truth) * (1 if count == 2 else count)
    shares = sum(one[1] * one[2] for one in found["calibration"])
    assert shares == pytest.approx((truth == model.classes_[1]).sum() if count == 2 else len(truth))
    assert [one["name"] for one in told["comparison"]][1:] == [
        "RidgeClassifierCV",
        "the most frequent class",
    ]
    assert told["comparison"][2]["error"] == pytest.approx(
        1 - labelled[target].value_counts(normalize=True).iloc[0], abs=0.05
    )
    rows = json.loads(run("predict", "m.json", "rows.csv", "--json").stdout)["predictions"]
    assert [row["prediction"] for row in rows] == model.predict(X).tolist()
    names = [f"probability_{label}" for label in found["labels"]]
    np.testing.assert_allclose(
        [[row[name] for name in names] for row in rows], model.predict_proba(X), rtol=1e-6
    )


@pytest.mark.usefixtures("labelled")
@pytest.mark.parametrize("target", ["two", "three"])
def test_classes_are_printed_and_reported(target, tmp_path):
    other = "three" if target == "two" else "two"
    fit = ("fit", "rows.csv", "-t", target, "--drop", other, "--drop", "flag", "--drop", "digit")
    result = run(*fit, "--report", "r.html")
    assert result.exit_code == 0, result.output
    for words in ("accuracy", "log loss", "predicted probability", "came true", "error rate"):
        assert words in result.stdout
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    for words in ("Classes and probabilities", "Confusion matrix of left-out rows", "Calibration"):
        assert words in page
    assert "Prediction intervals" not in page


@pytest.mark.usefixtures("labelled")
def test_two_numbers_can_stay_numbers():
    drop = [option for name in ("two", "three", "flag") for option in ("--drop", name)]
    fit = ("fit", "rows.csv", "-t", "digit", *drop, "--no-compare", "--json")
    assert json.loads(run(*fit, "--no-classify").stdout)["task"] == "regression"
    told = json.loads(run(*fit).stdout)
    assert any("(--no-classify fits them as numbers)" in message for message in told["messages"])


def test_weights_and_missing_labels_of_classes(labelled):
    frame = labelled[["a", "b", "two"]].assign(w=1.0)
    frame.loc[:9, "two"] = None
    frame.loc[10:19, "w"] = 0.0
    frame.to_csv("weighted.csv", index=False)
    told = json.loads(run("fit", "weighted.csv", "-t", "two", "--weights", "w", "--json").stdout)
    assert told["rows"] == 70
    assert sum(map(sum, told["classes"]["confusion"])) == 70
    assert sum(one[2] for one in told["classes"]["calibration"]) == 70
    assert '10 rows without a target "two" left out.' in told["messages"]


def test_coefficients_of_classes_are_in_both_units(labelled):
    drop = [option for name in ("two", "flag", "digit") for option in ("--drop", name)]
    told = json.loads(run("fit", "rows.csv", "-t", "three", *drop, "--json").stdout)
    assert list(told["each"]) == ["three = low", "three = mid", "three = top"]
    one = told["each"]["three = top"]
    spread = labelled[["a", "b"]].to_numpy().std(axis=0)
    np.testing.assert_allclose(
        np.array(list(one["original_units"]["coefficients"].values())) * spread,
        list(one["coefficients"].values()),
    )
