"""The command ``stoptime fit`` as people use it."""

import json
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold
from typer.testing import CliRunner

import stoptime as st
from helpers import run
from stoptime.cli import app
from stoptime.cli.terminal import in_options, parsed_stops
from stoptime.show import report
from stoptime.tables import Policy, fitting


@pytest.fixture
def houses(tmp_path, rng):
    n = 60
    frame = pd.DataFrame(
        {"size": rng.normal(100, 30, n), "town": rng.choice(["Oslo", "Rome", None], n)}
    )
    frame["price"] = 3 * frame["size"] + 50 * (frame["town"] == "Oslo") + rng.normal(0, 20, n)
    frame.loc[2, "size"] = np.nan
    frame.to_csv(tmp_path / "houses.csv", index=False)
    (tmp_path / "old.csv").write_text("x\n1\n")
    frame.drop(columns="price").head(5).assign(town="Bern").to_csv(
        tmp_path / "new.csv", index=False
    )
    return tmp_path


@pytest.fixture(scope="module")
def diabetes():
    result = run("fit", "diabetes", "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("options", "method", "guarantee"),
    [
        (["--method", "nesterov-flow"], "accelerated-flow (friction 3)", "at worst 1.60 times"),
        ([], "gradient-flow", "at worst 1.08 times"),  # the best of the family
    ],
)
def test_runs_with_no_file_and_prints_a_compact_table(options, method, guarantee):
    result = run("fit", "diabetes", *options)
    assert result.exit_code == 0, result.output
    for words in (
        method,
        "equivalent ridge penalty",
        "degrees of freedom",
        "typical error",
        "mean absolute error",
        "per standardised column  in original units",
    ):
        assert words in result.stdout
    assert guarantee in result.stdout
    for words in ("RidgeCV", "least squares", "minus that of stoptime"):
        assert words in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 120


def test_json_says_what_the_library_says(diabetes):
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True, scaled=False)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = st.StoppedRegressorCV().fit(X, y)
    assert diabetes["stop"] == pytest.approx(model.stop_, rel=1e-6)
    assert diabetes["error"] == pytest.approx(model.choice_.error, rel=1e-9)
    assert diabetes["degrees_of_freedom"] == pytest.approx(model.degrees_of_freedom_, rel=1e-6)
    assert diabetes["penalty"] == pytest.approx(
        st.equivalent_penalty(model.method_, model.stop_), rel=1e-6
    )
    assert diabetes["alpha"] == pytest.approx(442 * diabetes["penalty"])
    assert diabetes["guarantee"] == pytest.approx(st.calibrate(model.method_).inflation)
    assert 1 <= diabetes["inflation"] <= diabetes["guarantee"]
    assert diabetes["messages"] == []


def test_the_comparison_is_on_seeded_folds(diabetes):
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True, scaled=False)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    losses = np.zeros((2, len(y)))
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        for row, model in zip(losses, (st.StoppedRegressorCV(), LinearRegression()), strict=True):
            row[test] = (y[test] - model.fit(X[train], y[train]).predict(X[test])) ** 2
    found = {score["name"]: score for score in diabetes["comparison"]}
    assert list(found) == ["stoptime", "RidgeCV", "least squares", "the mean"]
    roots = np.sqrt(losses.mean(axis=1))
    assert found["stoptime"]["error"] == pytest.approx(roots[0], rel=1e-9)
    assert found["least squares"]["error"] == pytest.approx(roots[1], rel=1e-9)
    assert found["least squares"]["mae"] == pytest.approx(np.sqrt(losses[1]).mean(), rel=1e-9)
    assert found["least squares"]["excess"] == pytest.approx(roots[1] - roots[0], rel=1e-6)
    # the root is linear to first order
    linear = losses[1] / (2 * roots[1]) - losses[0] / (2 * roots[0])
    spread = linear.std(ddof=1) / np.sqrt(len(y))
    assert found["least squares"]["excess_standard_error"] == pytest.approx(spread, rel=1e-6)


