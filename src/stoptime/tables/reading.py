"""Read tables from CSV, TSV and Parquet files, compressed or not, and from standard input."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import re
import sys
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from stoptime.support.checks import installed
from stoptime.support.wording import did_you_mean

BUILT_IN = "diabetes"
STANDARD = "-"  # standard input or output in place of a file
SNIFFED_BYTES = 2**16  # read to find the format and the delimiter
SNIFFED_LINES = 50  # csv.Sniffer is slow on long samples with quotes
SNIFFED_ROWS = 1000  # read to find a decimal comma
DELIMITERS = ",;\t|"
PARQUET_MAGIC = b"PAR1"
ENDINGS = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet"}
COMPRESSED: dict[str, tuple[re.Pattern[bytes], Any]] = {  # ending, first bytes, way to unpack
    ".gz": (re.compile(rb"\x1f\x8b"), gzip.open),
    ".bz2": (re.compile(rb"BZh[1-9]"), bz2.open),
    ".xz": (re.compile(rb"\xfd7zXZ"), lzma.open),
}
ZIP_MAGIC = b"PK\x03\x04", b"PK\x05\x06"  # the second one is an empty archive
JSON_BEGINS = b"{", b"[{", b"[["
DAMAGED = (ValueError, OSError, EOFError, lzma.LZMAError, zipfile.BadZipFile, zlib.error)
DECIMAL_COMMA = re.compile(r"[-+]?\d+(,\d+)?")
THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}\.\d{3}")


@dataclass(frozen=True, eq=False)
class Table:
    """A pandas.DataFrame with different column names, its source, and messages from reading it."""

    frame: Any
    source: str
    messages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """A file, or standard input, whose content is read without its compression."""

    name: str  #: As the user gave it.
    path: Path
    content: bytes | None = None  #: Of standard input, which can be read only once.

    @classmethod
    def of(cls, source: str | Path) -> Source:
        """Return the source for a path, or for "-"; a file that does not exist is an error."""
        path = Path(source)
        if str(source) == STANDARD:
            return cls("standard input", Path(), sys.stdin.buffer.read())
        if path.is_dir():
            raise FileNotFoundError(f"{path} is a folder, not a file.")
        if path.is_fifo():
            # The shell gives <(command) as a pipe, which can be read only once.
            return cls(str(path), path, path.read_bytes())
        if not path.is_file():
            hint = did_you_mean(path.name, [p.name for p in path.parent.glob("*") if p.is_file()])
            raise FileNotFoundError(f"{path} does not exist{hint or '.'}")
        return cls(str(path), path)

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the content for reading; its first bytes tell how it is compressed."""
        with self.path.open("rb") if self.content is None else io.BytesIO(self.content) as raw:
            head = raw.read(8)
            raw.seek(0)
            if head.startswith(ZIP_MAGIC):
                with zipfile.ZipFile(raw) as archive, archive.open(_member(archive)) as file:
                    yield file
                return
            ways = (way for magic, way in COMPRESSED.values() if magic.match(head))
            with next(ways, nullcontext)(raw) as file:
                yield file

    def kind_and_head(self) -> tuple[str, bytes]:
        """Return the format of the content, and its first bytes."""
        with readable(self), self.open() as file:
            head = file.read(SNIFFED_BYTES)
        if not head:
            raise ValueError(f"{self.name} is empty: a table has a line of names, then its rows.")
        if head.lstrip().startswith(JSON_BEGINS):
            raise ValueError(f"{self.name} is JSON: save the table as CSV or Parquet.")
        return _ending(self.path) or ("parquet" if head.startswith(PARQUET_MAGIC) else "csv"), head

    def __str__(self) -> str:
        return self.name


def _ending(path: Path) -> str | None:
    """Return the format that a name ends in, before the ending of a compression."""
    known = (ENDINGS.get(one.lower()) for one in reversed(path.suffixes))
    return next(filter(None, known), None)


