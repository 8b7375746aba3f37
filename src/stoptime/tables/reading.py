"""Read a table from a file or standard input, whatever its format, compression or encoding.

Text stays text, except for plain decimals: :mod:`stoptime.tables.values` decides what it means.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import sys
import warnings
import zipfile
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoptime.support.wording import did_you_mean
from stoptime.tables.values import has_decimals, pandas


@dataclass(frozen=True, eq=False)
class Table:
    """A pandas.DataFrame, its source, and messages from reading it."""

    frame: Any
    source: str
    messages: tuple[str, ...] = ()


def read_table(source: str | Path) -> Table:
    """Read a table.

    ``source`` is a file, "-" for standard input, or "diabetes" for the data set that comes with
    scikit-learn. The content tells the format: CSV with any delimiter, or with blanks where each
    line has as many fields, JSON (a list of rows, a dict of columns, or one row on each line),
    Parquet, Feather or Excel, also compressed (gz, bz2, xz, or zip with one file). Text keeps its
    notation, except for columns of plain decimals, which are read as numbers.
    """
    path = Path(source)
    if str(source) == "diabetes" and not path.exists():
        from sklearn.datasets import load_diabetes  # noqa: PLC0415 - used here only

        data = load_diabetes(scaled=False)
        frame = pandas().DataFrame(data.data, columns=data.feature_names)
        return Table(frame.assign(target=data.target), "diabetes")
    piped = str(source) == "-"
    name = "standard input" if piped else str(path)
    content = sys.stdin.buffer.read() if piped else _bytes(path)
    pd = pandas()
    damaged = (ValueError, OSError, EOFError, lzma.LZMAError, zipfile.BadZipFile, zlib.error)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame, messages = _frame(_unpacked(content), path)
    except (pd.errors.ParserWarning, *damaged) as error:
        raise ValueError(f"{name} cannot be read as a table: {_reason(error)}") from error
    if len(frame) == 0:
        raise ValueError(f"{name} has a header but no rows: add rows below it.")
    return Table(frame, name, tuple(messages))


def write_table(frame: Any, target: Path) -> None:
    """Write a table as CSV, TSV or Parquet, by the ending of its name; CSV for other endings."""
    endings = {one.lower() for one in target.suffixes}
    if endings & {".parquet", ".pq"}:
        frame.to_parquet(target, index=False)
    else:
        sign = "\t" if endings & {".tsv", ".tab"} else ","
        frame.to_csv(target, index=False, sep=sign, lineterminator="\n")


def _bytes(path: Path) -> bytes:
    if path.is_dir():
        raise FileNotFoundError(f"{path} is a folder, not a file.")
    if not path.exists():
        # endings are alike in every folder, so that only the names before them are compared
        near = {one.stem: one.name for one in path.parent.glob("*") if one.is_file()}
        hint = did_you_mean(path.stem, near)
        hint = hint and f': did you mean "{near[hint.split(chr(34))[1]]}"?'
        raise FileNotFoundError(f"{path} does not exist{hint or '.'}")
    return path.read_bytes()


def _unpacked(content: bytes) -> bytes:
    """Return the content without its compression, which its first bytes tell."""
    if content.startswith(b"\x1f\x8b"):
        return gzip.decompress(content)
    if content.startswith(b"\xfd7zXZ"):
        return lzma.decompress(content)
    if re.match(rb"BZh\d", content):  # a column may be named BZh
        return bz2.decompress(content)
    if not content.startswith(b"PK"):
        return content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if "[Content_Types].xml" in archive.namelist():  # a workbook
            return content
        # macOS adds a folder of its own, and hidden files
        names = [one for one in archive.namelist() if not re.search(r"(^|/)(\.|__MACOSX)|/$", one)]
        if len(names) != 1:
            raise ValueError(
                f"the archive holds {len(names)} files: unpack the one with the table."
            )
        return archive.read(names[0])


def _frame(content: bytes, path: Path) -> tuple[Any, list[str]]:
    """Return the data frame of unpacked content, and messages."""
    pd = pandas()
    file = io.BytesIO(content)
    if content.startswith((b"PAR1", b"ARROW1")):
        frame = (pd.read_parquet if content.startswith(b"PAR1") else pd.read_feather)(file)
        # an index of pandas numbers the rows and is no feature
        return frame.rename(columns=str).reset_index(drop=True), []
    if content.startswith((b"PK", b"\xd0\xcf\x11\xe0")):
        with pd.ExcelFile(file) as book:
            frame = pd.read_excel(book)
            first, *others = book.sheet_names
        # pandas has a name for columns without one
        names = [re.sub(r"^Unnamed: \d+$", "", str(one)) for one in frame.columns]
        told = [f'{path.name} has more than one sheet; the first one, "{first}", was read.']
        return _named(frame, names, told if others else [])
    if not content.strip():
        raise ValueError("it is empty. A table has a line of names, then its rows.")
    text, messages = _decoded(content, path)
    if re.match(r"\s*(\{|\[\s*[\[{])", text):
        return _json_frame(text), messages
    return _text_frame(text, messages)


def _json_frame(text: str) -> Any:
    """Return the frame of a list of rows, a dict of columns, or one row on each line."""
    try:
        try:
            found = json.loads(text)
        except json.JSONDecodeError:
            # text may have other signs for the end of a line
            found = [json.loads(line) for line in text.split("\n") if line.strip()]
        kinds = set(map(type, found.values())) if isinstance(found, dict) else set()
        if kinds and not kinds & {list, dict}:
            found = [found]  # one row
        return pandas().DataFrame(found).rename(columns=str)
    except ValueError as error:
        raise ValueError(
            f"it is JSON, but no list of rows and no dict of columns ({error})."
        ) from error


def _decoded(content: bytes, path: Path) -> tuple[str, list[str]]:
    """Return the text of a file, and messages on its encoding."""
    messages = []
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    if encoding != "utf-16" and b"\0" in content[: 2**16]:
        raise ValueError("it is neither text, Parquet, Feather nor Excel. Save the table as CSV.")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        # frequencies of letters would tell more, but short files of numbers do not have them
        text = content.decode("cp1252", errors="replace")
        messages.append(f"{path.name} is not UTF-8; it was read as Windows-1252 (Latin-1).")
    return text, messages


def _text_frame(text: str, messages: list[str]) -> tuple[Any, list[str]]:
    text, delimiter = _separated(re.sub(r"\A(?: *[\r\n])+", "", text))
    file = io.StringIO(text)
    pd = pandas()

    def read(**options: Any) -> Any:
        file.seek(0)
        options |= {"sep": delimiter, "skipinitialspace": True}
        # before pandas 3.1 a number may be off in its last digit by default
        if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
            options["float_precision"] = "round_trip"
        return pd.read_csv(file, **options)

    # the header is read as data, because pandas would rename empty and repeated names
    header = read(header=None, nrows=1, keep_default_na=False, dtype=str)
    names = [str(one).strip() for one in header.iloc[0]]
    head = read(index_col=False, nrows=1000, dtype=str)
    plain = [one for one in head.columns if has_decimals(head[one])]
    kinds: dict[str, type] = {one: float if one in plain else str for one in head.columns}
    try:
        frame = read(index_col=False, dtype=kinds)
    except ValueError:  # a word among the numbers
        frame = read(index_col=False, dtype=str)
    return _named(frame, names, messages)


def _named(frame: Any, names: list[str], messages: list[str]) -> tuple[Any, list[str]]:
    """Return the columns that have a name, and messages on the others too."""
    frame.columns = names
    unnamed = ", ".join(str(i + 1) for i, name in enumerate(names) if not name)
    if unnamed:
        messages = [*messages, f"Column {unnamed} has no name and was left out."]
    return frame.iloc[:, [i for i, name in enumerate(names) if name]], messages


def _separated(text: str) -> tuple[str, str]:
    """Return a text and what separates its fields."""
    for_excel = re.match(r"sep=(.)[\r\n]+", text, re.IGNORECASE)
    if for_excel:
        return text[for_excel.end() :], for_excel[1]
    sample = "\n".join(text[: 2**16].splitlines()[:50])
    # the first quoted names may hold line breaks
    quoted = re.match(r'(?:[^"\n]|"[^"]*")+', sample)
    header = quoted[0] if quoted else sample.partition("\n")[0]
    # a table with one column has no delimiter, which the sniffer calls an error
    with suppress(csv.Error):
        found = csv.Sniffer().sniff(sample, ",;\t|").delimiter
        if found in header:
            return text, found
    # blanks separate fields only where every line has as many of them
    lines = [line.replace("\t", " ").strip() for line in text.splitlines()]
    fields = csv.reader(lines, delimiter=" ", skipinitialspace=True)
    first, *others = [len(one) for one in fields if one]
    if text.startswith('"') and {*others} == {first + 1}:
        return f'"" {text}', r"\s+"  # R quotes names, and has none for the names of the rows
    if first > 1 and {*others} <= {first}:
        return text, r"\s+"
    return text, "," if "," in header else "\t"


def _reason(error: Exception) -> str:
    """Return one line on an error of pandas, pyarrow or a compressed file."""
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    if isinstance(error, zipfile.BadZipFile | zlib.error):
        return f"it is damaged ({reason}). Save the table as CSV."
    if isinstance(error, pandas().errors.ParserWarning):
        return (
            "rows have more fields than the header has names. The first line must be the header, "
            "and fields that contain the separator must be quoted."
        )
    return reason.removeprefix("Error tokenizing data. C error: ")
