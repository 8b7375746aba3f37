"""Tables from files: CSV, TSV and Parquet, told apart by their ending or their content."""

from __future__ import annotations

import csv
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["BUILT_IN", "Table", "did_you_mean", "pandas", "read_table", "write_table"]

BUILT_IN = "diabetes"
SNIFFED = 2**16  # bytes looked at to tell format, encoding and delimiter
LOOKED_AT = 1000  # rows, to tell a decimal comma
DELIMITERS = ",;\t|"
PARQUET_MAGIC = b"PAR1"
ENDINGS = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet"}
DECIMAL_COMMA = re.compile(r"[-+]?\d+(,\d+)?")


@dataclass(frozen=True, eq=False)
class Table:
    """A table and what was noticed while reading it.

    Attributes
    ----------
    frame : pandas.DataFrame
        Its columns have different names.
    source : str
        The file, or the name of the built-in data.
    messages : tuple of str
        What a reader should know.
    """

    frame: Any
    source: str
    messages: tuple[str, ...] = ()


def pandas() -> Any:
    """Return pandas, or say what to install."""
    try:
        return import_module("pandas")
    except ModuleNotFoundError as error:
        raise ImportError('Tables need pandas: pip install "stoptime[cli]".') from error


def read_table(source: str | Path, *, missing: Sequence[str] = ()) -> Table:
    """Read a table.

    The format follows from the ending (csv, tsv, parquet, also compressed as .gz) and otherwise from the
    content. Delimiter, encoding and decimal comma of a text file are found by looking.

    Parameters
    ----------
    source : str or Path
        A file, or "diabetes" for the data that come with scikit-learn.
    missing : sequence of str
        What is to be read as missing, besides the empty field, NA, N/A, NaN, null and None.

    Returns
    -------
    Table

    Examples
    --------
    >>> read_table("diabetes").frame.shape
    (442, 11)
    """
    path = Path(source)
    if str(source) == BUILT_IN and not path.exists():
        return Table(_diabetes(), BUILT_IN)
    kind, head = sniffed(path)
    table = (
        _parquet(path) if kind == "parquet" else _text(path, text_format(path, head, kind, missing))
    )
    if table.frame.shape[0] == 0:
        raise ValueError(f"{path} has a header and no rows.")
    return table


def sniffed(path: Path) -> tuple[str, bytes]:
    """Return the format of a file, and its first bytes."""
    if not path.is_file():
        hint = did_you_mean(path.name, [p.name for p in path.parent.glob("*") if p.is_file()])
        reason = "is a folder, not a file." if path.is_dir() else f"does not exist{hint or '.'}"
        raise FileNotFoundError(f"{path} {reason}")
    with path.open("rb") as file:
        head = file.read(SNIFFED)
    if not head:
        raise ValueError(f"{path} is empty.")
    return ENDINGS.get(_ending(path)) or (
        "parquet" if head.startswith(PARQUET_MAGIC) else "csv"
    ), head


