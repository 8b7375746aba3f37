"""Read tables from CSV, TSV and Parquet files."""

from __future__ import annotations

import csv
import re
import warnings
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoptime.support.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BUILT_IN = "diabetes"
SNIFFED_BYTES = 2**16  # read to find the format and the delimiter
SNIFFED_LINES = 50  # csv.Sniffer is slow on long samples with quotes
SNIFFED_ROWS = 1000  # read to find a decimal comma
DELIMITERS = ",;\t|"
PARQUET_MAGIC = b"PAR1"
ENDINGS = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet"}
DECIMAL_COMMA = re.compile(r"[-+]?\d+(,\d+)?")


@dataclass(frozen=True, eq=False)
class Table:
    """A pandas.DataFrame with different column names, its source, and messages from reading it."""

    frame: Any
    source: str
    messages: tuple[str, ...] = ()


def pandas() -> Any:
    """Return the module pandas, or raise an ImportError that says what to install."""
    return needed("pandas")


def needed(name: str) -> Any:
    """Return a module that only tables need, or raise an ImportError that says what to install."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ImportError(f'Tables need {error.name}: pip install "stoptime[cli]".') from error


def read_table(source: str | Path, *, missing: Sequence[str] = ()) -> Table:
    """Read a table.

    ``source`` is a file, or "diabetes" for the data set that comes with scikit-learn. The ending of
    the name gives the format: csv, tsv or parquet, and text may be compressed (.gz); other names
    are read by their content. Delimiter, encoding and decimal comma are detected. ``missing`` lists
    words for a missing value, besides an empty field, NA, N/A, NaN, null and None.
    """
    path = Path(source)
    if str(source) == BUILT_IN and not path.exists():
        from sklearn.datasets import load_diabetes  # noqa: PLC0415 - used here only

        data = load_diabetes(scaled=False)
        frame = pandas().DataFrame(data.data, columns=data.feature_names)
        return Table(frame.assign(target=data.target), BUILT_IN)
    return first_rows(path, missing, None)


def first_rows(path: Path, missing: Sequence[str], rows: int | None) -> Table:
    """Read the first rows of a file, or all of them if ``rows`` is None."""
    text = text_format(path, missing)
    frame = next(frames(path, text, rows), None)
    if frame is None or len(frame) == 0:
        raise ValueError(f"{path} has a header but no rows.")
    twice = [name for name, count in Counter(frame.columns).items() if count > 1]
    if twice:
        raise ValueError(f'{path} has two columns named "{twice[0]}": rename one of them.')
    return Table(frame, str(path), () if text is None else tuple(text.messages))


def frames(path: Path, text: TextFormat | None, rows: int | None) -> Iterator[Any]:
    """Yield a file in data frames of at most so many rows, or in one if ``rows`` is None."""
    if text is None:
        with readable(path, "Parquet"), needed("pyarrow.parquet").ParquetFile(path) as file:
            for part in [file.read()] if rows is None else file.iter_batches(rows):
                # An index of pandas comes back as such: it numbers the rows and is no feature.
                yield part.to_pandas().rename(columns=str).reset_index(drop=True)
        return
    with readable(path):
        if rows is None:
            yield text.named(pandas().read_csv(path, **text.options))
            return
        with pandas().read_csv(path, chunksize=rows, **text.options) as file:
            yield from map(text.named, file)


def write_table(frame: Any, target: Path, kind: str | None = None) -> None:
    """Write a table as CSV, TSV or Parquet, by the ending of its name; CSV for other endings."""
    kind = kind or ENDINGS.get(target.suffix.lower(), "csv")
    if kind == "parquet":
        frame.to_parquet(target, index=False)
    else:
        frame.to_csv(target, index=False, sep="\t" if kind == "tsv" else ",", lineterminator="\n")


@dataclass(frozen=True)
class TextFormat:
    """Options of :func:`pandas.read_csv` for a file, its column names, and messages about it."""

    options: dict[str, Any]
    names: list[str]
    messages: list[str]

    def named(self, frame: Any) -> Any:
        """Set the column names, and drop columns without one: these are mostly row numbers."""
        frame.columns = self.names
        return frame.iloc[:, [i for i, name in enumerate(self.names) if name]]


def text_format(path: Path, missing: Sequence[str]) -> TextFormat | None:
    """Detect how to read a text file; None for a Parquet file."""
    kind, head = _kind_and_head(path)
    if kind == "parquet":
        return None
    compressed = path.suffix.lower() == ".gz"
    encoding = "utf-8-sig" if compressed else _encoding(path, head)
    messages = []
    if encoding == "cp1252":
        messages.append(f"{path.name} is not UTF-8; it was read as Windows-1252 (Latin-1).")
    delimiter = "\t" if kind == "tsv" else ","
    # A table with one column has no delimiter, which the sniffer calls an error.
    with suppress(csv.Error):
        if kind == "csv" and not compressed:
            lines = head.decode(encoding, errors="ignore").splitlines()[:SNIFFED_LINES]
            delimiter = csv.Sniffer().sniff("\n".join(lines), DELIMITERS).delimiter
    options = {
        "sep": delimiter,
        "encoding": encoding,
        "na_values": list(missing),
        "skipinitialspace": True,
    }
    read_csv = pandas().read_csv
    with readable(path):
        # The header is read as data, because pandas would rename empty and repeated names.
        header = read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False, **options)
        options |= {"low_memory": False, "index_col": False}
        if options["sep"] == ";" and _decimal_commas(read_csv(path, nrows=SNIFFED_ROWS, **options)):
            options["decimal"] = ","
            messages.append("Numbers were read with a decimal comma.")
    names = [str(name).strip() for name in header.iloc[0]]
    unnamed = ", ".join(str(i + 1) for i, name in enumerate(names) if not name)
    if unnamed:
        messages.append(f"Column {unnamed} has no name and was left out.")
    return TextFormat(options, names, messages)


def _kind_and_head(path: Path) -> tuple[str, bytes]:
    """Return the format of a file, and its first bytes."""
    if path.is_dir():
        raise FileNotFoundError(f"{path} is a folder, not a file.")
    if not path.is_file():
        hint = did_you_mean(path.name, [p.name for p in path.parent.glob("*") if p.is_file()])
        raise FileNotFoundError(f"{path} does not exist{hint or '.'}")
    with path.open("rb") as file:
        head = file.read(SNIFFED_BYTES)
    if not head:
        raise ValueError(f"{path} is empty.")
    uncompressed = Path(path.stem) if path.suffix.lower() == ".gz" else path
    by_content = "parquet" if head.startswith(PARQUET_MAGIC) else "csv"
    return ENDINGS.get(uncompressed.suffix.lower(), by_content), head


@contextmanager
def readable(path: Path, kind: str = "a table") -> Iterator[None]:
    """Turn the errors of pandas, pyarrow and gzip into one line about the file."""
    pd = pandas()
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            yield
        except (pd.errors.ParserWarning, ValueError, OSError, EOFError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            if isinstance(error, pd.errors.ParserWarning):
                reason = "rows have more fields than the header has names"
            raise ValueError(f"{path} cannot be read as {kind}: {reason}") from error


def _encoding(path: Path, head: bytes) -> str:
    """Return UTF-8 if the whole file is valid UTF-8, and Windows-1252 otherwise."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\0" in head:
        raise ValueError(f"{path} is neither text nor Parquet.")
    # charset-normalizer would guess from frequencies, which short files of numbers do not have.
    try:
        with path.open(encoding="utf-8-sig") as file:
            while file.read(2**20):
                continue
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig"


def _decimal_commas(frame: Any) -> bool:
    """Tell whether all values of some text column are numbers with a decimal comma."""
    texts = (frame[name].dropna().astype(str) for name in frame.select_dtypes(exclude="number"))
    return any(len(text) and text.str.fullmatch(DECIMAL_COMMA).all() for text in texts)
