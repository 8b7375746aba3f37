"""The preparation of tables as a transformer: nothing silently, and the same for new rows."""

import pickle
import re
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

import stoptime as st
from stoptime import TablePreparation


@pytest.fixture
def frame(rng):
    n = 40
    return pd.DataFrame(
        {
            "size": rng.normal(100, 30, n),
            "town": rng.choice(["Oslo", "Rome", "Lima"], n),
            "garden": rng.choice([True, False], n),
            "built": pd.to_datetime(rng.integers(0, 20000, n), unit="D"),
        }
    )


def note(preparation, column):
    return preparation.decisions_[column].note


def test_features_are_standardised_and_one_hot(frame):
    preparation = TablePreparation()
    Z = preparation.fit_transform(frame)
    names = ["size", "garden", "built", "town=Lima", "town=Oslo", "town=Rome"]
    assert preparation.get_feature_names_out().tolist() == names
    assert preparation.columns_of_features() == ["size", "garden", "built", *["town"] * 3]
    raw = TablePreparation(standardise=False).fit_transform(frame)
    np.testing.assert_allclose(Z, StandardScaler().fit_transform(raw), rtol=1e-12)
    np.testing.assert_array_equal(raw[:, 3:], pd.get_dummies(frame["town"]).to_numpy(dtype=float))
    days = frame["built"].astype("datetime64[s]").astype(int) / 86400
    np.testing.assert_array_equal(raw[:, 2], days)
    coef, intercept = preparation.in_original_units(np.arange(6.0), np.array(2.0))
    np.testing.assert_allclose(raw @ coef + intercept, Z @ np.arange(6.0) + 2)


def test_it_is_a_transformer_of_scikit_learn(frame):
    frame.loc[3, "size"] = np.nan
    frame.loc[5, "town"] = None
    preparation = TablePreparation(categories=7).fit(frame)
    assert clone(preparation).get_params() == preparation.get_params()
    with pytest.warns(st.PreparationWarning, match="Missing values, (set|given)") as caught:
        Z = preparation.transform(frame)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", st.PreparationWarning)
        np.testing.assert_array_equal(clone(preparation).fit_transform(frame), Z)
        again = pickle.loads(pickle.dumps(preparation))
        np.testing.assert_array_equal(again.transform(frame), Z)
        shuffled = frame[frame.columns[::-1]].assign(more=1)
        np.testing.assert_array_equal(preparation.transform(shuffled), Z)
        np.testing.assert_array_equal(preparation.transform(frame.to_numpy(dtype=object)), Z)
        wide = preparation.set_output(transform="pandas").transform(frame)
    assert list(wide.columns) == preparation.get_feature_names_out().tolist()
    with pytest.raises(ValueError, match="3 features, but 4 columns were fitted: size, town"):
        preparation.transform(frame.iloc[:, :3].to_numpy(dtype=object))


def test_frames_of_polars_and_every_type_of_text_are_the_same(frame):
    expected = TablePreparation().fit_transform(frame)
    for dtype in ("string", "string[pyarrow]", "category", object):
        found = TablePreparation().fit_transform(frame.astype({"town": dtype}))
        np.testing.assert_array_equal(found, expected)
    arrow = frame.convert_dtypes(dtype_backend="pyarrow")
    np.testing.assert_array_equal(TablePreparation().fit_transform(arrow), expected)
    polars = pytest.importorskip("polars")
    np.testing.assert_allclose(
        TablePreparation().fit_transform(polars.from_pandas(frame)), expected, rtol=1e-12
    )


def test_weights_standardise_like_repeated_rows(frame):
    times = np.arange(len(frame)) % 3
    weighted = TablePreparation().fit(frame, sample_weight=times)
    repeated = TablePreparation().fit(frame.loc[frame.index.repeat(times)])
    np.testing.assert_allclose(weighted.center_, repeated.center_, rtol=1e-12)
    np.testing.assert_allclose(weighted.scale_, repeated.scale_, rtol=1e-12)


def test_missing_values_are_filled_or_refused(frame):
    frame.loc[[1, 2], "size"] = [np.nan, np.inf]
    frame.loc[4, "town"] = None
    preparation = TablePreparation(standardise=False)
    Z = preparation.fit_transform(frame)
    kept = frame["size"][np.isfinite(frame["size"])]
    assert Z[1, 0] == Z[2, 0] == np.median(kept)
    assert Z[4, preparation.get_feature_names_out().tolist().index("town=(missing)")] == 1
    words = frame.assign(town=["(missing)", *frame["town"][1:]])  # is the same category
    assert TablePreparation().fit(words).decisions_["town"].levels.count("(missing)") == 1
    assert "Missing values, set to the median: size (2)." in preparation.notes_
    assert "Missing values, given a category of their own: town (1)." in preparation.notes_
    with pytest.raises(ValueError, match='"size" has 2 missing values: missing="impute" fills'):
        TablePreparation(missing="error").fit(frame)
    strict = TablePreparation(missing="error").fit(frame.drop(index=[1, 2, 4]))
    with pytest.raises(ValueError, match='"size" has 2 missing values, and no row of the fit'):
        strict.transform(frame)