def test_everything_at_once(houses):
    files = {name: houses / name for name in ("report.html", "model.json", "preds.csv")}
    result = run(
        *("fit", houses / "houses.csv", "--target", "price", "--report", files["report.html"]),
        *(
            "--model",
            files["model.json"],
            "--predict",
            houses / "new.csv",
            "--out",
            files["preds.csv"],
        ),
        *("--interval", 0.8, "--json"),
    )
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert any("set to the median: size (1)" in message for message in told["messages"])
    assert any("category of their own: town" in message for message in told["messages"])
    assert any("new.csv: Values not seen in fitting" in message for message in told["messages"])
    names = ["size", "town", "prediction", "lower", "upper"]
    assert list(pd.read_csv(files["preds.csv"])) == names
    preds = np.loadtxt(files["preds.csv"], delimiter=",", skiprows=1, usecols=(2, 3, 4))
    model = st.load(files["model.json"])
    with pytest.warns(st.PreparationWarning):
        again = model.predict(pd.read_csv(houses / "new.csv"))
    np.testing.assert_array_equal(preds[:, 0], again)
    with pytest.warns(st.PreparationWarning):
        ends = model.predict_interval(pd.read_csv(houses / "new.csv"), 0.8)
    np.testing.assert_array_equal(preds[:, 1:], ends)
    assert "houses.csv" in files["report.html"].read_text(encoding="utf-8")
    assert sorted(p.name for p in houses.iterdir()) == sorted(
        [*files, "houses.csv", "new.csv", "old.csv"]
    )


def test_notes_go_to_standard_error(houses):
    result = run("fit", houses / "houses.csv", "-t", "price")
    assert result.exit_code == 0
    assert "note: Missing values, set to the median: size (1)." in result.stderr
    assert "note:" not in result.stdout


def test_the_best_of_several_methods_is_taken_and_options_reach_the_fit(houses):
    result = run(
        *(
            "fit",
            houses / "houses.csv",
            "-t",
            "price",
            "-m",
            "ridge",
            "-m",
            "nesterov-flow:friction=5",
        ),
        *(
            "--cv",
            4,
            "--stops",
            "1,2,5,inf",
            "--no-intercept",
            "--no-standardise",
            "--missing",
            "drop",
        ),
        *("--drop", "town", "--seed", 3, "--json"),
    )
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["features"] == ["size"]
    assert told["rows"] == 59
    assert told["rule"] == "4-fold"
    assert told["stop"] in (1, 2, 5, "inf")
    assert told["intercept"] == 0


