"""Reading tables: every format by its content, every error with what to change."""

import bz2
import gzip
import io
import lzma
import os
import re
import threading
import zipfile

import pandas as pd
import pytest

from stoptime.tables import read_table, write_table

ROWS = b"a,b\n1,2\n"


def archive(*names):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as files:
        for name in names:
            files.writestr(name, ROWS)
    return packed.getvalue()


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.parquet", "table", "a.csv.gz"])
@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "feather", "xlsx"])
def test_the_content_tells_the_format_whatever_the_name(tmp_path, kind, name):
    frame = pd.DataFrame({"size": [1.5, 2.0], "town": ["Oslo", "Rome"]})
    out = io.BytesIO()
    if kind == "parquet":
        frame.to_parquet(out)
    elif kind == "feather":
        frame.to_feather(out)
    elif kind == "xlsx":
        pytest.importorskip("openpyxl")
        frame.to_excel(out, index=False)
    else:
        frame.to_csv(out, index=False, sep="\t" if kind == "tsv" else ",")
    found = read_table(written(tmp_path / name, out.getvalue())).frame
    assert found.astype({"size": float}).to_dict("list") == frame.to_dict("list")


def test_a_workbook_tells_what_was_left_out(tmp_path):
    pytest.importorskip("openpyxl")
    frame = pd.DataFrame({"size": [1.5, 2.0]})
    with pd.ExcelWriter(tmp_path / "a.xlsx") as book:
        frame.to_excel(book, sheet_name="houses")  # with the index, which has no name
        frame.to_excel(book, sheet_name="notes")
    table = read_table(tmp_path / "a.xlsx")
    assert table.frame.equals(frame)
    assert re.search('the first one, "houses", .*Column 1 has no name', " ".join(table.messages))


@pytest.mark.parametrize(
    ("content", "values", "message"),
    [
        ("a,b\n1,2\n3,4\n", [["1", "2"], ["3", "4"]], None),
        ("a|b\n01|2\n3|4\n", [["01", "2"], ["3", "4"]], None),
        ("a   b\n01  2\n 3 4.50\n", [["01", 2.0], ["3", 4.5]], None),
        ("a b\nNew York\nRome\n", [["New York"], ["Rome"]], None),
        ("a  b\n1  2\n3\n", [["1  2"], ["3"]], None),  # a gap shifts no values
        ('"a" "b"\n"row 1" 1 "x y"\n"2" 3 "z"\n', [["1", "x y"], ["3", "z"]], "no name"),  # of R
        ('{"a": 1, "b": "x"}\n', [[1, "x"]], None),
        ('{"a": 1, "b": "x\u2028y"}\n{"a": 3, "b": "z"}', [[1, "x\u2028y"], [3, "z"]], None),
        (b'\xef\xbb\xbf[{"a": 1, "b": 2}]', [[1, 2]], None),
        ('[{"a": 1, "b": 2}]'.encode("utf-16"), [[1, 2]], None),
        ('[{"a": 1, "b": "02"}, {"b": "x y"}]', [[1, "02"], [None, "x y"]], None),
        ('{"a": [1, 3],\n "b": [2, 4]}', [[1, 2], [3, 4]], None),
        ("a\n0.5\n" + "1.5\n" * 1000 + "x\n", None, None),  # a word far below
        ("sep=;\r\na;b\r\n1,5;2\r\n2,5;3\r\n", [["1,5", "2"], ["2,5", "3"]], None),
        ("SEP=\t\na\tb\n1\t2\n", [["1", "2"]], None),
        (b"\xef\xbb\xbfa,b\n1,2\n3,4\n", [["1", "2"], ["3", "4"]], None),
        (",a,b\n0,1,2\n1,3,4\n", [["1", "2"], ["3", "4"]], "no name"),
        (b"a,b\nM\xfcnchen,2\n3,4\n", [["München", "2"], ["3", "4"]], "not UTF-8"),
        ('\n\na,b\n"1\n2", "x ""y"" z"\n\nNA,-\n', [["1\n2", 'x "y" z'], [None, "-"]], None),
        ('a,b\n1.5e3,"x\n, y"\nn/a,5\n 2.5,7\n', [[1500, "x\n, y"], [None, "5"], [2.5, "7"]], None),
        ("a,b\n1.5\n2.5,7\n", [[1.5, None], [2.5, "7"]], None),
        ("  \r\n\na,b\n1,2\n", [["1", "2"]], None),
        ("BZh,b\n1,2\n", [["1", "2"]], None),  # as a compressed file begins
    ],
)
def test_text_is_understood_as_it_comes_and_kept_as_it_is(tmp_path, content, values, message):
    table = read_table(written(tmp_path / "data.txt", content))
    frame = table.frame.astype(object).where(table.frame.notna(), None)
    assert values is None or frame.to_numpy().tolist() == values
    assert (message is None) == (not table.messages)
    assert message is None or message in table.messages[0]


