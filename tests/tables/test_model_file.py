"""Model files: predictions bit for bit, and a clear refusal of all that is not one."""

import base64
import json

import hypothesis
import hypothesis.strategies as some
import numpy as np
import pytest
from scipy import sparse

import stoptime as st
from stoptime.tables import model_file


def data(rng, targets=None, dtype=np.float64):
    X = rng.standard_normal((50, 7)).astype(dtype)
    shape = (7,) if targets is None else (7, targets)
    noise = rng.standard_normal((50,) if targets is None else (50, targets))
    return X, (X @ rng.standard_normal(shape) + noise).astype(dtype)


MODELS = [
    st.StoppedRegressorCV(),
    st.StoppedRegressorCV("nesterov", per_target=True),
    st.StoppedRegressorCV("conjugate-gradient", cv=3),
    st.StoppedRegressorCV(["ridge", st.HeavyBallFlow(0.5)], fit_intercept=False),
    st.StoppedRegressor("ridge", np.inf),
    st.StoppedRegressor(st.AcceleratedFlow(5.0)),
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("targets", [None, 1, 3])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_predicts_bit_for_bit(tmp_path, rng, model, targets, dtype):
    X, y = data(rng, targets, dtype)
    model.fit(X, y)
    st.save(model, tmp_path / "model.json")
    same = st.load(tmp_path / "model.json")
    new = rng.standard_normal((20, 7)).astype(dtype)
    found, expected = same.predict(new), model.predict(new)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype
    assert same.method == model.method_
    np.testing.assert_array_equal(same.stop, model.stop_)
    if getattr(model, "left_out_residuals_", None) is not None:
        for confidence in (0.5, 0.9, 0.99):
            ends = same.predict_interval(new, confidence)
            expected = model.predict_interval(new, confidence)
            # the fits without each row are kept in single precision
            tolerance = 1e-6 * np.ptp(expected)
            np.testing.assert_allclose(ends, expected, rtol=0, atol=tolerance)


def test_weights_keep_their_intervals(tmp_path, rng):
    X, y = data(rng)
    model = st.StoppedRegressorCV().fit(X, y, rng.uniform(0, 2, 50))
    st.save(model, tmp_path / "model.json")
    ends = st.load(tmp_path / "model.json").predict_interval(X)
    np.testing.assert_allclose(ends, model.predict_interval(X), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["csr", "tensor"])
def test_other_kinds_of_data_keep_their_intervals(tmp_path, rng, kind):
    X, y = data(rng)
    rows, response = sparse.csr_array(X), y
    if kind == "tensor":
        torch = pytest.importorskip("torch")
        rows, response = torch.tensor(X), torch.tensor(y)
    model = st.StoppedRegressorCV("ridge").fit(rows, response)
    st.save(model, tmp_path / "model.json")
    ends = st.load(tmp_path / "model.json").predict_interval(X)
    np.testing.assert_allclose(ends, np.asarray(model.predict_interval(rows)), rtol=0, atol=1e-6)


def test_a_loaded_model_saves_to_the_same_file(tmp_path, rng):
    model = st.StoppedRegressorCV("nesterov-flow").fit(*data(rng))
    st.save(model, tmp_path / "one.json")
    st.save(st.load(tmp_path / "one.json"), tmp_path / "two.json")
    assert (tmp_path / "one.json").read_text() == (tmp_path / "two.json").read_text()
    assert repr(st.load(tmp_path / "two.json")).startswith(
        "Model(AcceleratedFlow(friction=3.0), stop "
    )


def test_names_of_a_data_frame_are_kept_and_checked(tmp_path, rng):
    pd = pytest.importorskip("pandas")
    X, y = data(rng)
    frame = pd.DataFrame(X, columns=list("abcdefg"))
    fitted = st.StoppedRegressorCV().fit(frame, y)
    st.save(fitted, tmp_path / "model.json")
    model = st.load(tmp_path / "model.json")
    assert model.features == tuple("abcdefg")
    np.testing.assert_array_equal(model.predict(frame), fitted.predict(frame))
    with pytest.raises(ValueError, match="in this order"):
        model.predict(frame[list("gfedcba")])


def test_recipes_travel_with_the_model(tmp_path, rng):
    pd = pytest.importorskip("pandas")
    from stoptime import tables

    frame = pd.DataFrame({"x": rng.normal(size=40), "town": rng.choice(["a", "b", None], 40)})
    frame["y"] = frame["x"] + (frame["town"] == "a") + rng.normal(size=40)
    prepared = tables.prepare(frame, "y")
    fitted = st.StoppedRegressorCV().fit(prepared.X, prepared.y)
    st.save(fitted, tmp_path / "model.json", prepared=prepared)
    model = st.load(tmp_path / "model.json")
    assert model.recipe == prepared.recipe
    assert model.target == "y"
    whole = frame[frame["town"].notna()]
    np.testing.assert_array_equal(
        model.predict(whole), fitted.predict(prepared.recipe.transform(whole)[0])
    )
    np.testing.assert_array_equal(
        model.predict(whole[["x", "town"]].to_numpy()), model.predict(whole)
    )
    with pytest.warns(st.PreparationWarning, match="not seen"):
        model.predict(whole.assign(town="c"))
    with pytest.raises(ValueError, match="x, town"):
        model.predict(np.zeros((2, 5)))


def test_only_what_can_be_loaded_is_saved(tmp_path, rng):
    from sklearn.exceptions import NotFittedError
    from sklearn.linear_model import LinearRegression

    class Custom(st.GradientFlow):
        name = "custom"

    X, y = data(rng)
    target = tmp_path / "model.json"
    with pytest.raises(TypeError, match="LinearRegression"):
        st.save(LinearRegression().fit(X, y), target)
    with pytest.raises(NotFittedError):
        st.save(st.StoppedRegressorCV(), target)
    with pytest.raises(ValueError, match="cannot be saved"):
        st.save(st.StoppedRegressor(Custom(), 1.0).fit(X, y), target)
    assert not list(tmp_path.iterdir())


def test_a_model_checks_its_rows(tmp_path, rng):
    st.save(st.StoppedRegressor("ridge", 1.0).fit(*data(rng)), tmp_path / "model.json")
    model = st.load(tmp_path / "model.json")
    with pytest.raises(ValueError, match="X has 3 features, but the model has 7"):
        model.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="no left-out residuals"):
        model.predict_interval(np.zeros((2, 7)))


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    X, y = data(np.random.default_rng(0))
    path = tmp_path_factory.mktemp("model") / "model.json"
    st.save(st.StoppedRegressorCV().fit(X, y), path)
    return json.loads(path.read_text())