def test_weights_count_rows(houses):
    frame = pd.read_csv(houses / "houses.csv").assign(w=2.0)
    frame.to_csv(houses / "weighted.csv", index=False)
    plain = json.loads(
        run("fit", houses / "houses.csv", "-t", "price", "--rule", "path-gcv", "--json").stdout
    )
    twice = run(
        "fit",
        houses / "weighted.csv",
        "-t",
        "price",
        "--weights",
        "w",
        "--rule",
        "path-gcv",
        "--json",
    )
    assert json.loads(twice.stdout)["features"] == plain["features"]
    assert json.loads(twice.stdout)["alpha"] == pytest.approx(
        2 * 60 * json.loads(twice.stdout)["penalty"]
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent.csv", "-t", "x"], "absent.csv does not exist"),
        (["absent.csv"], "absent.csv does not exist"),
        (["houses.csv", "-t", "prize"], 'no column "prize": did you mean "price"?'),
        (["houses.csv", "-t", "town", "--no-classify"], "must be numbers"),
        (["houses.csv", "-t", "town", "--classify", "--chunked"], "in memory: --in-memory"),
        (["houses.csv", "-t", "price", "--classify"], "too many for classes"),
        (
            ["houses.csv", "-t", "town", "-m", "conjugate-gradient", "--cv", "3"],
            "--method conjugate-gradient has no decision values",
        ),
        (
            ["houses.csv", "-t", "price", "--missing", "error"],
            '"size" has 1 missing value: --missing impute fills',
        ),
        (
            ["houses.csv", "-t", "price", "-m", "ridge", "-m", "nesterov", "--rule", "discrepancy"],
            "--rule discrepancy cannot compare methods",
        ),
        (
            ["houses.csv", "-t", "price", "-m", "heavy-ball"],
            "for example --method heavy-ball:momentum=0.9.",
        ),
        (
            ["houses.csv", "-t", "price", "--chunked", "--missing", "error"],
            '"size" has 1 missing value',
        ),
        (
            ["houses.csv", "-t", "price", "--predict", "absent.csv", "--out", "out.csv"],
            "absent.csv does not",
        ),
    ],
)
def test_errors_of_data_are_one_line_and_exit_1(houses, monkeypatch, arguments, words):
    monkeypatch.chdir(houses)
    result = run("fit", *arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("stoptime: ")
    assert result.stderr.count("\n") == 1
    assert words in result.stderr
    assert sorted(p.name for p in houses.iterdir()) == ["houses.csv", "new.csv", "old.csv"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "say which column to predict. The columns are size, town, price."),
        (["-t", "a", "-t", "b"], "give one target at a time"),
        (["-t", "price", "-m", "nestrov-flow"], 'did you mean "nesterov-flow"'),
        (["-t", "price", "-m", "ridge:friction=3"], "Its parameters: none"),
        (["-t", "price", "-m", "nesterov-flow:friction=-1"], "friction must be"),
        (["-t", "price", "--rule", "loocv"], 'did you mean "loo"'),
        (["-t", "price", "--rule", "leave-one-out"], 'did you mean "loo"'),
        (["-t", "price", "--rule", "gcv", "--cv", "5"], "by folds, without a rule: give one of"),
        (["-t", "price", "--rule", "loo", "--cv", "5"], "by folds, without a rule: give one of"),
        (["-t", "price", "--stops", "many"], "neither a number of stops"),
        (["-t", "price", "--stops", "3,2,-1"], "a stop cannot be negative; got -1."),
        (["-t", "price", "--predict", "new.csv"], "give both"),
        (["-t", "price", "--interval", "1"], "between 0 and 1"),
        (["-t", "price", "--report", "absent/report.html"], "does not exist"),
        (["-t", "price", "--report", "."], "is a folder"),
        (["-t", "price", "--model", "houses.csv"], "is also DATA"),
        (["-t", "price", "--model", "x.json", "--report", "./x.json"], "is also --model"),
        (["-t", "price", "--report", "report.pdf"], "must end in .html"),
        (["-t", "price", "--model", "model.pkl"], "must end in .json"),
        (["-t", "price", "--predict", "new.csv", "--out", "old.csv"], "add --force"),
        (["-t", "price", "--predict", "new.csv", "--out", "p.xlsx"], "must end in .csv"),
        (["-t", "price", "--model", "-"], "only --out can be standard output"),
        (["-t", "price", "--predict", "new.csv", "--out", "-", "--json"], "taken by --json"),
        (["-t", "price", "--missing", "guess"], "'--missing': 'guess' is not one of 'impute', 'd"),
        (["-t", "price", "--seed", "x"], "'--seed': "),
        (["-t", "price", "--cv", "1"], "'--cv': "),
        (["-t", "price", "-m", "conjugate-gradient"], "needs folds, such as --cv 5"),
    ],
)
def test_errors_of_usage_exit_2_before_any_work(houses, monkeypatch, arguments, words):
    monkeypatch.chdir(houses)
    monkeypatch.setattr(fitting, "read_table", lambda *_, **__: pytest.fail("work was done"))
    result = run("fit", "houses.csv", *arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("Input should be greater than or equal to 2", "must be at least 2."),
        (
            "Input should be a valid integer, unable to parse string as an integer",
            "a whole number.",
        ),
        ("Input should be a valid number, unable to parse string as a number", "must be a number."),
        ("Value error, 'x' is not one of 'drop'.", "'x' is not one of 'drop'."),
    ],
)
def test_libraries_that_check_options_are_not_quoted(theirs, ours):
    told = in_options(theirs)
    assert told.endswith(ours)
    assert "nput" not in told
    assert "rror" not in told


def test_debug_shows_the_traceback():
    result = run("--debug", "fit", "absent.csv", "-t", "x")
    assert isinstance(result.exception, FileNotFoundError)
    assert result.exit_code == 1


def test_an_interrupt_leaves_no_half_file(houses, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "of_fit", interrupted)
    result = run("fit", houses / "houses.csv", "-t", "price", "--report", houses / "report.html")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1].startswith("stoptime: interrupted")
    assert sorted(p.name for p in houses.iterdir()) == ["houses.csv", "new.csv", "old.csv"]


