"""The benchmark harness: what is counted, judged, stored and shown. Nothing is timed here."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import stoptime as st
from benchmarks import __main__ as command
from benchmarks import cases, harness, limits, machine, page
from benchmarks.cases import scaling
from benchmarks.harness import Case, Settings, Work, interleaved, missing, run_case
from benchmarks.results import Growth, Measure, Outcome, Run, as_dict, exponent, load, save, short

ENVIRONMENT = {
    "processor": "a processor",
    "cores": 2,
    "threads": 1,
    "python": "3",
    "versions": {"numpy": "2"},
}


class Clock:
    """A clock that moves only when work is done, so that times are known."""

    def __init__(self):
        self.now, self.log = 0.0, []

    def __call__(self):
        return self.now

    def work(self, name, *durations):
        """Return work that takes one duration after another, the last for ever."""
        left = list(durations)

        def job():
            self.log.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]
            return name

        return job


@pytest.fixture
def clock():
    return Clock()


def settings(clock, **options):
    return Settings(threads=1, clock=clock, **options)


def a_case(clock, ours, theirs, **options):
    work = Work(
        clock.work("ours", *ours), clock.work("peer", *theirs), share=options.pop("share", 1.0)
    )
    return Case("paths", "a problem", "a peer", lambda: work, "the reason", **options)


def outcome(value, goal=2.0, sense="at least", **options):
    times = (
        {"ours": (1.0,), "theirs": (value,)}
        if sense == "at least"
        else {"ours": (value,), "theirs": (1.0,)}
    )
    measures = (Measure("times", value, goal, sense), *options.pop("others", ()))
    return Outcome(
        "paths", "a problem", "a peer", **times, measures=measures, why="the reason", **options
    )


def test_competitors_take_turns(clock):
    both = {name: clock.work(name, 1.0) for name in ("ours", "peer")}
    seconds, answers = interleaved(both, 3, settings(clock))
    assert clock.log == ["ours", "peer"] * 3
    assert seconds == {"ours": (1.0,) * 3, "peer": (1.0,) * 3}
    assert answers == {"ours": "ours", "peer": "peer"}


@pytest.mark.parametrize(("takes", "rounds"), [(0.5, 5), (4.0, 3), (30.0, 2), (90.0, 1)])
def test_a_slow_competitor_is_not_repeated_beyond_its_budget(clock, takes, rounds):
    both = {"ours": clock.work("ours", 0.5), "peer": clock.work("peer", takes)}
    seconds, _ = interleaved(both, 5, settings(clock, longest=10.0, least=2, once=60.0))
    assert len(seconds["ours"]) == 5
    assert len(seconds["peer"]) == rounds


def test_the_best_rounds_are_compared(clock):
    found = run_case(
        a_case(clock, (0.75, 0.25, 0.5), (3.0, 2.0, 1.0), goal=3.0, rounds=3), settings(clock)
    )
    assert found.measures == (Measure("times as fast", 4.0, 3.0, "at least"),)
    assert found.verdict == "holds"


def test_a_limit_is_ours_in_units_of_the_peer(clock):
    case = a_case(clock, (3.0,), (2.0,), goal=1.5, sense="at most")
    assert run_case(case, settings(clock)).measures == (
        Measure("times as long", 1.5, 1.5, "at most"),
    )


def test_a_part_of_the_peers_job_is_multiplied_out(clock):
    found = run_case(a_case(clock, (1.0,), (2.0,), share=0.01), settings(clock))
    assert found.measures[0].value == pytest.approx(200)
    assert f"200{page.NO_BREAK}s" in page.row(found)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (outcome(2.0), "holds"),
        (outcome(1.5), "below its goal"),
        (outcome(0.5), "LOSES"),
        (outcome(float("nan")), "LOSES"),
        (outcome(1.5, 1.5, "at most"), "holds"),
        (outcome(1.6, 1.5, "at most"), "LOSES"),
        (outcome(9.0, others=(Measure("score", 0.1, 0.2),)), "LOSES"),
        (outcome(1.5, others=(Measure("score", 0.1, 0.2),)), "LOSES"),
        (outcome(9.0, others=(Measure("score", 0.3, 0.2),)), "holds"),
        (outcome(0.1, None), "no goal"),
        (
            Outcome("paths", "a", "memory", measures=(Measure("times X", 7.0, 6.0, "at most"),)),
            "LOSES",
        ),
        (Outcome("paths", "a", "b", missing="pip install b"), "not run"),
        (Outcome("paths", "a", "b", error="ValueError: no"), "FAILED"),
    ],
)
def test_verdicts(found, verdict):
    assert found.verdict == verdict


def test_what_is_missing_is_said():
    assert (
        missing(("numpy", "stoptime.Path", "stoptime.Path.predict", "stoptime.support.files")) == ""
    )
    assert missing(("stoptime.NoSuchThing",)) == "this version of stoptime has no NoSuchThing"


def test_a_missing_peer_is_an_outcome(clock, monkeypatch):
    monkeypatch.setattr(harness.importlib.util, "find_spec", lambda _: None)
    found = run_case(a_case(clock, (1.0,), (1.0,), needs=("himalaya",)), settings(clock))
    assert clock.log == []
    assert command.line(found) == "not run: pip install himalaya"


def test_every_peer_that_is_needed_has_its_command():
    needed = {
        need for case in all_cases() for need in case.needs if not need.startswith("stoptime.")
    }
    assert needed <= set(harness.INSTALL)


def test_a_failing_case_does_not_end_the_run(clock):
    def fail():
        raise ValueError("no such solver")

    case = Case("paths", "a problem", "a peer", lambda: Work(fail, fail), "the reason")
    assert run_case(case, settings(clock)).error == "ValueError: no such solver"


def test_a_losing_case_gives_its_reason(clock):
    shown = command.line(run_case(a_case(clock, (4.0,), (1.0,)), settings(clock)))
    assert "0.25 times as fast (goal at least 1)" in shown
    assert shown.endswith("LOSES\n        the reason")


def all_cases():
    return [case for quick in (False, True) for case in cases.all_cases(quick)]


def test_every_case_has_a_reason_ready_and_a_name_of_its_own():
    for quick in (False, True):
        listed = cases.all_cases(quick)
        assert all(case.why and case.group in cases.GROUPS for case in listed)
        keys = [(case.group, case.name, case.peer) for case in listed]
        assert len(set(keys)) == len(keys)


def test_exponents_of_power_laws():
    sizes = np.array([10, 30, 100, 300])
    assert exponent(sizes, 3e-4 * sizes**1.7) == pytest.approx(1.7)
    assert np.isnan(exponent([10], [1.0]))
    # a fixed cost hides growth among small sizes
    grown = Growth("n", "p = 1", "stoptime", tuple(sizes), tuple(100 + sizes * 1.0))
    assert 0 < grown.exponent < grown.last_exponent < 1


def test_a_sweep_leaves_out_who_has_become_too_slow(clock, monkeypatch):
    speeds = {"stoptime": 0.001, "RidgeCV": 0.1}
    monkeypatch.setattr(
        scaling,
        "competitors",
        lambda n, **_: {who: clock.work(who, speed * n) for who, speed in speeds.items()},
    )
    sweep = scaling.Sweep("n", [10, 20, 40, 80], enough=2.0)
    ours, theirs = scaling.run_sweep(sweep, settings(clock))
    assert ours.sizes == (10, 20, 40, 80)
    assert theirs.sizes == (10, 20)
    assert ours.exponent == pytest.approx(1)


def a_run(**options):
    lost = outcome(0.5)
    absent = Outcome("targets", "many | more", "himalaya", missing="pip install himalaya")
    growths = [
        Growth("n", "p = 5", who, (10, 100, 1000), (0.1 * c, 0.2 * c, 0.4 * c))
        for c, who in enumerate(("stoptime", "RidgeCV"), 1)
    ]
    given = {
        "mode": "full",
        "outcomes": (outcome(3.0), lost, absent),
        "growths": tuple(growths),
    } | options
    return Run(date="2026-01-01", environment=ENVIRONMENT, **given)


def test_json_round_trip(tmp_path):
    save(a_run(), tmp_path / "deep" / "run.json")
    assert load(tmp_path / "deep" / "run.json") == a_run()
    plain = json.loads((tmp_path / "deep" / "run.json").read_text(encoding="utf-8"))
    assert [one["verdict"] for one in plain["outcomes"]] == ["holds", "LOSES", "not run"]
    assert plain["growths"][0]["exponent"] == pytest.approx(np.log10(2), abs=1e-4)
    assert [file.name for file in (tmp_path / "deep").iterdir()] == ["run.json"]


def test_a_file_of_another_schema_is_refused(tmp_path):
    (tmp_path / "run.json").write_text(
        json.dumps(as_dict(a_run()) | {"schema": 0}), encoding="utf-8"
    )
    with pytest.raises(ValueError, match="run the benchmark again"):
        load(tmp_path / "run.json")


def test_the_page_shows_losses_gaps_and_figures(tmp_path):
    save(a_run(), tmp_path / "cpu.json")
    page.write(tmp_path, tmp_path / "docs")
    text = (tmp_path / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert "- a problem, against a peer, loses: the reason" in text
    assert "| many \\| more | himalaya |  |  |  |  | not run: pip install himalaya |" in text
    assert "quick run" not in text
    assert "On a GPU" not in text
    for name in ("ratios-light", "ratios-dark", "growth-light", "growth-dark"):
        assert f"_static/benchmarks/{name}.svg" in text
        assert (tmp_path / "docs" / "_static" / "benchmarks" / f"{name}.svg").stat().st_size > 1000
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {7, 8}


def test_sizes_and_times_stay_on_one_line():
    assert (
        page.unbroken("2 000 × 200, 100 000 targets").replace(page.NO_BREAK, "_")
        == "2_000_×_200, 100_000 targets"
    )
    assert page.unbroken("15.2 ms in 3 rounds").replace(page.NO_BREAK, "_") == "15.2_ms in 3 rounds"


def test_the_page_says_when_a_run_was_quick_and_shows_a_gpu():
    text = page.text(
        a_run(mode="quick"),
        Run("full", "", {"processor": "a GPU", "versions": {}}, (outcome(3.0),)),
    )
    assert "from a quick run" in text
    assert "a GPU. Full run." in text


def test_the_committed_page_is_that_of_the_committed_results():
    results = Path(page.RESULTS)
    cells = results / "real_data.json"
    real = page.load_cells(cells) if cells.exists() else None
    expected = page.text(load(results / "cpu.json"), load(results / "gpu.json"), real)
    assert (page.ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8") == expected


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    monkeypatch.setattr(command.page, "write", (tmp_path / "page").touch)
    return tmp_path


def enter(monkeypatch, *listed):
    monkeypatch.setattr(command.cases, "all_cases", lambda *_: list(listed))
    monkeypatch.setattr(command.scaling, "sweeps", lambda _: [])


def tiny(name, ours=lambda: None):
    return Case(
        "paths", name, "a peer", lambda: Work(ours, lambda: None), "the reason", goal=None, rounds=1
    )


def test_only_a_whole_full_run_is_published(folder, monkeypatch, capsys):
    enter(monkeypatch, tiny("a"), tiny("b"))
    assert command.main(["--quick"]) == 0
    assert [file.name for file in folder.iterdir()] == ["quick.json"]
    assert command.main(["--only", "paths"]) == 0
    assert {file.name for file in folder.iterdir()} == {"quick.json", "part.json"}
    assert command.main([]) == 0
    assert {file.name for file in folder.iterdir()} == {
        "quick.json",
        "part.json",
        "cpu.json",
        "page",
    }
    assert "[ 2/2] paths: b against a peer" in capsys.readouterr().out


def test_one_group_can_be_published_again(folder, monkeypatch):
    other = Case(
        "kernels", "k", "a peer", lambda: Work(lambda: None, lambda: None), "", goal=None, rounds=1
    )
    enter(monkeypatch, tiny("a"), other)
    command.main([])
    enter(monkeypatch, tiny("b"))
    command.main(["--only", "paths", "--add"])
    assert [one.name for one in load(folder / "cpu.json").outcomes] == ["b", "k"]
    published = load(folder / "cpu.json")
    elsewhere = replace(published, environment={**published.environment, "processor": "another"})
    with pytest.raises(ValueError, match="published are results of another"):
        command.merged(elsewhere, published)


def test_an_interruption_keeps_what_was_measured(folder, monkeypatch, capsys):
    def interrupt():
        raise KeyboardInterrupt

    enter(monkeypatch, tiny("a"), tiny("b", interrupt), tiny("c"))
    assert command.main([]) == 130
    assert [file.name for file in folder.iterdir()] == ["unfinished.json"]
    assert [one.name for one in load(folder / "unfinished.json").outcomes] == ["a"]
    assert "1 of 3 cases are in results/unfinished.json" in capsys.readouterr().out


def test_a_failure_shows_in_the_exit_status(folder, monkeypatch):
    def fail():
        raise ValueError("no")

    enter(monkeypatch, tiny("a", fail), tiny("b"))
    assert command.main(["--quick"]) == 1
    assert len(load(folder / "quick.json").outcomes) == 2


def test_the_environment_names_threads_and_versions_but_no_place():
    found = machine.environment(1)
    assert found["threads"] == 1
    assert all(pool.endswith("threads: 1") for pool in found["pools"])
    assert found["versions"]["numpy"] == np.__version__
    recorded = {"processor", "cores", "memory_gib", "system", "python", "pools", "load_at_start"}
    assert set(found) == recorded | {"threads", "versions"}


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (0.12345, "0.123"), (12.345, "12.3"), (1234.5, "1 234"), (2e-11, "2e-11")],
)
def test_numbers_as_people_read_them(value, shown):
    assert short(value) == shown


def test_limits_are_compared_with_random_designs(monkeypatch):
    chosen = [st.HeavyBallFlow(0.5), st.NuMethod(0.02)]
    monkeypatch.setattr(limits, "methods", lambda *_: chosen)
    for covariance in ("two-point", "AR(1)"):
        rows = limits.compare(covariance, 0.5, 120, 3)
        assert [row["method"] for row in rows] == [str(one) for one in chosen]
        # terms of order 1/n remain
        assert all(row["quadrature"] < 1e-6 and row["beyond"] < 5 / 120 for row in rows)
    assert "NuMethod" in limits.worst(rows)


def test_limits_without_the_effect_of_finite_designs(monkeypatch):
    monkeypatch.setattr(limits, "methods", lambda *_: [st.Ridge(), st.HeavyBallFlow(0.5)])
    (row,) = limits.compare("two-point", 0.5, 400, 12, "Ridge", halve=True)
    assert row["method"] == "Ridge()"
    assert row["extrapolated"] <= 5 * row["extrapolated_error"]
    # two and one times independent errors
    assert 1.5 < row["extrapolated_error"] / row["standard_error"] < 4
    assert row["extrapolated_beyond"] in {0.0, row["extrapolated"]}


def test_every_saved_limit_agrees_with_simulation():
    """Within one percent or three standard errors; else without the effect of order 1/n."""
    rows = json.loads(limits.RESULTS.read_text(encoding="utf-8"))
    assert len(rows) == 325
    missed = [row for row in rows if row["beyond"] > 0]
    assert len(missed) == 3
    assert {row["covariance"] for row in missed} == {"spiked"}
    assert all(row["method"].startswith("HeavyBall") for row in missed)
    assert all(row["extrapolated_beyond"] == 0 for row in missed)


def test_the_page_shows_the_saved_limits():
    rows = json.loads(limits.RESULTS.read_text(encoding="utf-8"))
    assert limits.table(rows) in (page.ROOT / "docs" / "beyond.md").read_text(encoding="utf-8")
    assert max(row["quadrature"] for row in rows) < 4e-7
