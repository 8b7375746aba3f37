"""Numbers in words: the digits that are meaningful, and upper bounds that stay true."""

import warnings
from decimal import Decimal

import numpy as np
import pytest

import stoptime as st
from stoptime.support.progress import warnings_noted
from stoptime.support.wording import (
    aligned,
    guarantee_in_words,
    method_in_words,
    number,
    rounded_up,
    with_error,
)
from stoptime.tables.assessment import Assessment


def assessment(guarantee, *, universal=True, inflation=1.0394):
    return Assessment(
        st.AcceleratedFlow(), 1.0, 1.0, 2.0, 3.0, 0.1, 0.5, guarantee, universal, inflation
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1234567.0, "1.235e+06"),
        (0.00012346, "0.0001235"),
        (np.inf, "∞"),
        (-np.inf, "-∞"),
        (None, "-"),
    ],
)
def test_a_number_has_four_digits(value, words):
    assert number(value) == words


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (2999.87, 187.3, "3000 ± 187"),
        (0.01234, 0.00056, "0.01234 ± 0.00056"),
        (3.14159, None, "3.142"),
        (-0.001, 0.3, "0.00 ± 0.30"),
        (2e9, 1e3, "2e+09 ± 1e+03"),
    ],
)
def test_a_standard_error_decides_the_decimals(value, error, words):
    assert with_error(value, error) == words


def test_the_sign_of_a_difference_is_shown():
    assert with_error(2.5, None, sign=True) == "+2.5"


def test_a_table_is_aligned():
    table = aligned([("method", "stop"), ("ridge", "1"), ("flow", "100")])
    assert table == "method  stop\nridge      1\nflow     100"


def test_a_method_is_named_with_its_parameters():
    assert method_in_words(st.AcceleratedFlow()) == "nesterov-flow (friction 3)"
    assert method_in_words(st.Ridge()) == "ridge"


@pytest.mark.parametrize("value", [1.59910940073, 1.25, 1.0, 1 + 1e-15, 1.0785828, 2.0005])
def test_a_bound_is_rounded_up_by_less_than_a_thousandth(value):
    printed = Decimal(rounded_up(value))
    exact = Decimal(repr(value))
    assert exact <= printed < exact + Decimal("0.001")
    assert len(rounded_up(value)) == 5


def test_an_infinite_bound_is_a_sign():
    assert rounded_up(np.inf) == "∞"


def test_a_guarantee_is_rounded_up_and_an_estimate_is_not():
    bound, meaning = guarantee_in_words(assessment(1.59910940073))
    assert bound == "1.600 ×"
    assert "on any spectrum." in meaning
    assert "1.039 ×" in meaning
    _, meaning = guarantee_in_words(assessment(1.5, universal=False, inflation=None))
    assert "eigenvalues in the same range" in meaning
    assert "estimate" not in meaning
    assert guarantee_in_words(assessment(None))[0] == "none"


def test_warnings_become_messages_each_once():
    with warnings_noted() as messages:
        for text in ("Mind\n the gap.", "Mind the gap.", "Another."):
            warnings.warn(text, stacklevel=1)
    assert messages == ["Mind the gap.", "Another."]