@pytest.mark.parametrize(
    ("values", "words", "kind"),
    [
        ([7] * 40, "left out, 7 in every row", "dropped"),
        (["x"] * 40, "left out, 'x' in every row", "dropped"),
        ([np.nan] * 40, "left out, there is no value", "dropped"),
        ([f"row {i}" for i in range(40)], "'row 0' and all other .* kinds=", "dropped"),
        ([f"{i % 7}.5 kg" for i in range(40)], "'0.5 kg', read .* unit 'kg'; kinds={", "number"),
        ([f"{8 + i % 9}:30" for i in range(40)], "'8:30', read as times, in hours", "number"),
        ([f"0{i % 9}123" for i in range(40)], "'00123' .* a code, .* \"number\"} reads", "text"),
        ([-999, *range(39)], r"-999 occurs 1 time, far .*; na=\[-999\] takes", "number"),
        ([20240101 + i % 28 for i in range(40)], '20240101\', read as dates.*: "number"}', "date"),
        (["2021-03-05", "16/03/2021"] * 20, r"or %d/%m/%Y.*%m/%d/%Y\"} swaps", "date"),
        (["1.250", "2.500"] * 20, "", "number"),
    ],
)
def test_every_decision_shows_a_value_and_names_the_parameter(frame, values, words, kind):
    preparation = TablePreparation().fit(frame.assign(v=values))
    assert preparation.decisions_["v"].kind == kind
    assert re.search(words, note(preparation, "v"))
    assert bool(words) == (note(preparation, "v") in preparation.notes_)


def test_ids_are_suspected_and_left_out_unless_they_are_wanted(frame, rng):
    preparation = TablePreparation().fit(frame.assign(row_id=range(100, 140), width=range(40)))
    assert 'drop=["row_id"] leaves it out' in note(preparation, "row_id")
    assert note(preparation, "width") == ""
    pairs = TablePreparation().fit(frame.assign(row_id=[f"N{i // 2}" for i in range(40)]))
    assert "'N0', a feature for each; drop=[\"row_id\"] leaves out" in note(pairs, "row_id")
    ids = pd.DataFrame({"id": [f"N{i // 2}" for i in range(342)], "x": rng.normal(size=342)})
    preparation = TablePreparation().fit(ids)
    assert "'N0' is one of 171 texts in 342 rows" in note(preparation, "id")
    assert preparation.decisions_["id"].kind == "dropped"
    kept = TablePreparation(kinds={"id": "text"}).fit(ids)
    assert len(kept.decisions_["id"].levels) == 171  # all are tied at the limit


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [([12] * 142, 142), ([30] * 20 + [4] * 300, 20), ([30] * 49 + [9] * 3, 52), ([6] * 300, 0)],
)
def test_ties_at_the_limit_are_all_kept_or_all_left_out(sizes, kept):
    text = np.repeat([f"land {i}" for i in range(len(sizes))], sizes)
    preparation = TablePreparation().fit(pd.DataFrame({"land": text, "x": np.arange(len(text))}))
    assert len(preparation.decisions_["land"].levels) == kept
    told = f"categories={len(sizes)} gives one to all" in note(preparation, "land")
    assert told == (kept < len(sizes))


def test_kinds_drop_and_na_change_the_decisions():
    frame = pd.DataFrame(
        {
            "zip": ["01234", "00501"] * 10,
            "code": [1, 2] * 10,
            "when": ["03/04/2021", "05/06/2022"] * 10,
            "gone": ["?", "1.5"] * 10,
            "far": [-999, 1.0] * 10,
            "row": range(20),
        }
    )
    kinds = {"zip": "number", "code": "text", "when": "%d/%m/%Y"}
    options = {"kinds": kinds, "drop": ["row"], "na": ["?", -999], "standardise": False}
    preparation = TablePreparation(**options).fit(frame)
    assert preparation.get_feature_names_out().tolist() == ["zip", "when", "code=1", "code=2"]
    assert "left out, 1.5 in every row" in note(preparation, "gone")
    assert "left out, 1 in every row" in note(preparation, "far")
    day = pd.Timestamp("2021-04-03").timestamp() / 86400
    assert preparation.transform(frame)[0].tolist() == [1234, day, 1, 0]


def test_new_rows_are_read_in_the_form_of_the_fit():
    frame = pd.DataFrame(
        {"when": ["03/04/2021", "25/06/2022", "01/02/2020"], "paid": ["1.500 €", "2 €", "3,5 €"]}
    )
    preparation = TablePreparation()
    Z = preparation.fit_transform(frame)
    # alone, these would be months first and a decimal point
    new = pd.DataFrame({"when": ["03/04/2021"], "paid": ["1.500"]})
    np.testing.assert_array_equal(preparation.transform(new), Z[:1])


