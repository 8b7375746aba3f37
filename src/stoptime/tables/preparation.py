"""A transformer that turns the columns of a table into features, and says what it did."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from stoptime.support.arrays import Array, Floats
from stoptime.support.checks import whole_number
from stoptime.support.user_warnings import warn_user
from stoptime.support.wording import did_you_mean
from stoptime.tables.values import Form, decimal_sign, pandas, read, words

MISSING_WORD = "(missing)"  # the category of missing text
UNKNOWN = "Values not seen in fitting, treated as none of the known categories"


class PreparationWarning(UserWarning):
    """Values of new rows were filled in or not recognised."""


@dataclass(frozen=True)
class Decision:
    """What becomes of one column of a table."""

    column: str
    kind: Literal["number", "date", "text", "dropped"]  #: Dates are counted in days since 1970.
    note: str = ""  #: What is unusual, with a value and the parameter that changes it.
    form: Form = field(default_factory=lambda: Form("text"))  #: How its values are written.
    levels: tuple[str, ...] = ()  #: Words that get a feature of zeros and ones each.
    median: float | None = None  #: Of its numbers, which takes the place of missing ones.

    @property
    def features(self) -> list[str]:
        """The names of its features."""
        if self.kind == "text":
            return [f"{self.column}={level}" for level in self.levels]
        return [] if self.kind == "dropped" else [self.column]


@dataclass(eq=False, repr=False, kw_only=True)
class TablePreparation(TransformerMixin, BaseEstimator):
    """Turn the columns of a data frame into numbers, as ``stoptime fit`` does.

    Numbers stay numbers, also those in text: with a currency, a percent sign or a unit, with
    thousands, decimal commas, K or M, and times such as 10:30 in hours. Dates become days since
    1970. Every frequent word of a text column gets a feature of zeros and ones. Columns without
    information are left out: constants, and text that hardly repeats, such as names and ids. Codes
    with leading zeros are text. New rows are read as the rows of the fit were.

    Parameters
    ----------
    missing : {"impute", "error"}, default="impute"
        "impute" replaces missing numbers by the median, and gives missing text a category of its
        own; "error" refuses them.
    categories : int, default=50
        Features for one text column: its most frequent words, and those as frequent as the last of
        these, up to four times as many. Where even more are tied, all of the tied ones are left
        out.
    standardise : bool, default=True
        Whether to scale every feature to mean zero and variance one.
    kinds : dict, optional
        "number", "date", "text", or a format of dates such as "%d/%m/%Y", for columns that would be
        read as something else.
    drop : sequence of str, default=()
        Columns that are not used.
    na : sequence, default=()
        Words and numbers that stand for a missing value, such as "unknown" and -999.

    Attributes
    ----------
    decisions_ : dict of Decision
        What became of every column, by its name.
    notes_ : list of str
        Everything unusual, each with a value and the parameter that changes it.
    center_, scale_ : arrays of shape (n_features_out,)
        Subtracted from the features, and dividing them; zeros and ones if not standardised.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"paid": ["1.250,00 €", "980,50 €", None], "town": ["a", "b", "b"]})
    >>> preparation = TablePreparation(standardise=False).fit(frame)
    >>> preparation.transform(frame[:2]).tolist()
    [[1250.0, 1.0, 0.0], [980.5, 0.0, 1.0]]
    >>> print(preparation.notes_[0].split(", ")[0])
    Column "paid": text such as '1.250,00 €'
    >>> preparation.decisions_["paid"].form
    Form(kind='number', decimal=',', unit='€', formats=())
    """

    # the display of a pipeline in a notebook links to its page
    _doc_link_module = "stoptime"
    _doc_link_template = (
        "https://stoptime.github.io/stoptime/api/showing.html#stoptime.{estimator_name}"
    )

    missing: Literal["impute", "error"] = "impute"
    categories: int = 50
    standardise: bool = True
    kinds: Mapping[str, str] | None = None
    drop: Sequence[str] = ()
    na: Sequence[Any] = ()

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Decide what becomes of every column.

        X is a data frame of pandas or polars, or an array of objects; y is not used. Weights count
        in the means and variances of the features.
        """
        self.fit_transform(X, y, sample_weight)
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:  # noqa: ARG002
        """Fit, and return the features of the same rows."""
        self._check()
        frame = as_frame(X)
        self.n_features_in_ = frame.shape[1]
        self.feature_names_in_ = np.array(list(frame.columns), dtype=object)
        check_columns([*self.drop, *(self.kinds or {})], list(frame.columns))
        frame = frame.drop(columns=list(self.drop))
        # a column that could have either decimal sign has that of the other columns
        signs = {decimal_sign(one) for _, one in frame.items()}
        decimal = "," if "," in signs and "." not in signs else ""
        self.decisions_: dict[str, Decision] = {}
        columns: dict[str, Any] = {}
        for name in frame.columns:
            self.decisions_[name], columns[name] = self._decided(name, frame[name], decimal)
        self.notes_ = [one.note for one in self.decisions_.values() if one.note]
        if not self.kept():
            raise ValueError(" ".join(["No column is left to learn from.", *self.notes_]))
        Z, changed = _features(columns, self.kept())
        self.notes_ += [one for one in changed if not one.startswith(UNKNOWN)]  # noted as rare
        self.center_ = np.zeros(Z.shape[1])
        self.scale_ = np.ones(Z.shape[1])
        if self.standardise:
            scaler = StandardScaler().fit(Z, sample_weight=sample_weight)
            self.center_, self.scale_ = scaler.mean_, scaler.scale_
        return (Z - self.center_) / self.scale_

    def transform(self, X: Any) -> Any:
        """Return the features of new rows, of shape (n, n_features_out).

        A data frame needs the columns of the fit, in any order and with others beside them. What is
        filled in or not recognised is told by a PreparationWarning.
        """
        check_is_fitted(self)
        frame = as_frame(X, self.feature_names_in_.tolist())
        check_columns([one.column for one in self.kept()], list(frame.columns))
        columns: dict[str, Any] = {}
        other: list[str] = []
        for one in self.kept():
            series = self.cleaned(frame[one.column])
            form, values = _read(one.column, series, one.form)
            gaps = int(np.count_nonzero(pandas().isna(values)))
            if gaps and self.missing == "error":
                told = f'Column "{one.column}" has {counted(gaps, "missing value")}'
                raise ValueError(f"{told}, and no row of the fit had any.")
            if gaps == len(values):
                values = np.full(gaps, None if one.kind == "text" else np.nan)
            elif form.kind != one.form.kind:
                raise ValueError(
                    f'Column "{one.column}" must hold {one.kind}s as in fitting: '
                    f"{_example(series, one.form)}. Correct it, or name the values that are "
                    "missing by na."
                )
            elif _may_differ(one.form, form):
                other.append(f"{one.column} ({_example(series)})")
            columns[one.column] = values
        Z, notes = _features(columns, self.kept())
        if other:
            what = "Written in another form than in fitting, so check units, signs and dates"
            notes.append(f"{what}: {', '.join(other)}.")
        for note in notes:
            warn_user(note, PreparationWarning)
        return (Z - self.center_) / self.scale_

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002
        """Return the names of the features, such as "size" and "town=Oslo"."""
        check_is_fitted(self)
        return np.array([name for one in self.kept() for name in one.features], dtype=object)

    def columns_of_features(self) -> list[str]:
        """Return the column of the table that each feature comes from."""
        return [one.column for one in self.kept() for _ in one.features]

    def in_original_units(self, coef: Floats, intercept: Floats) -> tuple[Array, Array]:
        """Return coefficients and intercept of the features before they were standardised."""
        original = np.asarray(coef / self.scale_, np.float64)
        return original, np.asarray(intercept - original @ self.center_, np.float64)

    def kept(self) -> list[Decision]:
        """Return the decisions on columns that have features: numbers first, then text."""
        used = [one for one in self.decisions_.values() if one.kind != "dropped"]
        return sorted(used, key=lambda one: one.kind == "text")

    def cleaned(self, series: Any) -> Any:
        """Return a column with gaps in place of the words for a missing value."""
        if not len(self.na):
            return series
        if pandas().api.types.is_numeric_dtype(series):
            given = pandas().to_numeric(pandas().Series(list(self.na)), errors="coerce")
            return series.mask(series.isin(given.dropna()))
        known = {str(one) for one in self.na}
        return series.mask(np.array([one in known for one in words(series)]))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = self.missing == "impute"
        return tags

    def _check(self) -> None:
        if self.missing not in {"impute", "error"}:
            raise ValueError(f'missing must be "impute" or "error"; got {self.missing!r}.')
        whole_number("categories", self.categories, least=1)
        for name in ("drop", "na"):
            one = getattr(self, name)
            if isinstance(one, str):
                raise TypeError(f"{name} must be a list; got {one!r}: write {name}=[{one!r}].")
        for name, kind in (self.kinds or {}).items():
            if kind not in {"number", "date", "text"} and "%" not in kind:
                raise ValueError(
                    f'kinds[{name!r}] must be "number", "date", "text", or a format of dates such '
                    f'as "%d/%m/%Y"; got {kind!r}.'
                )

    def _decided(self, name: str, series: Any, decimal: str) -> tuple[Decision, Any]:
        """Return what becomes of a column, and its values."""
        series = self.cleaned(series)
        wanted = (self.kinds or {}).get(name)
        like: Any = None
        if wanted is not None:
            like = Form("date", formats=(wanted,)) if "%" in wanted else Form(wanted)  # type: ignore[arg-type]
        form, values = _read(name, series, like, decimal)
        if like is not None and form.kind != like.kind:
            raise ValueError(f'Column "{name}" is not all of kind {wanted!r}: {_example(series)}.')
        gaps = np.asarray(pandas().isna(values))
        known = values[~gaps]
        if not len(known):
            return Decision(name, "dropped", f'Column "{name}": left out, there is no value.'), None
        if gaps.any() and self.missing == "error":
            raise ValueError(
                f'Column "{name}" has {counted(int(gaps.sum()), "missing value")}: '
                'missing="impute" fills them in.'
            )
        levels: tuple[str, ...] = ()
        median = None
        if form.kind == "text":
            levels, note = self._levels(name, known, bool(gaps.any()), wanted)
        else:
            note = _constant(name, known)
            if not note:
                note = _unusual(name, known, form, _example(series), wanted)
                median = float(np.median(known))
        kind = form.kind if levels or median is not None else "dropped"
        note = note and f'Column "{name}": {note}.'
        return Decision(name, kind, note, form, levels, median), values

    def _levels(
        self, name: str, known: Any, gaps: bool, wanted: str | None
    ) -> tuple[tuple[str, ...], str]:
        """Return the words of a column that get a feature, and what is unusual about it."""
        own = (MISSING_WORD,) if gaps else ()
        counts = pandas().Series(known).value_counts()
        n, different = len(known), len(counts)
        example = repr(str(known[0])[:40])
        if wanted is None:
            keeps = f'kinds={{"{name}": "text"}} keeps it'
            if different == n > 1:
                return (), f"left out, {example} and all other texts occur once; {keeps}"
            if different > self.categories and n < 3 * different:
                many = f"{example} is one of {different} texts in {n} rows"
                return (), f"left out, {many}, as in a column of names or ids; {keeps}"
        if different + len(own) < 2:
            return (), f"left out, {example} in every row"
        levels = _frequent(counts, self.categories)
        every = f"categories={different} gives one to all"
        if not levels and not own:
            return (), f"left out, {example} is as frequent as all other texts; {every}"
        told = []
        if all(one.isdigit() for one in counts.index):
            code = f"digits such as {example} are taken as a code, not as a number"
            told.append(f'{code}; kinds={{"{name}": "number"}} reads numbers')
        if len(levels) < different:
            share = f"{counts[levels].sum() / n:.0%} of rows"
            told.append(
                f"of {different} different texts such as {example}, the {len(levels)} most "
                f"frequent ({share}) get a feature each and the others none; {every}"
            )
        elif different > 10:
            told.append(f"{different} different texts such as {example}, a feature for each")
        if told and _looks_like_ids(name):
            told.append(f'drop=["{name}"] leaves out a column of ids')
        # the word for missing text may be in the column too
        return (*sorted({*levels} - {*own}), *own), "; ".join(told)