def test_one_column_may_have_blanks_and_names_line_breaks(tmp_path):
    for one in ("my value\n1\n2\n", "my value\nx y\nz\n", "a b c\n1 1 2.5 x\n2 3 4.5 y\n"):
        frame = read_table(written(tmp_path / "b.txt", one)).frame
        assert list(frame.columns) == [one.partition("\n")[0]]
    broken = read_table(written(tmp_path / "d.csv", '"a\nb",c\n1,2\n'))
    assert list(broken.frame.columns) == ["a\nb", "c"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        ("a,b\n", "no rows"),
        ("a,b\n1,2\n1,2,3\n", "Expected 2 fields in line 3, saw 3"),
        ("a,b\n1,2,3\n4,5,6\n", "more fields than the header"),
        ('a,b\n"open,2\n3,4\n', "EOF inside string"),
        (b"\0\1\2\3", "neither text, Parquet"),
        (b"PAR1 is how it begins, and no more", "cannot be read"),
        (gzip.compress(ROWS, mtime=0)[:-12], "Compressed file ended before"),
        (b"PK\x03\x04 cut off", r"it is damaged \(File is not a zip file\). Save the table as CSV"),
        (gzip.compress(b"", mtime=0)[:10] + b"\xff" * 50, "it is damaged"),
        ('{"a": 1, "y": [2, 3], "z": [4]}', "is JSON, but no list of rows and no dict of columns"),
        ('[{"a": 1, "y": 2}', "is JSON, but no list of rows and no dict of columns"),
        (archive(), "the archive holds 0 files"),
        (archive("a.csv", "b.csv"), "the archive holds 2 files: unpack"),
    ],
)
def test_what_is_no_table_is_refused_in_one_line(tmp_path, content, words):
    with pytest.raises(ValueError, match=words) as error:
        read_table(written(tmp_path / "bad", content))
    assert "\n" not in str(error.value)


def test_a_missing_file_names_its_neighbour_by_more_than_its_ending(tmp_path):
    written(tmp_path / "houses.csv", ROWS)
    with pytest.raises(FileNotFoundError, match=r'did you mean "houses\.csv"\?$'):
        read_table(tmp_path / "hauses.csv")
    with pytest.raises(FileNotFoundError, match=r"title\.csv does not exist\.$"):
        read_table(tmp_path / "title.csv")
    with pytest.raises(FileNotFoundError, match="folder"):
        read_table(tmp_path)


def test_a_file_named_like_the_built_in_data_wins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read_table("diabetes").frame.shape == (442, 11)
    written(tmp_path / "diabetes", ROWS)
    assert read_table("diabetes").frame.shape == (1, 2)


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(ROWS),
        bz2.compress(ROWS),
        lzma.compress(ROWS),
        archive("folder/table.csv", "__MACOSX/folder/._table.csv", "folder/.DS_Store"),
    ],
    ids=["gz", "bz2", "xz", "zip"],
)
def test_the_content_tells_how_a_file_is_compressed(tmp_path, content):
    frame = read_table(written(tmp_path / "table.csv", content)).frame
    assert frame.to_dict("list") == {"a": ["1"], "b": ["2"]}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a pipe with a name")
def test_a_pipe_is_read_as_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[ROWS])
    writer.start()
    assert read_table(tmp_path / "pipe").frame.to_dict("list") == {"a": ["1"], "b": ["2"]}
    writer.join()


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.parquet", "a.csv.gz"])
def test_what_is_written_reads_back_to_the_last_digit(tmp_path, rng, name):
    frame = pd.DataFrame({"a": rng.normal(size=50), "b": rng.normal(size=50)})
    write_table(frame, tmp_path / name)
    assert read_table(tmp_path / name).frame.astype(float).equals(frame)