RECIPE = {
    "columns": [
        {"name": f"c{i}", "kind": "number", "fill": 0.0, "levels": [], "form": ""} for i in range(7)
    ],
    "centres": [0.0] * 7,
    "scales": [1.0] * 7,
    "missing": [],
}
NAMES = [f"c{i}" for i in range(7)]
LEVELS = {"name": "c0", "kind": "category", "fill": None, "levels": ["a", "a"], "form": ""}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "pickle"}, '"format" must be "stoptime-model"'),
        ({"schema": 3}, "of a newer stoptime: upgrade"),
        ({"schema": "1"}, '"schema" must be a whole number'),
        ({"schema": True}, '"schema" must be a whole number'),
        ({"surprise": 1}, '"surprise" is not as stoptime writes it'),
        ({"coef": None}, "Out of range float values"),
        ({"coef": [np.nan] * 7}, "Out of range float values"),
        ({"coef": [-np.inf] * 7}, "Out of range float values"),
        ({"coef": []}, '"coef" does not fit'),
        ({"coef": "1"}, '"coef" is not as stoptime writes it'),
        ({"coef": ["1"] * 7}, '"coef" is not as stoptime writes it'),
        ({"coef": [1.0] * 6 + [True]}, '"coef" is not as stoptime writes it'),
        ({"coef": [[1.0], [1.0, 2.0]]}, '"coef" is wrong'),
        ({"coef": [[[1.0]]]}, '"coef" does not fit'),
        ({"coef": [10**400]}, '"coef" is wrong'),
        ({"coef": {"a": 1}}, '"coef" is wrong'),
        ({"intercept": [1.0]}, '"intercept" does not fit'),
        ({"intercept": None}, "Out of range float values"),
        ({"dtype": "object"}, '"dtype" is wrong'),
        ({"dtype": "float32"}, '"coef" is not as|"intercept" is not as'),
        ({"method": {"name": "os.system"}}, '"method" is wrong .*os.system'),
        ({"method": {"name": "nesterov-flow"}}, '"method" is not as stoptime writes it'),
        ({"method": {"name": "nesterov-flow", "friction": -1}}, "friction must be"),
        ({"method": {"name": "nesterov-flow", "friction": [3]}}, "friction must be"),
        ({"method": {"name": "nesterov-flow", "friction": True}}, "friction must be"),
        ({"method": {"name": "ridge", "code": "x"}}, "unexpected keyword argument 'code'"),
        ({"method": "ridge"}, '"method" is wrong'),
        ({"stop": -1.0}, '"stop" does not fit'),
        ({"stop": None}, '"stop" is wrong'),
        ({"stop": "forever"}, '"stop" is wrong .*forever'),
        ({"stop": [1.0, 2.0]}, '"stop" does not fit'),
        ({"features": ["a"]}, '"features" does not fit'),
        ({"features": [1] * 7}, '"features" is not as stoptime writes it'),
        ({"target": 5}, '"target" is not as stoptime writes it'),
        ({"version": None}, '"version" must be text'),
        ({"residuals": [[1.0], [1.0]]}, '"residuals" does not fit'),
        ({"residuals": [[-1.0]]}, '"residuals" does not fit'),
        ({"residuals": None}, '"observations" does not fit'),
        ({"observations": -1.0}, '"observations" does not fit'),
        ({"observations": [1.0]}, '"observations" does not fit'),
        ({"recipe": [], "features": NAMES}, '"recipe" is wrong'),
        ({"recipe": RECIPE}, '"recipe" does not fit'),
        ({"recipe": {**RECIPE, "scales": [0.0] * 7}, "features": NAMES}, '"recipe" does not fit'),
        ({"recipe": {**RECIPE, "scales": [1.0]}, "features": NAMES}, '"recipe" does not fit'),
        ({"recipe": {**RECIPE, "code": 1}, "features": NAMES}, '"recipe" is not as'),
        ({"recipe": {**RECIPE, "columns": 3}, "features": NAMES}, '"recipe" is wrong'),
        (
            {"recipe": {**RECIPE, "columns": RECIPE["columns"][:1] * 7}, "features": NAMES},
            '"recipe" does not fit',
        ),
        (
            {"recipe": {**RECIPE, "columns": RECIPE["columns"][:2]}, "features": NAMES},
            '"recipe" does not fit',
        ),
        ({"recipe": {**RECIPE, "columns": [LEVELS]}, "features": NAMES}, '"recipe" does not fit'),
        (
            {"recipe": {**RECIPE, "columns": [{**LEVELS, "kind": ["x"]}]}, "features": NAMES},
            '"recipe" does not fit',
        ),
    ],
)
def test_wrong_files_are_refused(tmp_path, content, change, words):
    path = tmp_path / "model.json"
    path.write_text(json.dumps({**content, "left_out": None, **change}))
    with pytest.raises(ValueError, match=words) as error:
        st.load(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"unit": -1.0}, "does not fit"),
        ({"mean": [0.0]}, "does not fit"),
        ({"shape": [50, 1, 7]}, "is wrong"),
        ({"shape": [25, 2, 8]}, "does not fit"),
        ({"shape": [-1, 1, 8]}, "is not as"),
        ({"changes": "AAAA"}, "is wrong"),
        ({"changes": "not base 64"}, "is wrong"),
        ({"code": 1}, "is not as"),
        ({"changes": base64.b64encode(np.full(400, np.nan, "<f4").tobytes()).decode()}, "fit"),
    ],
)
def test_wrong_fits_without_rows_are_refused(tmp_path, content, change, words):
    path = tmp_path / "model.json"
    path.write_text(json.dumps({**content, "left_out": {**content["left_out"], **change}}))
    with pytest.raises(ValueError, match=f'"left_out" .*{words}'):
        st.load(path)