def as_frame(X: Any, names: Sequence[str] | None = None) -> Any:
    """Return a pandas.DataFrame for a frame of pandas or polars, a dict of columns, or an array."""
    if hasattr(X, "to_pandas"):
        X = X.to_pandas()
    named = hasattr(X, "columns") or isinstance(X, Mapping)
    if not named and np.ndim(X) != 2:
        raise ValueError(
            "A table is a data frame, a dict of columns or an array of two dimensions; got "
            f"{type(X).__name__}."
        )
    frame = pandas().DataFrame(X)
    given = list(map(str, frame.columns))
    if not named:
        # an array of objects gets back the type of each column
        frame = frame.infer_objects()
        given = [f"x{i}" for i in range(frame.shape[1])] if names is None else list(names)
    if len(given) != frame.shape[1]:
        raise ValueError(
            f"X has {frame.shape[1]} features, but {len(given)} columns were fitted: "
            f"{', '.join(given[:12])}."
        )
    frame = frame.set_axis(given, axis=1)
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f'There are two columns named "{twice}": rename one of them.')
    return frame


def check_columns(names: Sequence[str], known: Sequence[str]) -> None:
    """Raise a ValueError if there is no column of some name, with what may be the cause."""
    lacking = [name for name in names if name not in known]
    if not lacking:
        return
    told = listed(known)
    hint = did_you_mean(lacking[0], known) or "."
    if len(known) == 1 and lacking[0] in known[0]:
        told = f'The only column is {known[0]}: separate columns by a comma, ";", "|" or a tab.'
    elif len(lacking) > 1:
        hint = ", nor " + ", ".join(f'"{name}"' for name in lacking[1:12]) + hint
    elif all(re.fullmatch(r"[-+]?[\d.,]+([eE][-+]?\d+)?", name) for name in known):
        told += " The first line must have the names of the columns."
    raise ValueError(f'There is no column "{lacking[0]}"{hint} {told}')


