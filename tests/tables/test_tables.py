"""Reading tables and preparing their columns: nothing silently, every error with what to change."""

import bz2
import gzip
import io
import lzma
import os
import threading
import time
import zipfile

import numpy as np
import pandas as pd
import pytest

from stoptime import get_method, tables
from stoptime.tables import Policy, fitting, prepare, read_table
from stoptime.tables.columns import form_in_words, values_of


@pytest.fixture
def frame(rng):
    n = 40
    return pd.DataFrame(
        {
            "size": rng.normal(100, 30, n),
            "town": rng.choice(["Oslo", "Rome", "Lima"], n),
            "garden": rng.choice([True, False], n),
            "built": pd.to_datetime(rng.integers(0, 20000, n), unit="D"),
            "price": rng.normal(size=n),
        }
    )


def archive(*names):
    """Return an archive whose files all have the same rows."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as files:
        for name in names:
            files.writestr(name, "a,b\n1,2\n")
    return packed.getvalue()


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "name", ["a.csv", "a.tsv", "a.parquet", "parquet_without_ending", "a.csv.gz"]
)
def test_every_format_gives_the_same_table(tmp_path, frame, name):
    path = tmp_path / name
    if "parquet" in name:
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False, sep="\t" if "tsv" in name else ",")
    found = prepare(read_table(path).frame, "price")
    expected = prepare(frame, "price")
    assert found.recipe.features == expected.recipe.features
    np.testing.assert_allclose(found.X, expected.X, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("content", "values", "message"),
    [
        ("a,b\n1,2\n3,4\n", [[1, 2], [3, 4]], None),
        ("a|b\n1|2\n3|4\n", [[1, 2], [3, 4]], None),
        ("a;b\n1,5;2\n2,5;3\n", [[1.5, 2], [2.5, 3]], "decimal comma"),
        (b"\xef\xbb\xbfa,b\n1,2\n3,4\n", [[1, 2], [3, 4]], None),
        ("a,b\n1,2\n3,4\n".encode("utf-16"), [[1, 2], [3, 4]], None),
        (",a,b\n0,1,2\n1,3,4\n", [[1, 2], [3, 4]], "no name"),
        ('a,b\n"1", 2\n3,"4"\n', [[1, 2], [3, 4]], None),
    ],
)
def test_text_is_understood_as_it_comes(tmp_path, content, values, message):
    table = read_table(write(tmp_path / "data.txt", content))
    assert list(table.frame.columns) == ["a", "b"]
    np.testing.assert_array_equal(table.frame.to_numpy(dtype=float), values)
    assert (message is None) == (not table.messages)
    assert message is None or message in table.messages[0]


def test_latin_1_is_read_and_told(tmp_path):
    table = read_table(write(tmp_path / "a.csv", b"caf\xe9,b\n1,2\n3,4\n"))
    assert list(table.frame.columns) == ["café", "b"]
    assert "not UTF-8" in table.messages[0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        ("a,b\n", "no rows"),
        ("a,a\n1,2\n", 'two columns named "a"'),
        ("a,b\n1,2\n1,2,3\n", "Expected 2 fields in line 3, saw 3"),
        ("a,b\n1,2,3\n4,5,6\n", "more fields than the header"),
        ("a,b\n1,2\n4,5,6\n", "as a table: Expected 2 fields in line 3"),
        ('a,b\n"open,2\n3,4\n', "EOF inside string"),
        (b"\0\1\2\3", "neither text nor Parquet"),
        (b"PAR1 is how it begins, and no more", "cannot be read as Parquet"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0)[:-12], "a table: Compressed file ended before"),
        (b"PK\x03\x04 cut off", r"it is damaged \(File is not a zip file\): save the table as CSV"),
        (gzip.compress(b"", mtime=0)[:10] + b"\xff" * 50, "it is damaged .*: save the table"),
        (gzip.compress(b"\0\1\2", mtime=0), "neither text nor Parquet: save"),
        (gzip.compress(b"a,b\n" + b"1,2\n" * 2**17, mtime=0)[:-9], "Compressed file ended before"),
        ('[{"a": 1, "y": 2}]', "is JSON: save the table as CSV or Parquet"),
        (archive("[Content_Types].xml", "xl/sheet1.xml"), "a workbook, .* save its sheet as CSV"),
        (archive(), "the archive holds 0 files"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, content, words):
    with pytest.raises(ValueError, match=words) as error:
        read_table(write(tmp_path / "bad", content))
    assert "\n" not in str(error.value)


def test_a_missing_file_names_its_neighbour(tmp_path):
    write(tmp_path / "houses.csv", "a\n1\n")
    with pytest.raises(FileNotFoundError, match=r'houses\.csv"\?$'):
        read_table(tmp_path / "hauses.csv")
    with pytest.raises(FileNotFoundError, match="folder"):
        read_table(tmp_path)


def test_a_file_named_like_the_built_in_data_wins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read_table("diabetes").frame.shape == (442, 11)
    write(tmp_path / "diabetes", "a,b\n1,2\n")
    assert read_table("diabetes").frame.shape == (1, 2)


def test_features_are_standardised_and_one_hot(frame):
    prepared = prepare(frame, "price")
    assert prepared.recipe.features == (
        "size",
        "town=Lima",
        "town=Oslo",
        "town=Rome",
        "garden",
        "built",
    )
    np.testing.assert_allclose(prepared.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(prepared.X.std(axis=0), 1, rtol=1e-12)
    assert prepared.messages == ('Column "built": counted in days since 1970.',)
    raw = prepare(frame, "price", Policy(standardise=False)).X
    np.testing.assert_array_equal(raw[:, 1:4], pd.get_dummies(frame["town"]).to_numpy(dtype=float))
    np.testing.assert_array_equal(
        raw[:, 5], frame["built"].astype("datetime64[s]").astype(int) / 86400
    )


def test_the_recipe_gives_the_same_rows_again_bit_for_bit(frame):
    frame.loc[3, "size"] = np.nan
    frame.loc[5, "town"] = None
    prepared = prepare(frame, "price")
    np.testing.assert_array_equal(prepared.recipe.transform(frame)[0], prepared.X)


def test_weights_standardise_like_repeated_rows(frame):
    times = np.arange(len(frame)) % 3
    weighted = prepare(frame.assign(w=times), "price", weights="w")
    repeated = prepare(frame.loc[frame.index.repeat(times)], "price")
    np.testing.assert_allclose(weighted.recipe.centres, repeated.recipe.centres, rtol=1e-12)
    np.testing.assert_allclose(weighted.recipe.scales, repeated.recipe.scales, rtol=1e-12)
    np.testing.assert_array_equal(weighted.sample_weight, times)


def test_missing_values_are_filled_dropped_or_refused(frame):
    frame.loc[[1, 2], "size"] = [np.nan, np.inf]
    frame.loc[4, "town"] = None
    frame.loc[6, "price"] = np.nan
    filled = prepare(frame, "price", Policy(standardise=False))
    assert len(filled.y) == 39
    kept = frame["size"][np.isfinite(frame["size"]) & frame["price"].notna()]
    assert filled.X[1, 0] == filled.X[2, 0] == np.median(kept)
    assert filled.X[4, filled.recipe.features.index("town=(missing)")] == 1
    assert any("size (2)" in message for message in filled.messages)
    assert any("town (1)" in message for message in filled.messages)
    assert any("1 row without a target" in message for message in filled.messages)
    dropped = prepare(frame, "price", Policy("drop"))
    assert len(dropped.y) == 36
    assert any("3 rows with missing values left out" in message for message in dropped.messages)
    with pytest.raises(ValueError, match='"size" has 2 missing values'):
        prepare(frame, "price", Policy("error"))
    with pytest.raises(ValueError, match='Column "size" has 2 missing values'):
        dropped.recipe.transform(frame)


def test_unknown_categories_are_zeros_and_told(frame):
    recipe = prepare(frame, "price", Policy(standardise=False)).recipe
    X, messages = recipe.transform(frame.head(2).assign(town=["Bern", "Oslo"]))
    np.testing.assert_array_equal(X[:, 1:4], [[0, 0, 0], [0, 1, 0]])
    assert messages == (
        "Values not seen in fitting, treated as none of the known categories: town (1).",
    )


def test_columns_that_say_nothing_are_left_out_with_a_note(frame):
    extra = {
        "same": 7,
        "one": "x",
        "gone": np.nan,
        "id": [f"row {i}" for i in range(40)],
        "many": [f"v{i % 20}" for i in range(40)],
    }
    prepared = prepare(frame.assign(**extra), "price", Policy(categories=10))
    told = " ".join(prepared.messages)
    assert 'Column "same", "one": left out, the same in every row.' in told
    assert 'Column "gone": left out, there is no value.' in told
    assert 'Column "id": left out, text that is different in every row.' in told
    assert 'Column "many": 20 different values, of which the 10 most frequent (50% of rows)' in told
    assert sum(name.startswith("many=") for name in prepared.recipe.features) == 10


def test_booleans_and_decimals_with_gaps_are_numbers(frame):
    from decimal import Decimal

    flags = frame.assign(
        garden=[None, *frame["garden"][1:]], cost=[Decimal("1.5"), *map(Decimal, range(39))]
    )
    prepared = prepare(flags, "price", Policy(standardise=False))
    assert "garden" in prepared.recipe.features
    assert prepared.X[0, -1] == 1.5


def test_iso_dates_in_text_are_days(frame):
    days = frame["built"].dt.strftime("%Y-%m-%d")
    np.testing.assert_array_equal(
        prepare(frame.assign(built=days), "price").X, prepare(frame, "price").X
    )


AMOUNTS = [
    (["1.234,50 €", "12,00 €", "7 €"], ",€", [1234.5, 12, 7]),
    (["R$ 1.234,50", "-R$ 12,00", "R$7"], ",R$", [1234.5, -12, 7]),
    (["$1,234", "$ 12", "-$3"], ".$", [1234, 12, -3]),
    (["1.234 €", "12 €", "999 €"], ",€", [1234, 12, 999]),
    (["CHF 1'234.50", "CHF 2’000", "-5"], ".CHF", [1234.5, 2000, -5]),
    (["1 234,5", "2\u202f000,25", "3"], ",", [1234.5, 2000.25, 3]),
    (["12.345 %", "7%", "0.500 %"], ".%", [12.345, 7, 0.5]),
    (["0,5", "1,25", "2,000"], ",", [0.5, 1.25, 2]),
    (["1,234", "5,678", "1,234,567"], ".", [1234, 5678, 1234567]),
    (["€1.5e3", "€2", "+€3"], ".€", [1500, 2, 3]),
    (["(1,234.50)", "12.00", "($3.25)"], ".$", [-1234.5, 12, -3.25]),
    (["1.234,50-", "12,00", "3,00-"], ",", [-1234.5, 12, -3]),
    (["−1.5", "−2.25", "3"], ".", [-1.5, -2.25, 3]),
]


@pytest.mark.parametrize(("texts", "form", "numbers"), AMOUNTS)
def test_amounts_in_text_are_numbers(texts, form, numbers):
    found = values_of(pd.Series([*texts, None], dtype=object), "x")
    assert (found.kind, found.form) == ("number", form)
    np.testing.assert_array_equal(found.values, [*numbers, np.nan])
    told = form_in_words("number", form, pd.Series(texts))
    assert ("in percent and not divided by 100" in told) == ("%" in form)


@pytest.mark.parametrize("dtype", [object, "str", "string", "string[pyarrow]", "category"])
def test_text_is_read_alike_in_every_type_of_pandas(frame, dtype):
    """Under pandas 3.0 the expressions reach RE2, which has no back-references."""
    texts = pd.Series([f"{i}.234,50 €" for i in range(1, len(frame) + 1)])
    expected = np.arange(1, len(frame) + 1) * 1000 + 234.5
    found = values_of(texts.astype(dtype), "x")
    if dtype == "category":
        assert found.kind == "category"
        return
    np.testing.assert_array_equal(found.values, expected)
    words = prepare(frame.assign(town=frame["town"].astype(dtype)), "price")
    np.testing.assert_array_equal(words.X, prepare(frame, "price").X)


@pytest.mark.parametrize(
    "texts",
    [
        ["007", "123"],  # a code
        ["ABC 123", "ABC 124"],
        ["1.2.3", "1.2.4"],
        ["555 1234", "555 1235"],
        ["1-2", "3-4"],
        ["192.168.0.1", "10.0.0.1"],
        ["1,23,456", "1,2"],
        ["10:30", "11:45"],
        ["USD 5", "EUR 5"],
    ],
)
def test_text_that_only_looks_like_numbers_stays_text(texts):
    assert values_of(pd.Series(texts), "x").kind == "category"


@pytest.mark.parametrize(
    ("texts", "form", "first"),
    [
        (["03.04.2021", "05.06.2022"], "%d.%m.%Y", "2021-04-03"),
        (["03/04/2021", "05/06/2022"], "%m/%d/%Y", "2021-03-04"),
        (["03/04/2021", "25/06/2022"], "%d/%m/%Y", "2021-04-03"),
        (["3.4.21", "25.6.22"], "%d.%m.%y", "2021-04-03"),
        (["4 Mar 2021", "5 Jun 2022"], "%d %b %Y", "2021-03-04"),
        (["March 4, 2021", "June 5, 2022"], "%B %d, %Y", "2021-03-04"),
        (["2021/03/04", "2022/12/31"], "%Y/%m/%d", "2021-03-04"),
        (["04.03.2021 10:30", "31.12.2022 08:15"], "%d.%m.%Y %H:%M", "2021-03-04 10:30"),
        (["Mar 2021", "Dec 2022"], "%b %Y", "2021-03-01"),
        (["3/4/2021 1:30 PM", "12/31/2022 12:05 AM"], "%m/%d/%Y %I:%M %p", "2021-03-04 13:30"),
        (
            ["25/4/2021 1:30:05 AM", "3/1/2022 2:05:00 PM"],
            "%d/%m/%Y %I:%M:%S %p",
            "2021-04-25 01:30:05",
        ),
        ([20210304, 20221231], "%Y%m%d", "2021-03-04"),
        ([20210304.0, None, 20221231.0], "%Y%m%d", "2021-03-04"),
    ],
)
def test_dates_in_other_formats_are_days(texts, form, first):
    found = values_of(pd.Series(texts), "x")
    assert (found.kind, found.form) == ("date", form)
    assert found.values[0] == (pd.Timestamp(first) - pd.Timestamp(0)) / pd.Timedelta(days=1)


def test_new_rows_are_read_in_the_form_of_the_fit():
    frame = pd.DataFrame(
        {"when": ["03/04/2021", "25/06/2022", "01/02/2020"], "paid": ["1.500 €", "2 €", "3,5 €"]}
    )
    prepared = prepare(frame.assign(y=[1.0, 2, 4]), "y")
    assert [column.form for column in prepared.recipe.columns] == ["%d/%m/%Y", ",€"]
    assert any("'03/04/2021', read as dates (day/month/year)" in m for m in prepared.messages)
    assert any("'1.500 €', read as numbers" in m for m in prepared.messages)
    # alone, these would be months first and a decimal point
    again, _ = prepared.recipe.transform(
        pd.DataFrame({"when": ["03/04/2021"], "paid": ["1.500"]}).astype(object)
    )
    np.testing.assert_array_equal(again, prepared.X[:1])


@pytest.mark.parametrize("numbers", [[20211304, 20220101], [20210304.5, 20220101], [1, 20220101]])
def test_whole_numbers_that_are_not_all_dates_stay_numbers(numbers):
    assert values_of(pd.Series(numbers), "x").kind == "number"


def test_numbers_that_look_like_dates_in_new_rows_stay_numbers():
    frame = pd.DataFrame({"a": [20220101.0, 3, 4], "y": [1.0, 2, 4]})
    prepared = prepare(frame, "y", Policy(standardise=False))
    again, messages = prepared.recipe.transform(pd.DataFrame({"a": [20220101]}))
    assert again[0, 0] == 20220101
    assert not messages
    # a target is never a date
    assert prepare(frame.assign(y=[20220101, 20220102, 20220103]), "y").y[0] == 20220101


@pytest.mark.parametrize(
    ("fitted", "new", "told"),
    [
        (["1.5%", "2%", "3%"], [0.5], True),
        (["1.5%", "2%", "3%"], ["50 %"], False),
        ([1.5, 2, 3], ["50 %"], True),
        (["$1.5", "$2", "$3"], ["€5"], True),
        (["$1.5", "$2", "$3"], [5.0], False),
        ([1.5, 2, 3], ["1,5"], True),
        (["1,5 €", "2 €", "3 €"], [1.5], True),
        (["25/06/2022", "03/04/2021", "1/2/2020"], ["05/13/2020"], True),
        (["25/06/2022", "03/04/2021", "1/2/2020"], ["2020-05-13"], False),
        (["2020-05-13", "2020-05-14", "2020-07-13"], ["05/06/2020"], True),
        (["2020-05-13", "2020-05-14", "2020-07-13"], [None], False),
    ],
)
def test_values_in_another_form_than_in_fitting_are_told(fitted, new, told):
    prepared = prepare(pd.DataFrame({"a": fitted, "y": [1.0, 2, 4]}), "y")
    _, messages = prepared.recipe.transform(pd.DataFrame({"a": new}))
    found = [one for one in messages if one.startswith("Written in another form than in fitting")]
    assert len(found) == told
    assert all(one.endswith("a (1).") for one in found)


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_columns_of_any_size_are_standardised(frame, size):
    usual = prepare(frame, "price")
    found = prepare(frame.assign(size=frame["size"] * size), "price")
    np.testing.assert_allclose(found.X, usual.X, rtol=1e-12)
    assert np.isfinite(found.recipe.scales).all()


def test_text_that_is_different_in_every_row_is_left_out(frame):
    prepared = prepare(frame.assign(name=[f"house {i}" for i in range(len(frame))]), "price")
    assert not any("house" in one for one in prepared.recipe.features)
    assert 'Column "name": left out, text that is different in every row.' in prepared.messages
    several = prepare(frame.assign(name=[f"house {i // 2}" for i in range(len(frame))]), "price")
    told = f'Column "name": text with {len(frame) // 2} different values, a feature for each.'
    assert told in several.messages


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        (["1", "2.5", "-3e4"], r'"price". The columns are .* The first line must have the names'),
        (["a b price"], r'only column is a b price: separate columns by a comma, ";"'),
    ],
)
def test_a_header_that_is_missing_or_not_split_is_told(columns, match):
    with pytest.raises(ValueError, match=match):
        prepare(pd.DataFrame([range(len(columns))] * 3, columns=columns), "price")


def test_all_columns_that_are_missing_are_told(frame):
    recipe = prepare(frame, "price").recipe
    lacking = [one.name for one in recipe.columns][:2]
    with pytest.raises(ValueError, match=f'no column "{lacking[0]}", nor "{lacking[1]}"'):
        recipe.transform(frame.drop(columns=lacking))


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(b"a,b\n1,2\n"),
        bz2.compress(b"a,b\n1,2\n"),
        lzma.compress(b"a,b\n1,2\n"),
        archive("folder/table.csv", "__MACOSX/folder/._table.csv", "folder/.DS_Store"),
        b"a,b\n1,2\n",
    ],
    ids=["gz", "bz2", "xz", "zip", "plain"],
)
@pytest.mark.parametrize("name", ["table.csv", "table.csv.gz", "table"])
def test_the_content_tells_how_a_file_is_compressed(tmp_path, content, name):
    (tmp_path / name).write_bytes(content)
    assert read_table(tmp_path / name).frame.to_dict("list") == {"a": [1], "b": [2]}


def test_a_column_may_be_named_as_a_compressed_file_begins(tmp_path):
    path = write(tmp_path / "table.csv", "BZh,b\n1,2\n")
    assert read_table(path).frame.to_dict("list") == {"BZh": [1], "b": [2]}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a pipe with a name")
def test_a_pipe_is_read_as_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[b"a,b\n1,2\n"])
    writer.start()
    assert read_table(tmp_path / "pipe").frame.to_dict("list") == {"a": [1], "b": [2]}
    writer.join()


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["980", "1.250", "12.134"], [980, 1250, 12134]),
        (["-1.250", "", "999"], [-1250, np.nan, 999]),
        (["980", "1.251", "12.134"], [980, 1.251, 12.134]),  # as a program prints three decimals
        (["980.000", "1.250", "12.134"], [980, 1.25, 12.134]),
        (["2", "1.250", "1.600"], [2, 1.25, 1.6]),  # too small for thousands
        (["980", "0.250", "1.600"], [980, 0.25, 1.6]),
        (["1980", "1.250", "1.600"], [1980, 1.25, 1.6]),
    ],
)
@pytest.mark.parametrize("delimiter", [",", ";"])
def test_points_that_can_only_separate_thousands_do(tmp_path, texts, numbers, delimiter):
    rows = "".join(f"{text}{delimiter}{i}\n" for i, text in enumerate(texts))
    table = read_table(write(tmp_path / "table.csv", f"a{delimiter}y\n{rows}"))
    np.testing.assert_array_equal(values_of(table.frame["a"], "a").values, numbers)


@pytest.mark.parametrize("ending", ["gz", "bz2", "zip", "xz"])
def test_compressed_files_are_read_as_they_are_unpacked(tmp_path, ending):
    frame = pd.DataFrame({"a": [1.5, 2.25], "ü": ["ä", "b"]})
    path = tmp_path / f"table.csv.{ending}"
    frame.to_csv(path, index=False, sep=";", decimal=",", encoding="cp1252")
    table = read_table(path)
    pd.testing.assert_frame_equal(table.frame, frame, check_dtype=False)
    assert len(table.messages) == 2  # about the encoding and the decimal comma


def test_an_archive_of_several_files_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.csv", "a\n1\n")
        archive.writestr("b.csv", "a\n1\n")
    with pytest.raises(ValueError, match=r"two.zip cannot be .* holds 2 files: unpack"):
        read_table(tmp_path / "two.zip")
    (tmp_path / "broken.bz2").write_bytes(b"BZh9 no")
    with pytest.raises(ValueError, match=r"broken.bz2 cannot be read"):
        read_table(tmp_path / "broken.bz2")


@pytest.mark.parametrize(
    ("change", "arguments", "words"),
    [
        (
            {},
            {"target": "prise"},
            r'no column "prise": did you mean "price"\? The columns are size, town',
        ),
        ({}, {"target": "town"}, "must be numbers, not text such as"),
        ({}, {"target": "built"}, "must be numbers, not dates such as"),
        ({}, {"drop": ["nothing"]}, 'no column "nothing"'),
        ({}, {"drop": ["size", "town", "garden", "built"]}, "No column is left"),
        ({}, {"weights": "town"}, "must be numbers, not text such as"),
        ({"w": -1.0}, {"weights": "w"}, "must be non-negative"),
        ({"w": 0.0}, {"weights": "w"}, "all zero"),
        ({"price": 1.0}, {}, "the same in every row"),
        ({"price": [1.0] + [np.nan] * 39}, {}, "has 1 value: nothing can be learned"),
        ({"size": 3.0}, {"drop": ["town", "garden", "built"]}, 'Column "size": left out, the same'),
        ({"list": [[1, 2]] * 40}, {}, "drop it"),
        (
            {"size": [*map(str, range(39)), "unknown"]},
            {},
            "mixes numbers such as '0' with 'unknown': .* missing value by --na 'unknown'",
        ),
        (
            {"size": ["USD 1.50", *(f"EUR {i}.50" for i in range(39))]},
            {},
            "mixes numbers such as 'EUR 0.50' with 'USD 1.50': write all numbers in one unit",
        ),
        (
            {"size": ["0.05", *(f"{i} %" for i in range(39))]},
            {},
            "mixes numbers such as '0 %' with '0.05': write all numbers in one unit",
        ),
        ({"when": pd.Timedelta(days=1)}, {}, "drop it"),
    ],
)
def test_mistakes_are_told_with_what_to_change(frame, change, arguments, words):
    arguments = {"target": "price", **arguments}
    with pytest.raises(ValueError, match=words):
        prepare(frame.assign(**change), **arguments)


def test_rows_to_predict_must_have_the_columns_and_kinds(frame):
    recipe = prepare(frame, "price").recipe
    with pytest.raises(ValueError, match='no column "size": did you mean "Size"'):
        recipe.transform(frame.rename(columns={"size": "Size"}))
    with pytest.raises(ValueError, match=r'"size" must be numbers, .*not text.*--na'):
        recipe.transform(frame.assign(size="large"))


def test_policies_are_checked():
    with pytest.raises(ValueError, match="missing must be"):
        Policy("ignore")
    with pytest.raises(ValueError, match="categories must be"):
        Policy(categories=0)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.parquet"])
def test_what_is_written_reads_back(tmp_path, frame, name):
    tables.write_table(frame[["size", "price"]], tmp_path / name)
    pd.testing.assert_frame_equal(read_table(tmp_path / name).frame, frame[["size", "price"]])


@pytest.mark.parametrize("method", ["nesterov", "nu-method", "nesterov-flow"])
@pytest.mark.parametrize(("n", "p", "spread"), [(30, 2, 1e-8), (30, 2, 1.0), (40, 2000, 1.0)])
def test_an_assessment_of_small_and_wide_data_is_fast(rng, method, n, p, spread):
    """It searches no more iterations than a fit: such tables once took minutes."""
    import time

    import stoptime as st
    from stoptime.tables.assessment import assess

    X = rng.standard_normal((n, p))
    X[:, 1] = X[:, 0] + spread * X[:, 1]
    y = X[:, 0] + 1e-6 * rng.standard_normal(n)
    model = st.StoppedRegressorCV(method, stops=30).fit(X, y)
    began = time.process_time()
    found = assess(model, st.decompose(X, y))
    assert time.process_time() - began < 5
    assert found.inflation is None or found.inflation >= 1
    if p < n and found.inflation is not None:  # the full search finds the same
        assert found.guarantee is None or found.inflation <= found.guarantee


def test_the_inflation_of_wide_data_counts_null_directions(rng):
    import stoptime as st
    from stoptime.tables.assessment import assess
    from stoptime.theory.oracle import estimate_oracle

    X = rng.standard_normal((12, 20))
    y = X @ rng.standard_normal(20) + rng.standard_normal(12)
    spectrum = st.decompose(X, y)
    oracle = estimate_oracle(spectrum)
    found = assess(st.StoppedRegressorCV("nesterov-flow").fit(X, y), spectrum).inflation
    expected = st.inflation(
        "nesterov-flow",
        eigenvalues=spectrum.padded_eigenvalues,
        signal=float(oracle.signal),
        noise=float(oracle.noise),
        n_samples=spectrum.n_observations,
    ).ratio
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("method", ["nesterov", "heavy-ball", "nu-method", "gradient-descent"])
def test_a_table_without_noise_is_fitted_and_assessed_by_every_iteration(tmp_path, method):
    a = np.arange(1, 31)
    path = tmp_path / "x.csv"
    pd.DataFrame({"a": a, "b": a**2, "y": 3 * a}).to_csv(path, index=False)
    start = time.process_time()
    fitted = fitting.fit_table(fitting.Request(str(path), "y", methods=(get_method(method),)))
    assert time.process_time() - start < 20  # about a second; a search without end took minutes
    assert fitted.model.score(fitted.prepared.X, fitted.prepared.y) == pytest.approx(1)
    assert fitted.assessment.penalty > 0
