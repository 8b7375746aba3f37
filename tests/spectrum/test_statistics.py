"""Statistics: merging, updating, taking away, and files that may be hostile."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

import stoptime as st
from stoptime.spectrum.moments import Statistics
from stoptime.support.files import load_arrays, save_arrays

FIELDS = ("feature_mean", "target_mean", "gram", "cross", "target_power")


def data(seed=0, n=400, p=4, q=None, mean=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) @ rng.standard_normal((p, p)) + mean
    beta = rng.standard_normal(p if q is None else (p, q))
    y = (X - mean) @ beta
    return X, y + rng.standard_normal(y.shape)


def assert_same(a, b, tolerance=1e-12):
    """Compare every product in units of the standard deviations, and every mean likewise."""
    x, y = np.sqrt(np.diagonal(b.gram)), np.sqrt(b.target_power)
    scales = {"feature_mean": x, "target_mean": y, "gram": np.outer(x, x), "cross": np.outer(x, y)}
    scales["target_power"] = b.target_power
    for name in FIELDS:
        eps = (
            4 * np.finfo(float).eps * np.abs(getattr(b, name))
        )  # of the mean itself, as it is printed
        difference = np.abs(getattr(a, name) - getattr(b, name))
        assert np.all(difference <= tolerance * scales[name] + (eps if "mean" in name else 0)), name
    assert a.weight == pytest.approx(b.weight, rel=1e-14)
    assert (a.n_rows, a.single_target) == (b.n_rows, b.single_target)


@pytest.mark.parametrize("q", [None, 3])
def test_statistics_are_the_textbook_moments(q):
    X, y = data(q=q, mean=2.0)
    weights = np.random.default_rng(1).uniform(0, 2, len(X)) * (np.arange(len(X)) % 7 > 0)
    found = Statistics.of(X, y, weights)
    Y = y.reshape(len(y), -1)
    cov = np.cov(np.column_stack([X, Y]).T, aweights=weights, ddof=0)
    np.testing.assert_allclose(found.gram, cov[:4, :4], rtol=1e-12)
    np.testing.assert_allclose(found.cross, cov[:4, 4:], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.target_power, np.diagonal(cov)[4:], rtol=1e-12)
    np.testing.assert_allclose(
        found.feature_mean, np.average(X, axis=0, weights=weights), rtol=1e-12
    )
    assert found.n_rows == np.count_nonzero(weights)
    assert found.weight == pytest.approx(weights.sum())


@settings(max_examples=40)
@given(
    seed=hs.integers(0, 10**6),
    cuts=hs.lists(hs.integers(0, 400), max_size=12),
    mean=hs.sampled_from([0.0, 3.0, -1e6]),
    weighted=hs.booleans(),
)
def test_merged_statistics_do_not_depend_on_the_chunks(seed, cuts, mean, weighted):
    X, y = data(seed, mean=mean)
    weights = np.random.default_rng(seed).uniform(0, 2, len(X)) if weighted else None
    bounds = [0, *sorted(cuts), len(X)]
    parts = [
        Statistics.of(X[a:b], y[a:b], None if weights is None else weights[a:b])
        for a, b in itertools.pairwise(bounds)
    ]
    assert_same(sum(parts[1:], start=parts[0]), Statistics.of(X, y, weights))


@pytest.mark.parametrize("rows", [1, 3, 50])
def test_sorted_rows_with_large_means_keep_their_digits(rows):
    """Chunks whose means all differ, as in a file sorted by a column."""
    X, y = data(n=1500, mean=1e6)
    order = np.argsort(X[:, 0])
    X, y = X[order], y[order]
    assert_same(st.summarise(st.Chunks.of(X, y, rows=rows)), Statistics.of(X, y))


@given(seed=hs.integers(0, 10**6), mean=hs.sampled_from([0.0, 1e6]))
def test_taking_away_undoes_merging(seed, mean):
    X, y = data(seed, mean=mean)
    part = Statistics.of(X[:50], y[:50])
    assert_same(Statistics.of(X, y).without(part), Statistics.of(X[50:], y[50:]), 1e-11)


def test_what_is_no_part_cannot_be_taken_away():
    X, y = data()
    whole = Statistics.of(X, y)
    with pytest.raises(ValueError, match="cannot be a part"):
        whole.without(whole)
    with pytest.raises(ValueError, match="cannot be a part"):
        Statistics.of(X[:5], y[:5]).without(whole)


def test_gram_is_the_solver_of_statistics_and_needs_no_warning():
    X, y = data()
    X = np.column_stack([X, X[:, 0] + 1e-6 * np.random.default_rng(5).standard_normal(len(X))])
    st.path(Statistics.of(X, y), "ridge", [np.inf], solver="gram")
    with pytest.raises(ValueError, match="rows in memory"):
        st.decompose(Statistics.of(X, y), solver="svd")


def test_rows_without_weight_change_nothing():
    X, y = data()
    whole = Statistics.of(X, y)
    nothing = Statistics.of(X[:3], y[:3], [0, 0, 0])
    assert_same(whole + nothing, whole)
    assert_same(nothing + whole, whole)
    assert whole.without(nothing) is whole
    with pytest.raises(ValueError, match="no row of positive weight"):
        st.decompose(nothing)


@pytest.mark.parametrize("names", [None, ["a", "b", "c", "d"]])
def test_files_keep_every_bit(tmp_path, names):
    X, y = data(q=2)
    before = Statistics.of(X, y, names=names)
    before.save(tmp_path / "seen.npz")
    after = Statistics.load(tmp_path / "seen.npz")
    for name in ("origin", "offset", *FIELDS):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    assert (after.weight, after.n_rows, after.names) == (before.weight, before.n_rows, before.names)
    assert_same(after.update(X, y), before + before)
    assert [path.name for path in tmp_path.iterdir()] == ["seen.npz"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"gram": None}, "gram is missing"),
        ({"gram": np.eye(3)}, "do not fit each other"),
        ({"cross": np.full((4, 1), np.nan)}, "not finite"),
        ({"cross": np.zeros(4)}, "do not fit each other"),
        ({"origin": np.zeros(5, np.float32)}, "do not fit each other"),
        ({"format": np.array(99)}, "format 99"),
        ({"names": np.array(["a"])}, "do not fit each other"),
    ],
)
def test_spoiled_files_are_refused(tmp_path, changed, message):
    Statistics.of(*data()).save(tmp_path / "good.npz")
    with np.load(tmp_path / "good.npz") as good:
        arrays = dict(good) | changed
    save_arrays(
        tmp_path / "bad.npz", {name: value for name, value in arrays.items() if value is not None}
    )
    with pytest.raises(ValueError, match=message):
        Statistics.load(tmp_path / "bad.npz")


def test_hostile_files_are_refused_before_they_are_read(tmp_path):
    target = tmp_path / "bad.npz"
    target.write_bytes(b"not a file of arrays")
    with pytest.raises(ValueError, match=r"bad.npz is not a file of arrays"):
        Statistics.load(target)
    np.savez(target, gram=np.array([{"a": 1}], dtype=object))  # would have to be unpickled
    with pytest.raises(ValueError, match="allow_pickle"):
        Statistics.load(target)
    whole = tmp_path / "whole.npz"
    Statistics.of(*data()).save(whole)
    target.write_bytes(whole.read_bytes()[:-200])
    with pytest.raises(ValueError, match="not a file of arrays"):
        Statistics.load(target)
    with pytest.raises(FileNotFoundError):
        load_arrays(tmp_path / "none.npz")


@pytest.mark.parametrize(
    ("X", "y", "error", "message"),
    [
        ([[1.0], [np.nan]], [1.0, 2.0], ValueError, "X contains NaN, first in row 1, column 0"),
        ([[1.0], [2.0]], [1.0, np.nan], ValueError, "y contains NaN, first in row 1"),
        ([1.0, 2.0], [1.0, 2.0], ValueError, "X must be of shape"),
        ([["a"], ["b"]], [1.0, 2.0], TypeError, "X must hold numbers"),
        (np.empty((2, 0)), [1.0, 2.0], ValueError, "X has no columns"),
        (np.empty((0, 20_001)), [], ValueError, "Statistics of 20001 features take 3 GB"),
    ],
)
def test_bad_rows_are_named(X, y, error, message):
    with pytest.raises(error, match=message):
        Statistics.of(X, y)


def test_other_columns_are_not_merged():
    X, y = data()
    seen = Statistics.of(X, y, names="abcd")
    with pytest.raises(ValueError, match="different columns"):
        seen.merge(Statistics.of(X[:, :2], y))
    with pytest.raises(ValueError, match="y of different shapes"):
        seen.update(X, y[:, None])
    with pytest.raises(ValueError, match="different features: 'c' and 'd'"):
        seen.merge(Statistics.of(X, y, names="abdc"))
    with pytest.raises(TypeError, match="merge only with Statistics"):
        seen + 1
    with pytest.raises(ValueError, match="4 different names"):
        Statistics.of(X, y, names=["a", "b"])
    assert (seen + Statistics.of(X, y)).names == ("a", "b", "c", "d")


def test_estimators_take_statistics():
    X, y = data()
    statistics = Statistics.of(X, y, names="abcd")
    model = st.StoppedRegressorCV(rule="path-gcv").fit(statistics)
    assert list(model.feature_names_in_) == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="holds its own response"):
        st.StoppedRegressor().fit(statistics, y)
    with pytest.raises(TypeError, match="no rows to predict"):
        model.predict(statistics)


def test_the_first_rows_may_be_unlike_all_others(rng):
    X = rng.standard_normal((20_000, 3)) + 1e6
    X[:64] = 0
    y = X @ [1.0, 2.0, 3.0]
    whole = st.Statistics.of(X, y)
    parts = sum(st.Statistics.of(X[k : k + 1000], y[k : k + 1000]) for k in range(0, 20_000, 1000))
    np.testing.assert_allclose(whole.gram, parts.gram, rtol=1e-13)
    np.testing.assert_allclose(whole.cross, parts.cross, rtol=1e-12)


def test_columns_of_a_data_frame_are_told_apart(rng):
    pandas = pytest.importorskip("pandas")
    frame, y = (
        pandas.DataFrame(rng.standard_normal((30, 3)), columns=list("abc")),
        rng.standard_normal(30),
    )
    seen = Statistics.of(frame, y)
    assert seen.names == st.summarise(frame, y).names == ("a", "b", "c")
    assert seen.update(frame, y).n_rows == 60
    for other in (frame[list("cba")], frame.rename(columns={"a": "d"})):
        with pytest.raises(ValueError, match="different features"):
            seen.update(other, y)
    assert Statistics.of(frame.set_axis(range(3), axis=1), y).names is None
    assert Statistics.of(frame.set_axis(list("aab"), axis=1), y).names is None