def listed(known: Sequence[str]) -> str:
    """Return a sentence that names columns, but not hundreds of them."""
    more = f" and {len(known) - 12} more" if len(known) > 12 else ""
    return f"The columns are {', '.join(known[:12])}{more}."


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the singular or the plural."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _features(columns: Any, kept: list[Decision]) -> tuple[Array, list[str]]:
    """Return the features of columns of floats and words, and notes on missing and unknown ones."""
    found: dict[str, list[str]] = {}
    parts = []
    for one in kept:
        values = np.asarray(columns[one.column])
        gaps = np.asarray(pandas().isna(values))
        if one.kind == "text":
            places = pandas().Index(one.levels, dtype=object).get_indexer(values)
            own = MISSING_WORD in one.levels
            places[gaps] = one.levels.index(MISSING_WORD) if own else -1
            told = {
                "Missing values, given a category of their own": gaps & own,
                UNKNOWN: places < 0,
            }
            parts.append(places[:, None] == np.arange(len(one.levels)))
        else:
            told = {"Missing values, set to the median": gaps}
            parts.append(np.where(gaps, float(one.median or 0), values)[:, None])
        for what, rows in told.items():
            if rows.any():
                found.setdefault(what, []).append(f"{one.column} ({int(rows.sum())})")
    notes = [f"{what}: {', '.join(names)}." for what, names in found.items()]
    return np.hstack(parts).astype(np.float64), notes