def _member(archive: zipfile.ZipFile) -> str:
    """Return the name of the only file in an archive."""
    if "[Content_Types].xml" in archive.namelist():
        raise ValueError("it is a workbook, such as of Excel: save its sheet as CSV.")
    # macOS adds a folder of its own, and hidden files.
    hidden = ("__MACOSX", ".")
    files = [one for one in archive.namelist() if not one.endswith("/")]
    names = [one for one in files if not any(part.startswith(hidden) for part in one.split("/"))]
    if len(names) != 1:
        raise ValueError(f"the archive holds {len(names)} files: unpack the one with the table.")
    return names[0]


@contextmanager
def errors_named(source: str) -> Iterator[None]:
    """Begin the message of an error with the name of the file, unless it names the file itself."""
    try:
        yield
    except ValueError as error:
        if str(error).startswith(source):
            raise
        raise ValueError(f"{source}: {error}") from error


def pandas() -> Any:
    """Return the module pandas, or raise an ImportError that says what to install."""
    return needed("pandas")


def needed(name: str) -> Any:
    """Return a module that only tables need, or raise an ImportError that says what to install."""
    package = name.partition(".")[0]
    return installed(name, f'Tables need {package}: pip install "stoptime[cli]".')


def read_table(source: str | Path, *, missing: Sequence[str] = ()) -> Table:
    """Read a table.

    ``source`` is a file, "-" for standard input, or "diabetes" for the data set that comes with
    scikit-learn. The ending of the name gives the format: csv, tsv or parquet; other names are
    read by their content, which may be compressed (gz, bz2, xz, or zip with one file).
    Delimiter, encoding and decimal comma are detected. ``missing`` lists words for a missing value,
    besides an empty field, NA, N/A, NaN, null and None.
    """
    if str(source) == BUILT_IN and not Path(source).exists():
        from sklearn.datasets import load_diabetes  # noqa: PLC0415 - used here only

        data = load_diabetes(scaled=False)
        frame = pandas().DataFrame(data.data, columns=data.feature_names)
        return Table(frame.assign(target=data.target), BUILT_IN)
    return first_rows(Source.of(source), missing, None)


def first_rows(source: Source, missing: Sequence[str], rows: int | None) -> Table:
    """Read the first rows of a file, or all of them if ``rows`` is None."""
    text = text_format(source, missing)
    frame = next(frames(source, text, rows), None)
    if frame is None or len(frame) == 0:
        raise ValueError(f"{source} has a header but no rows: add rows below it.")
    twice = [name for name, count in Counter(frame.columns).items() if count > 1]
    if twice:
        raise ValueError(f'{source} has two columns named "{twice[0]}": rename one of them.')
    return Table(frame, source.name, () if text is None else tuple(text.messages))


def frames(source: Source, text: TextFormat | None, rows: int | None) -> Iterator[Any]:
    """Yield a file in data frames of at most so many rows, or in one if ``rows`` is None."""
    with readable(source, "Parquet" if text is None else "a table"), source.open() as file:
        if text is None:
            table = needed("pyarrow.parquet").ParquetFile(file)
            for part in [table.read()] if rows is None else table.iter_batches(rows):
                # An index of pandas comes back as such: it numbers the rows and is no feature.
                yield part.to_pandas().rename(columns=str).reset_index(drop=True)
        elif rows is None:
            yield text.named(pandas().read_csv(file, **text.options))
        else:
            with pandas().read_csv(file, chunksize=rows, **text.options) as chunks:
                yield from map(text.named, chunks)


def write_table(frame: Any, target: Path, kind: str | None = None) -> None:
    """Write a table as CSV, TSV or Parquet, by the ending of its name; CSV for other endings."""
    kind = kind or _ending(target)
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