def test_files_of_the_first_schema_are_read(tmp_path, content):
    old = {key: value for key, value in content.items() if key not in {"left_out", "classes"}}
    del old["original_units"]
    recipe = {**RECIPE, "columns": [dict(one) for one in RECIPE["columns"]]}
    del recipe["missing"]
    for column in recipe["columns"]:
        del column["form"]
    path = tmp_path / "model.json"
    path.write_text(json.dumps({**old, "schema": 1, "recipe": recipe, "features": NAMES}))
    model = st.load(path)
    rows = np.eye(7)
    np.testing.assert_array_equal(
        model.predict(rows), rows @ content["coef"] + content["intercept"]
    )
    assert model.interval_kind == "jackknife"
    st.save(model, tmp_path / "new.json")
    assert json.loads((tmp_path / "new.json").read_text())["schema"] == 2


@pytest.mark.parametrize(
    "labels", [["no", "yes"], [False, True], [0, 1], ["a", "b", "c"], [3, 5, 9]]
)
def test_classifiers_predict_bit_for_bit(tmp_path, rng, labels):
    X = rng.standard_normal((80, 4))
    place = np.digitize(X[:, 0] + 0.3 * rng.standard_normal(80), [-0.5, 0.5][: len(labels) - 1])
    model = st.StoppedClassifierCV().fit(X, np.array(labels)[place])
    st.save(model, tmp_path / "model.json")
    same = st.load(tmp_path / "model.json")
    np.testing.assert_array_equal(same.predict(X), model.predict(X))
    np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))
    assert same.predict(X).dtype.kind == np.array(labels).dtype.kind
    assert same.interval_kind is None
    with pytest.raises(ValueError, match="no left-out residuals"):
        same.predict_interval(X)
    content = json.loads((tmp_path / "model.json").read_text())
    for wrong in ([1], ["x"] * len(labels), [[1, 2]]):
        content["classes"]["labels"] = wrong
        (tmp_path / "wrong.json").write_text(json.dumps(content))
        with pytest.raises(ValueError, match='"classes" does not fit'):
            st.load(tmp_path / "wrong.json")