def _read(name: str, series: Any, like: Form | None, decimal: str = "") -> tuple[Form, Any]:
    try:
        return read(series, like, decimal=decimal)
    except ValueError as error:
        raise ValueError(f'Column "{name}": {error}') from error


def _example(series: Any, form: Form | None = None) -> str:
    """Return a value in words, such as "text such as '12 kg'", one of another kind if possible."""
    known = series.dropna()
    place = 0
    if form is not None:
        some = range(min(len(known), 1000))
        place = next((i for i in some if read(known[i : i + 1], form)[0].kind != form.kind), 0)
    value = known.iloc[place]
    return f"{'text' if isinstance(value, str) else 'values'} such as {str(value).strip()[:40]!r}"


def _constant(name: str, known: Any) -> str:
    """Return a note if a column of numbers cannot be used: it is constant up to rounding."""
    largest = np.abs(known).max()
    if largest > 1e100:
        raise ValueError(
            f'Column "{name}" has {largest:g}, whose square may overflow: divide the column, or '
            "name the values that are missing by na."
        )
    spread = np.ptp(known)
    if spread > 1e-12 * largest:
        return ""
    return f"left out, {known[0]:g} in every row" + " to 12 digits" * bool(spread)


def _unusual(name: str, known: Any, form: Form, example: str, wanted: str | None) -> str:
    """Return what is unusual about a column of numbers or dates."""
    if wanted is None and (form.decimal or form.unit or form.formats):
        other = "number" if form.formats == ("%Y%m%d",) else "text"
        keeps = f'kinds={{"{name}": "{other}"}} keeps it as {other}'
        for one in form.formats:
            swapped = {"%m/%d": "%d/%m", "%d/%m": "%m/%d"}.get(one[:5])
            if swapped is not None:
                keeps += f', and kinds={{"{name}": "{swapped}{one[5:]}"}} swaps day and month'
        return f"{example}, {form.in_words()}; {keeps}"
    if form.kind == "date":
        return "" if wanted else "dates, counted in days since 1970"
    for end in (float(known.min()), float(known.max())):
        if re.fullmatch("-?9{2,}", f"{end:g}") is None:
            continue
        others = known[known != end]
        # a code lies farther from all other values than these lie from each other
        if np.abs(others - end).min() > np.ptp(others):
            times = counted(int((known == end).sum()), "time")
            far = f"{end:g} occurs {times}, far from all other values"
            return f"{far}; na=[{end:g}] takes it as missing"
    differ = _looks_like_ids(name) and len(np.unique(known)) == len(known)
    if differ and (known % 1 == 0).all():
        once = f"{known[0]:g} and all other values occur once, as in a column of ids"
        return f'{once}; drop=["{name}"] leaves it out'
    return ""


def _looks_like_ids(name: str) -> bool:
    return re.search(r"(^|[\W_])id$|Id$|ID$", name) is not None


def _frequent(counts: Any, most: int) -> list[str]:
    """Return the most frequent words; ties at the limit are all kept, or all left out."""
    tied = counts >= counts.iloc[min(most, len(counts)) - 1]
    if tied.sum() > 4 * most:
        tied = counts > counts.iloc[most - 1]
    return list(counts.index[tied])


def _may_differ(fitted: Form, new: Form) -> bool:
    """Tell whether the same text could mean another number or date in another form."""
    if fitted.kind == "date":
        return bool(set(new.formats) - {*fitted.formats, "ISO8601"})
    if new == fitted or new.kind == "text":
        return False
    # a plain number is itself, but where the fit had percent signs it may be a share
    if new == Form("number"):
        return fitted.unit == "%"
    return (new.unit or fitted.unit, new.decimal) != (fitted.unit, fitted.decimal or ".")