def text_format(source: Source, missing: Sequence[str]) -> TextFormat | None:
    """Detect how to read a text file; None for a Parquet file."""
    kind, head = source.kind_and_head()
    if kind == "parquet":
        return None
    encoding = _encoding(source, head)
    messages = []
    if encoding == "cp1252":
        messages.append(
            f"{Path(source.name).name} is not UTF-8; it was read as Windows-1252 (Latin-1)."
        )
    delimiter = "\t" if kind == "tsv" else ","
    # A table with one column has no delimiter, which the sniffer calls an error.
    with suppress(csv.Error):
        if kind == "csv":
            lines = head.decode(encoding, errors="ignore").splitlines()[:SNIFFED_LINES]
            delimiter = csv.Sniffer().sniff("\n".join(lines), DELIMITERS).delimiter
    options: dict[str, Any] = {"sep": delimiter, "encoding": encoding}
    options |= {"na_values": list(missing), "skipinitialspace": True}
    # The header is read as data, because pandas would rename empty and repeated names.
    header = _read(source, **options, header=None, nrows=1, dtype=str, keep_default_na=False)
    options |= {"low_memory": False, "index_col": False}
    sample = _read(source, nrows=SNIFFED_ROWS, dtype=str, **options)
    if options["sep"] == ";" and any(_decimal_commas(text.dropna()) for _, text in sample.items()):
        options["decimal"] = ","
        messages.append("Numbers were read with a decimal comma.")
    # Such a column stays text for now: pandas would take the points for decimal ones.
    options["dtype"] = {name: str for name, text in sample.items() if _thousands(text.dropna())}
    names = [str(name).strip() for name in header.iloc[0]]
    unnamed = ", ".join(str(i + 1) for i, name in enumerate(names) if not name)
    if unnamed:
        messages.append(f"Column {unnamed} has no name and was left out.")
    return TextFormat(options, names, messages)


def _read(source: Source, **options: Any) -> Any:
    with readable(source), source.open() as file:
        return pandas().read_csv(file, **options)


@contextmanager
def readable(source: Source, kind: str = "a table") -> Iterator[None]:
    """Turn the errors of pandas, pyarrow and compressed files into one line about the file."""
    pd = pandas()
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            yield
        except (pd.errors.ParserWarning, *DAMAGED) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            reason = reason.removeprefix("Error tokenizing data. C error: ")
            if isinstance(error, zipfile.BadZipFile | zlib.error):  # perhaps a workbook
                reason = f"it is damaged ({reason}): save the table as CSV."
            if isinstance(error, pd.errors.ParserWarning):
                reason = (
                    "rows have more fields than the header has names. The first line must be the "
                    "header, and fields that contain the separator must be quoted."
                )
            raise ValueError(f"{source} cannot be read as {kind}: {reason}") from error


def _encoding(source: Source, head: bytes) -> str:
    """Return UTF-8 if the whole file is valid UTF-8, and Windows-1252 otherwise."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\0" in head:
        raise ValueError(f"{source} is neither text nor Parquet: save the table as CSV.")
    # charset-normalizer would guess from frequencies, which short files of numbers do not have.
    with readable(source), source.open() as file:
        try:
            with io.TextIOWrapper(file, encoding="utf-8-sig") as text:
                while text.read(2**20):
                    continue
        except UnicodeDecodeError:
            return "cp1252"
    return "utf-8-sig"


def _decimal_commas(texts: Any) -> bool:
    """Tell whether all values of a column are numbers, some of them with a decimal comma."""
    found = texts.str.contains(",", regex=False).any() and texts.str.fullmatch(DECIMAL_COMMA).all()
    return bool(found)


def _thousands(texts: Any) -> bool:
    """Tell whether points separate thousands, as in 980 and 1.250."""
    pointed = texts.str.contains(".", regex=False)
    if not pointed.any() or pointed.all() or not texts[pointed].str.fullmatch(THOUSANDS).all():
        return False
    # Decimals with a last zero have a fixed number of digits, so that no number is without them.
    padded = texts[pointed].str.endswith("0").any()
    hundreds = texts[~pointed].str.fullmatch(r"[-+]?\d{1,3}").all()
    return bool(padded and hundreds and texts[~pointed].str.len().max() >= 3)