def test_a_real_ctrl_c_is_one_line(houses):
    code = (
        "import signal, stoptime.tables.fitting as f; from stoptime.__main__ import main\n"
        # Ctrl-C is ignored where tests run in the background.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "f.read_table = lambda *a, **k: signal.raise_signal(signal.SIGINT)\n"
        "main()"
    )
    command = [sys.executable, "-c", code, "fit", str(houses / "houses.csv"), "-t", "price"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603
    assert done.returncode == 128 + signal.SIGINT
    assert done.stderr.strip().splitlines() == [
        "stoptime: interrupted; no file was left half written."
    ]


def test_a_class_of_one_row_that_no_column_predicts_is_told(tmp_path):
    path = tmp_path / "x.csv"
    pd.DataFrame({"a": range(10), "y": list("aaaaaaaaab")}).to_csv(path, index=False)
    told = run("fit", path, "-t", "y").stderr
    assert 'No comparison on folds: the class "b" has one row' in told
    assert "do not help to predict the classes of left-out rows" in told


def test_too_few_rows_for_folds_are_told(tmp_path):
    (tmp_path / "two.csv").write_text("a,b\n1,2\n2,3\n")
    result = run("fit", tmp_path / "two.csv", "-t", "b")
    assert result.exit_code == 0, result.output
    assert "at least three rows" in result.stderr


@pytest.mark.parametrize(
    ("word", "expected"),
    [("fit diabetes --method acc", "accelerated-flow"), ("fit diabetes --rule path", "path-gcv")],
)
def test_the_shell_completes_methods_and_rules(word, expected):
    env = {"_STOPTIME_COMPLETE": "complete_bash", "COMP_WORDS": f"stoptime {word}"}
    env["COMP_CWORD"] = str(len(word.split()))
    result = CliRunner(env=env).invoke(app, [], prog_name="stoptime")
    assert expected in result.stdout.split()


def test_every_command_speaks_json(tmp_path, monkeypatch):
    from stoptime.paper import reproduction

    plan = json.loads(run("plan", "--penalty", "0.01", "--lr", "1", "--json").stdout)
    assert plan["iterations"] == st.plan(0.01, step=1.0).iterations
    monkeypatch.setattr(reproduction, "reproduce", lambda out, **_: [out / "summary.md"])
    told = json.loads(run("reproduce", "--no-certify", "--out", tmp_path, "--json").stdout)
    assert told == {"certified": False, "files": [str(tmp_path / "summary.md")]}


def test_bounds_speak_json(monkeypatch):
    pytest.importorskip("flint", reason='proofs need python-flint: pip install "stoptime[certify]"')
    from stoptime import bounds
    from stoptime.bounds import summary

    few = summary.claims(())[:2]
    monkeypatch.setattr(summary, "claims", lambda _: few)
    told = json.loads(run("bounds", "--json").stdout)["bounds"]
    # both readings of the theorem: the stop may depend on the spectrum, or one serves all
    for row, adaptive in zip(told, (True, False), strict=True):
        proven = bounds.risk_inflation(st.GradientFlow(), adaptive=adaptive)
        assert row["lower"] <= proven.upper <= row["upper"] + 1e-9


@pytest.mark.parametrize(
    "request_",
    [
        fitting.Request("houses.csv", "price"),
        fitting.Request(
            "houses.csv",
            "price",
            methods=(st.Ridge(), st.AcceleratedFlow(5.0)),
            cv=4,
            stops=30,
            fit_intercept=False,
            policy=Policy("drop", 3, False),
            drop=("town",),
            missing=("?",),
        ),
        fitting.Request("houses.csv", "price", rule="path-gcv", weights="size"),
        fitting.Request("houses.csv", "price", stops=(2.0, np.inf)),
    ],
)
def test_the_code_to_reproduce_runs_and_gives_the_same(houses, monkeypatch, capsys, request_):
    monkeypatch.chdir(houses)
    frame = pd.read_csv("houses.csv").dropna(subset="size")
    frame.to_csv("houses.csv", index=False)
    expected = fitting.fit_table(request_).model
    scope = {}
    exec(compile(request_.code(), "code", "exec"), scope)  # noqa: S102 - that it runs is the point
    assert scope["model"].stop_ == expected.stop_
    np.testing.assert_array_equal(scope["model"].coef_, expected.coef_)
    assert f"stop {expected.stop_:.6g}" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["adam", "conjugate-gradient"])
def test_a_method_without_a_filter_is_told_by_its_name_to_need_folds(name):
    result = run("fit", "diabetes", "-m", name)
    assert result.exit_code == 2
    assert f"{name} needs folds, such as --cv 5" in " ".join(result.output.split())


def test_many_parameters_of_a_method_leave_room_for_the_other_columns(houses):
    options = ["-m", "adam", "--cv", "3", "--stops", "5,50", "--no-compare"]
    command = ["fit", str(houses / "houses.csv"), "-t", "price", *options]
    result = CliRunner().invoke(app, command, env={"COLUMNS": "80"})
    lines = result.stdout.splitlines()
    assert any("root mean squared" in line for line in lines)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-t", "prize"], 'There is no column "prize": did you mean "price"?'),
        (["-t", "price", "--drop", "size", "--drop", "town"], "No column is left"),
        (["-t", "price", "-m", "heavy-ball-flow"], "--method heavy-ball-flow:damping=0.1"),
        (["-t", "price", "--missing", "error"], "--missing impute fills them in"),
    ],
)
def test_errors_of_a_fit_begin_with_the_name_of_the_file(houses, options, words):
    path = str(houses / "houses.csv")
    result = run("fit", path, *options)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"stoptime: {path}: ")
    assert words in result.stderr


