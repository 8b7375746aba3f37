"""Numbers in words: the digits that are meaningful, and upper bounds that stay true."""

import warnings
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import stoptime as st
from stoptime.support.progress import warnings_noted
from stoptime.support.wording import aligned, method_in_words, number, rounded_up, with_error


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1234567.0, "1235000"),
        (9999.6, "10000"),
        (0.0, "0"),
        (-0.0, "0"),
        (-12.0, "-12"),
        (1.5e-7, "1.5e-07"),
        (-2e20, "-2e+20"),
        (np.nan, "-"),
        (0.00012346, "0.0001235"),
        (np.inf, "∞"),
        (-np.inf, "-∞"),
        (None, "-"),
    ],
)
def test_a_number_has_four_digits(value, words):
    assert number(value) == words


@given(some.floats(1e-4, 1e14), some.booleans())
def test_a_number_is_within_half_a_unit_of_its_fourth_digit(value, negative):
    value = -value if negative else value
    text = number(value)
    assert len(text.split("e")[0].replace(".", "").strip("-0")) <= 4
    assert "e" not in text or abs(value) > 9e9
    assert float(text) == pytest.approx(value, rel=5.1e-4)


@given(some.floats(-1e9, 1e9), some.floats(1e-6, 1e8))
def test_a_value_is_rounded_by_less_than_its_error(value, error):
    value_text, error_text = with_error(value, error).split(" ± ")
    assert float(error_text) == pytest.approx(error, rel=0.051)
    assert abs(float(value_text) - value) <= max(0.051 * error, 5.1e-10 * abs(value))


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (2999.87, 187.3, "3000 ± 190"),
        (45678901.0, 234567.0, "45680000 ± 230000"),
        (0.0, 99.6, "0 ± 100"),
        (3.14159, None, "3.142"),
        (-0.001, 0.3, "0 ± 0.3"),
        (2e9, 1e3, "2000000000 ± 1000"),
    ],
)
def test_a_standard_error_decides_the_decimals(value, error, words):
    assert with_error(value, error) == words


def test_signs_and_rounding_are_shown_at_the_scale_of_other_numbers():
    assert with_error(2.5, None, sign=True) == "+2.5"
    for value in (-2e-17, 0.0, 9e-14, -0.0):
        assert number(value, scale=0.1, sign=True) == "0"
        assert with_error(value, 3e-17, scale=0.1, sign=True) == "0"


def test_tables_are_aligned_and_methods_named_with_their_parameters():
    table = aligned([("method", "stop"), ("ridge", "1"), ("flow", "100")])
    assert table == "method  stop\nridge      1\nflow     100"
    assert method_in_words(st.AcceleratedFlow()) == "accelerated-flow (friction 3)"
    assert method_in_words(st.Ridge()) == "ridge"
    inner = st.Averaged(st.Nesterov(1 / 3))
    assert method_in_words(inner).startswith("averaged (nesterov (step 0.3333, friction 3), kind")


@pytest.mark.parametrize("value", [1.59910940073, 1.25, 1.0, 1 + 1e-15, 1.0785828, 2.0005])
def test_a_bound_is_rounded_up_by_less_than_a_thousandth(value):
    printed = Decimal(rounded_up(value))
    exact = Decimal(repr(value))
    assert exact <= printed < exact + Decimal("0.001")
    assert len(rounded_up(value)) == 5
    assert rounded_up(np.inf) == "∞"


def test_warnings_become_messages_each_once():
    with warnings_noted() as messages:
        for text in ("Mind\n the gap.", "Mind the gap.", "Another."):
            warnings.warn(text, stacklevel=1)
    assert messages == ["Mind the gap.", "Another."]