def write_table(frame: Any, target: Path, kind: str | None = None) -> None:
    """Write a table as CSV, TSV or Parquet, by the ending of its name; CSV where that says nothing."""
    kind = kind or ENDINGS.get(target.suffix.lower(), "csv")
    if kind == "parquet":
        frame.to_parquet(target, index=False)
    else:
        frame.to_csv(target, index=False, sep="\t" if kind == "tsv" else ",", lineterminator="\n")


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return a hint at the known names nearest to one that is wrong, or nothing.

    Examples
    --------
    >>> print("No such column" + did_you_mean("targte", ["age", "target"]))
    No such column: did you mean "target"?
    """
    folded = {str(one).casefold(): str(one) for one in known}
    close = get_close_matches(str(name).casefold(), folded, n=1)
    return f': did you mean "{folded[close[0]]}"?' if close else ""


def _ending(path: Path) -> str:
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def _diabetes() -> Any:
    from sklearn.datasets import load_diabetes  # noqa: PLC0415 - one source of many

    data = load_diabetes(scaled=False)
    return pandas().DataFrame(data.data, columns=data.feature_names).assign(target=data.target)


def _parquet(path: Path) -> Table:
    try:
        frame = pandas().read_parquet(path)
    except ImportError as error:
        raise ImportError('Parquet needs pyarrow: pip install "stoptime[cli]".') from error
    except (ValueError, OSError) as error:  # pyarrow's own errors are either
        raise ValueError(f"{path} cannot be read as Parquet: {_first_line(error)}") from error
    frame.columns = [str(name) for name in frame.columns]
    _check_names(path, list(frame.columns))
    return Table(frame.reset_index(drop=True), str(path))


@dataclass(frozen=True)
class TextFormat:
    """How a text file is read.

    Attributes
    ----------
    options : dict
        For :func:`pandas.read_csv`.
    names : list of str
        Of the columns; empty where a column has none.
    messages : list of str
        What was noticed.
    """

    options: dict[str, Any]
    names: list[str]
    messages: list[str]

    def named(self, frame: Any) -> Any:
        """Return rows with their names, and without columns that have none: mostly saved row numbers."""
        frame.columns = self.names
        return frame.iloc[:, [i for i, name in enumerate(self.names) if name]]


def text_format(path: Path, head: bytes, kind: str, missing: Sequence[str]) -> TextFormat:
    """Find delimiter, encoding, decimal comma and names of a text file by looking."""
    compressed = path.suffix.lower() == ".gz"
    encoding, messages = ("utf-8-sig", []) if compressed else _encoding(path, head)
    sample = "" if compressed else head.decode(encoding, errors="ignore")
    options: dict[str, Any] = {
        "sep": "\t" if kind == "tsv" else _delimiter(sample),
        "encoding": encoding,
        "na_values": list(missing),
        "skipinitialspace": True,
    }
    with readable(path):
        header = pandas().read_csv(
            path, header=None, nrows=1, dtype=str, keep_default_na=False, **options
        )
        options |= {"low_memory": False, "index_col": False}
        if options["sep"] == ";" and _decimal_commas(
            pandas().read_csv(path, nrows=LOOKED_AT, **options)
        ):
            options["decimal"] = ","
            messages = [*messages, "Numbers were read with a decimal comma."]
    names = [str(name).strip() for name in header.iloc[0]]
    _check_names(path, names)
    unnamed = ", ".join(str(i + 1) for i, name in enumerate(names) if not name)
    if unnamed:
        messages = [*messages, f"Column {unnamed} has no name and was left out."]
    return TextFormat(options, names, messages)


def _text(path: Path, found: TextFormat) -> Table:
    with readable(path):
        frame = pandas().read_csv(path, **found.options)
    return Table(found.named(frame), str(path), tuple(found.messages))


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what pandas and gzip raise into one line about the file."""
    pd = pandas()
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            yield
        except pd.errors.ParserWarning:
            raise ValueError(
                f"{path} cannot be read as a table: rows have more fields than the header has names"
            ) from None
        except (ValueError, OSError, EOFError) as error:
            raise ValueError(f"{path} cannot be read as a table: {_first_line(error)}") from error


def _encoding(path: Path, head: bytes) -> tuple[str, list[str]]:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16", []
    if b"\0" in head:
        raise ValueError(f"{path} is neither text nor Parquet.")
    try:
        with path.open(encoding="utf-8-sig") as file:
            while file.read(2**20):
                continue
    except UnicodeDecodeError:
        return "cp1252", [f"{path.name} is not UTF-8; it was read as Windows-1252 (Latin-1)."]
    return "utf-8-sig", []


def _delimiter(sample: str) -> str:
    """Return what cuts the first lines into the same number of fields, the more the better."""
    lines = sample.splitlines()[:50]
    lines = lines[:-1] if len(lines) > 1 else lines  # the last may be cut short

    def fields(delimiter: str) -> tuple[float, int]:
        counts = Counter(len(row) for row in csv.reader(lines, delimiter=delimiter) if row)
        width, agreeing = max(counts.items(), key=lambda item: (item[1], item[0]), default=(1, 0))
        return (agreeing / max(sum(counts.values()), 1) if width > 1 else 0.0, width)

    return max(DELIMITERS, key=fields)


def _decimal_commas(frame: Any) -> bool:
    """Tell whether some column of text is numbers with a decimal comma throughout."""
    for name in frame.columns:
        if frame[name].dtype == object or str(frame[name].dtype) in {"str", "string"}:
            values = frame[name].dropna().astype(str)
            if len(values) and values.str.fullmatch(DECIMAL_COMMA).all():
                return True
    return False


def _check_names(path: Path, names: list[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1 and name]
    if twice:
        raise ValueError(f'{path} has two columns named "{twice[0]}": rename one of them.')


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
