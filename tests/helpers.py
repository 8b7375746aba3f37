"""What tests of more than one file do: run a command, and compare fits."""

import numpy as np
import pytest
from typer.testing import CliRunner

from stoptime.cli import app


def run(*arguments):
    """Run ``stoptime`` with arguments of any type, on a plain terminal of 120 columns."""
    return CliRunner(env={"COLUMNS": "120", "TERM": "dumb"}).invoke(
        app, [str(one) for one in arguments]
    )


def same_fit(a, b, rtol=1e-9):
    """Compare errors, coefficients and standard errors of two fits that chose their stop."""
    np.testing.assert_allclose(a.errors_, b.errors_, rtol=rtol)
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=rtol, atol=rtol * np.abs(b.coef_).max())
    np.testing.assert_allclose(a.intercept_, b.intercept_, rtol=1e-8)
    if b.choice_.standard_error is not None and a.choice_.standard_error is not None:
        assert a.choice_.standard_error == pytest.approx(b.choice_.standard_error, rel=1e-7)
