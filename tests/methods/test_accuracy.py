"""Errors against the 50-digit tables of every method, and their table in docs/numerics.md."""

from __future__ import annotations

import numpy as np
import pytest

import stoptime as st
from reference import accuracy
from stoptime.methods.conjugate_gradient import conjugate_gradients, ritz_gain

NEAR, PER_UNIT = 1e-13, 1e-14
PRODUCT = 1e-5  # of the filter of conjugate gradients, where a Ritz value has nearly converged


def test_the_tables_cover_every_method():
    assert set(accuracy.measured()) == set(st.METHODS | st.ITERATIONS)
    assert all(worst.points >= 40 for worst in accuracy.measured().values())


@pytest.mark.parametrize("name", st.METHODS | st.ITERATIONS)
def test_every_method_is_accurate(name):
    worst = accuracy.measured()[name]
    assert max(worst.shrinkage, worst.gain) <= NEAR
    assert max(worst.far_shrinkage, worst.far_gain) <= PER_UNIT


@pytest.mark.parametrize("name", st.METHODS | st.ITERATIONS)
def test_the_page_says_what_is_measured(name):
    """Other releases of SciPy round differently, but not by much."""
    said = accuracy.printed(accuracy.PAGE.read_text(encoding="utf-8"))
    assert list(said) == list(accuracy.measured())
    written, worst = said[name], accuracy.measured()[name]
    assert written.points == worst.points, "run python tests/reference/accuracy.py"
    for told, found in zip(written[1:], worst[1:], strict=True):
        assert told / 10 <= found <= 3 * told, "run python tests/reference/accuracy.py"


def test_the_filter_of_conjugate_gradients_is_that_of_its_iterates():
    for point in accuracy.points():
        if point.method == "conjugate-gradient":
            given = point.parameters["eigenvalues"], point.parameters["response"]
            (values,) = conjugate_gradients(*given, [point.t]).ritz
            assert abs(ritz_gain(values, np.array(point.s)) / point.gain - 1) <= PRODUCT
            assert abs(np.prod(1 - point.s / values) - point.shrinkage) <= PRODUCT


def test_a_page_is_rounded_up():
    values = [0.0, 1e-14, 1.01e-14, 9.9e-15]
    assert [accuracy.rounded_up(value) for value in values] == ["–", "1e-14", "2e-14", "1e-14"]