def test_fits_without_rows_that_are_too_large_are_left_out(tmp_path, rng, monkeypatch):
    from stoptime.tables import model as module

    X, y = data(rng)
    fitted = st.StoppedRegressorCV().fit(X, y)
    monkeypatch.setattr(module, "MOST_CHANGES", 399)
    st.save(fitted, tmp_path / "model.json")
    model = st.load(tmp_path / "model.json")
    assert model.interval_kind == "jackknife"
    np.testing.assert_array_equal(
        model.predict_interval(X), fitted.predict_interval(X, kind="jackknife")
    )


def test_the_file_has_coefficients_in_the_units_of_the_table(tmp_path, rng):
    pd = pytest.importorskip("pandas")
    from stoptime import tables

    frame = pd.DataFrame({"x": rng.normal(7, 5, 40), "z": rng.normal(-3, 0.1, 40)})
    prepared = tables.prepare(frame.assign(y=frame["x"] + rng.normal(size=40)), "y")
    fitted = st.StoppedRegressorCV().fit(prepared.X, prepared.y)
    st.save(fitted, tmp_path / "model.json", prepared=prepared)
    written = json.loads((tmp_path / "model.json").read_text())["original_units"]
    # its last digit may differ on another machine
    content = json.loads((tmp_path / "model.json").read_text())
    content["original_units"]["intercept"] *= 1 + 2e-16
    (tmp_path / "model.json").write_text(json.dumps(content))
    by_hand = frame.to_numpy() @ written["coef"] + written["intercept"]
    np.testing.assert_allclose(by_hand, st.load(tmp_path / "model.json").predict(frame))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("not json", "not JSON"),
        ("[" * 200_000, "nested too deeply"),
        ('{"a":' * 200_000, "nested too deeply"),
        ('{"format": "stoptime-model", "format": "x"}', 'the key "format" is given twice'),
        ("3", "must be a JSON object"),
        ("null", "must be a JSON object"),
        (b"\x80\x04\x95pickle", "not text in UTF-8"),
        ("9" * 10_000, "is not a model"),
    ],
)
def test_hostile_files_are_refused(tmp_path, text, words):
    path = tmp_path / "model.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=words):
        st.load(path)


def test_overflowing_numbers_are_refused(tmp_path, content):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(content).replace(repr(content["coef"][0]), "1e999"))
    with pytest.raises(ValueError, match="Out of range float values"):
        st.load(path)


def test_enormous_files_and_devices_are_refused(tmp_path, content, monkeypatch):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(content))
    monkeypatch.setattr(model_file, "MOST_BYTES", 100)
    with pytest.raises(ValueError, match="more than 100"):
        st.load(path)
    with pytest.raises(ValueError, match="not a file"):
        st.load("/dev/null")
    with pytest.raises(FileNotFoundError):
        st.load(tmp_path / "absent.json")


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=5),
    lambda inner: (
        some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@hypothesis.given(key=some.integers(0, 12), value=JSON)
@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_any_change_is_refused_or_harmless(tmp_path, content, key, value):
    """Whatever a key is changed to, loading gives a model or a ValueError, never anything else."""
    path = tmp_path / "model.json"
    path.write_text(json.dumps({**content, list(content)[key]: value}))
    try:
        model = st.load(path)
    except ValueError:
        return
    assert model.predict(np.zeros((1, model.coef.shape[-1]))).shape[0] == 1


def test_a_model_file_that_is_not_there_is_named_with_a_similar_one(tmp_path):
    (tmp_path / "house.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match=r'exist: did you mean "house\.json"'):
        st.load(tmp_path / "houses.json")