def test_the_log_loss_of_equal_probabilities_has_no_error_of_rounding(tmp_path):
    rows = "".join(f"{i % 7},c{i % 50}\n" for i in range(200))
    (tmp_path / "x.csv").write_text(f"a,y\n{rows}")
    result = run("fit", str(tmp_path / "x.csv"), "-t", "y", "-m", "ridge", "--no-compare")
    assert result.exit_code == 0, result.output
    assert "×10⁻" not in next(line for line in result.stdout.splitlines() if "log loss" in line)


@pytest.mark.parametrize("word", ["0", "-3", "2", ",", "nan,1", "a,b", "1.5"])
def test_stops_that_cannot_be_are_told_as_an_option(word):
    result = run("fit", "diabetes", "--stops", word)
    assert result.exit_code == 2
    told = " ".join(result.output.replace("│", " ").split())
    assert f'--stops: "{word}" is neither a number of stops, at least 3, nor a list' in told


@pytest.mark.parametrize(("features", "counted"), [(12, False), (13, False), (14, True)])
@pytest.mark.parametrize("classes", [2, 3])
def test_one_coefficient_is_not_counted_but_shown(tmp_path, rng, features, counted, classes):
    features -= 0 if classes == 2 else 8  # four for each of three classes
    X = rng.normal(size=(60, features)).round(2)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(features)])
    frame["y"] = np.array(list("abc"))[np.arange(60) % classes]
    frame.to_csv(tmp_path / "x.csv", index=False)
    result = run("fit", tmp_path / "x.csv", "-t", "y", "-m", "ridge", "--no-compare")
    assert result.exit_code == 0, result.output
    assert ("... and 2 smaller ones" in result.stdout) == counted
    assert "1 smaller" not in result.stdout
    if not counted:
        assert all(f"{name} " in result.stdout for name in frame.columns[:-1])


def test_one_stop_is_a_list_of_one():
    assert parsed_stops("7,") == (7.0,)
    assert parsed_stops("1,inf") == (1.0, np.inf)


def test_methods_in_messages_are_written_as_options():
    told = in_options(f"{st.Nesterov(step=2.0)} diverges, {st.Adam()} does not.")
    betas = "betas=(0.9, 0.999)"
    assert told == (
        f"--method nesterov:step=2.0,friction=3.0 diverges, --method adam:lr=0.01,{betas},eps=1e-08"
        " does not."
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--rule", "gcv", "-m", "ridge"], "of --method ridge is least at the last stop tried, 1."),
        (["--rule", "gcv", "-m", "ridge"], "e+04: try later ones, such as --stops 1e5,1e6."),
        (["--rule", "gcv", "-m", "gradient-flow"], "use --rule path-gcv or --rule loo."),
        (["-m", "nesterov:step=50"], "Take a smaller step, or --method nesterov:step=auto."),
        (
            ["-m", "heavy-ball-flow:damping=critical"],
            "--method heavy-ball-flow:damping=critical needs a positive smallest eigenvalue, but",
        ),
        (
            ["-m", "heavy-ball-flow:damping=critical"],
            "it is 0, a singular spectrum: give a number, for example --method heavy-ball-flow:",
        ),
        (
            ["-m", "high-resolution-flow:step=1e300,strong_convexity=1"],
            "take --method high-resolution-flow:step=auto, which is 1/L",
        ),
        (["--rule", "discrepancy"], "give one method, such as --method accelerated-flow, or use"),
    ],
)
def test_hints_are_in_the_syntax_of_the_command_line(tmp_path, options, words):
    X = np.random.default_rng(0).normal(size=(30, 60))
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(60)]).assign(y=1e3 * X[:, 0])
    frame.to_csv(tmp_path / "wide.csv", index=False)
    told = run("fit", tmp_path / "wide.csv", "-t", "y", "--no-compare", *options).stderr
    assert words in told
    assert '="' not in told


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["fit", "diabetes", "--weights", "target"], '"target" cannot be the weights too: choose'),
        (["fit", "diabetes", "--cv", "443"], "There are 442 rows: --cv 443 has more folds"),
        (["fit", "diabetes", "--interval", "95"], "between 0 and 1, such as 0.95; got 95"),
        (["plan", "--penalty", "1", "--lr", "0.1", "--out", "x.xyz"], "must end in .png, .pdf"),
        (["reproduce", "--out", __file__], "is a file: give a folder"),
        (
            ["plan", "--penalty", "1", "--lr", "0.1", "--momentum", "0.9", "--friction", "3"],
            "momentum or friction, not both",
        ),
    ],
)
def test_options_that_contradict_the_data_or_each_other_are_refused(options, words):
    result = run(*options)
    assert result.exit_code in {1, 2}
    assert words in " ".join(result.output.replace("│", " ").split())