@pytest.mark.parametrize(
    ("fitted", "new", "told"),
    [
        (["1.5%", "2%", "3%"], [0.5], True),
        ([1.5, 2, 3], ["50 %"], True),
        (["$1.5", "$2", "$3"], ["€5"], True),
        (["$1.5", "$2", "$3"], [5.0], False),
        ([1.5, 2, 3], ["1,5"], True),
        (["25/06/2022", "03/04/2021", "1/2/2020"], ["05/13/2020"], True),
        (["25/06/2022", "03/04/2021", "1/2/2020"], ["2020-05-13"], False),
        (["2020-05-13", "2020-05-14", "2020-07-13"], ["05/06/2020"], True),
    ],
)
def test_values_in_another_form_than_in_fitting_are_told(fitted, new, told):
    preparation = TablePreparation(missing="impute").fit(pd.DataFrame({"a": fitted}))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        preparation.transform(pd.DataFrame({"a": new}))
    found = [str(one.message) for one in caught]
    assert any(one.startswith("Written in another form than in fitting") for one in found) == told


def test_gaps_and_unknown_words_of_new_rows_are_told(frame):
    preparation = TablePreparation(standardise=False).fit(frame)
    for nothing in (None, " ", np.nan):
        with pytest.warns(st.PreparationWarning, match=r"median: size \(2\)"):
            Z = preparation.transform(frame.head(2).assign(size=nothing))
        assert (Z[:, 0] == frame["size"].median()).all()
    with pytest.warns(st.PreparationWarning, match=r"none of the known categories: town \(1\)"):
        Z = preparation.transform(frame.head(2).assign(town=["Bern", "Oslo"]))
    np.testing.assert_array_equal(Z[:, 3:], [[0, 0, 0], [0, 1, 0]])


def test_booleans_decimals_and_categories_are_numbers_where_asked(frame):
    rooms = pd.Series([3, 4, 30, 4] * 10, dtype="category")
    cost = [Decimal("1.5"), *map(Decimal, range(39))]
    frame = frame.assign(garden=[None, *frame["garden"][1:]], cost=cost, rooms=rooms)
    preparation = TablePreparation(kinds={"rooms": "number"}, standardise=False)
    found = preparation.set_output(transform="pandas").fit_transform(frame)
    assert found.loc[0, ["cost", "rooms"]].tolist() == [1.5, 3]
    assert "rooms=30" in TablePreparation().fit(frame).get_feature_names_out()


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({}, {"drop": ["nothing"]}, 'no column "nothing"'),
        ({}, {"kinds": {"siz": "text"}}, 'no column "siz": did you mean "size"'),
        ({}, {"kinds": {"town": "number"}}, "Column \"town\" is not all of kind 'number': text"),
        ({}, {"kinds": {"town": "word"}}, r"kinds\['town'\] must be"),
        ({}, {"missing": "ignore"}, "missing must be"),
        ({}, {"categories": 0}, "categories must be"),
        ({"size": 1e200}, {}, 'Column "size" has 1e\\+200, whose square may overflow'),
        ({"size": 3.0}, {"drop": ["town", "garden", "built"]}, 'No column is left.* "size": left'),
        ({"list": [[1, 2]] * 40}, {}, 'Column "list": .* drop the column'),
    ],
)
def test_mistakes_are_told_with_what_to_change(frame, change, options, words):
    with pytest.raises(ValueError, match=words):
        TablePreparation(**options).fit(frame.assign(**change))


@pytest.mark.parametrize("options", [{"drop": "town"}, {"na": "Oslo"}])
def test_one_word_is_no_list_of_words(frame, options):
    with pytest.raises(TypeError, match=r"must be a list; got '(\w+)': write \w+=\['\1'\]"):
        TablePreparation(**options).fit(frame)


def test_new_rows_must_have_the_columns_and_kinds(frame):
    preparation = TablePreparation().fit(frame)
    with pytest.raises(ValueError, match='no column "size": did you mean "Size"'):
        preparation.transform(frame.rename(columns={"size": "Size"}))
    with pytest.raises(ValueError, match=r'no column "size", nor "built"'):
        preparation.transform(frame.drop(columns=["size", "built"]))
    with pytest.raises(ValueError, match=r"\"size\" must hold numbers.*'large'.*by na"):
        preparation.transform(frame.assign(size=["large", *["3"] * 39]))
    with pytest.raises(ValueError, match="of two dimensions; got Series"):
        TablePreparation().fit(frame["size"])
    twice = frame.rename(columns={"town": "size"})
    with pytest.raises(ValueError, match='two columns named "size"'):
        TablePreparation().fit(twice)
