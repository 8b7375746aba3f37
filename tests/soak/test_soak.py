"""Generated problems against the slow oracle: right, or refused by name, and never NaN.

``make test`` tries a sample. ``make soak`` sets STOPTIME_SOAK to the number of problems.
"""

from __future__ import annotations

import re
import warnings

import mpmath as mp
import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as some
from sklearn.model_selection import KFold

import stoptime as st
from campaign import examples
from soak import oracle
from soak.problems import KINDS, MATRIX_FREE, STREAMED, TENSORS, data, methods, stops, typical

SAFETY = 1000.0  # times the first-order bound, which has no constants
ITSELF = {"float64": 1e-9, "float32": 1e-2}  # ten times what solver="auto" allows itself
# ten times the tol of Krylov spaces, and what streamed data lose without a word
KRYLOV = 1e-5
NAMED = re.compile(
    r"\b(X|y|sample_weight|stops?|damping|momentum|step|strong_convexity|columns?|[Cc]oefficients|kernel|"
    r"rule|method|cv|n_splits|weights?|rows?|target|solver)\b"
)
LOST = "rounding of XᵀX may change"
OWN_WARNINGS = f"gcv|Generalised|stop|too small beside|{LOST}"


def named(refusal: ValueError) -> str:
    assert NAMED.search(str(refusal)), f"no argument named: {refusal}"
    return str(refusal)


def fitted(estimator, generated):
    """Return the fitted estimator and its warnings, or None and why the data were refused."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = estimator.fit(*generated.handed_over())
    except ValueError as refusal:
        event("refused")
        return None, named(refusal)
    for warning in caught:
        own = issubclass(warning.category, UserWarning) and re.search(
            OWN_WARNINGS, str(warning.message)
        )
        assert own, f"{warning.category.__name__} leaks from {warning.filename}: {warning.message}"
    return model, " ".join(str(warning.message) for warning in caught)


def check_tuning(given_method, tuned, exact, slack, shortest, unseen):
    """Hold parameters that the method took from the spectrum to the exact eigenvalues."""
    largest = float(exact.largest) if 0 < exact.largest < mp.mpf("1e300") else None
    # an operator is known by what the response sees of it
    if unseen or largest is None or largest < 1e-290:
        return
    if getattr(given_method, "step", None) == "auto":
        assert tuned.step * largest <= 1 + slack  # less where rows are to be left out
        assert tuned.step * largest >= shortest - slack
    if getattr(given_method, "damping", None) == "critical":
        smallest = float(min(exact.eigenvalues) / exact.largest)
        assert tuned.damping**2 / largest == pytest.approx(smallest, rel=1e-5, abs=slack)


def check_coefficients(model, generated, given_method):
    """Compare coefficients and intercept with the oracle, as far as conditioning allows."""
    y = generated.y.reshape(len(generated.y), -1)
    coef = np.atleast_2d(np.asarray(model.coef_, float))
    intercept = np.broadcast_to(np.asarray(model.intercept_, float), len(coef))
    assert np.isfinite(coef).all()
    assert np.isfinite(intercept).all()
    with mp.workdps(oracle.DIGITS):
        exact = oracle.exact_data(generated.X, y, generated.sample_weight, generated.fit_intercept)
        stop_of = np.broadcast_to(np.asarray(model.stop_, float), len(coef))
        if exact.largest == 0:
            assert not coef.any()
            event("nothing to learn")
            return
        noise = centring_noise(exact, generated)
        if noise > 1e-3:
            event("lost in its mean")
            return
        eps = max(generated.eps, noise)
        shortest = 0.0 if isinstance(model, st.StoppedRegressorCV) else 1.0
        slack = max(1e4 * eps, KRYLOV if generated.kind in MATRIX_FREE else 0.0)
        check_tuning(
            given_method, model.method_, exact, slack, shortest, generated.kind in MATRIX_FREE
        )
        for one, stop in enumerate(stop_of):
            compare(exact, model, generated, (one, float(stop)), eps, (coef[one], intercept[one]))


def centring_noise(exact, generated) -> float:
    """Return the rounding of entries, with their means, beside the largest singular value."""
    largest = mp.mpf(float(np.abs(np.asarray(generated.X, float)).max()))
    size = float(largest / mp.sqrt(exact.largest))
    return generated.eps * (max(1.0, size) if generated.fit_intercept else 1.0)


def compare(exact, model, generated, where, eps, found):
    (one, stop), (coef, intercept) = where, found
    method, cut = model.method_, generated.eps * max(generated.X.shape)
    # tensors of single precision are worked on in double precision
    lowest = np.finfo(np.float64).eps if generated.kind == "tensor32" else cut
    late = np.isinf(stop)
    if isinstance(method, st.ConjugateGradient) and generated.kind in STREAMED:
        late = late or oracle.exhausted(exact, stop, max(cut, eps))  # their products see no further
    if late and oracle.undecided(exact, lowest, max(cut, eps)):
        event("at the rank cut")
        return
    if oracle.too_long(method, stop, exact.largest):
        event("too long for the oracle")
        return
    right = oracle.coefficients(exact, method, stop, max(cut, eps))[one]
    size = oracle.norm(right)
    if isinstance(method, st.ConjugateGradient) and np.isfinite(stop):
        rounding = moved_by_rounding(exact, stop, eps, one, right)
    else:
        rounding = oracle.rounding_error(exact, method, stop, eps, max(cut, eps), one)
    itself = ITSELF["float32" if generated.single else "float64"]
    if generated.kind in MATRIX_FREE | STREAMED:
        itself = KRYLOV
    allowed = itself * size + SAFETY * rounding
    if allowed > size:
        event("ill-conditioned beyond comparison")
    tiny = mp.mpf("1e-36" if generated.single else "1e-290")
    error = oracle.norm(oracle.exactly(coef) - right)
    sizes = [mp.nstr(one) for one in (error, size, allowed)]
    assert error <= allowed + tiny, "coefficients off by {} of {}, allowed {}".format(*sizes)
    if generated.fit_intercept:
        target_mean = exact.target_mean[one]
        mean_size = oracle.norm(exact.feature_mean)
        height = abs(target_mean) + mean_size * size + mp.mpf(float(np.abs(generated.y).max()))
        slack = mean_size * allowed + 100 * generated.eps * height
        exactly = target_mean - exact.feature_mean @ right
        assert abs(mp.mpf(float(intercept)) - exactly) <= slack + tiny, "intercept"
    event("right")


def moved_by_rounding(exact, stop, eps, one, right):
    """Return how far conjugate gradients move if the data are rounded, y about its mean."""
    rng = np.random.default_rng(0)
    scale = mp.sqrt(exact.largest)
    height = abs(exact.target_mean[one]) + oracle.norm(exact.targets[one])
    moves = []
    for _ in range(2):
        rows = exact.rows + scale * oracle.exactly(eps * rng.standard_normal(exact.rows.shape))
        noise = oracle.exactly(eps * rng.standard_normal(len(rows)))
        other = oracle.conjugate(rows, exact.targets[one] + height * noise, int(stop))
        moves.append(oracle.norm(other - right))
    return max(moves)


def slow_to_search(generated, method) -> bool:
    """Tell an iteration on an operator: each error bound is a run, a search may take a minute."""
    return generated.kind == "operator" and isinstance(method, st.Iteration)


@examples(144, 12_000)
@given(generated=data(), draw=some.data())
def test_a_path_is_right_or_refused(generated, draw):
    scale = typical(generated)
    method = draw.draw(methods(scale), "method")
    some_stop = stops(method, scale)
    if not slow_to_search(generated, method):
        some_stop = some.one_of(some_stop, some_stop, some.none())
    stop = draw.draw(some_stop, "stop")
    event("paths")
    event(f"data {generated.kind}")
    model, said = fitted(st.StoppedRegressor(method, stop, generated.fit_intercept), generated)
    if model is None:
        check_refusal(said, generated)
    elif LOST in said:
        event("warned of lost digits")
    else:
        check_coefficients(model, generated, method)


def check_refusal(refusal: str, generated) -> None:
    """Let data of ordinary size be refused only for what the method cannot do."""
    needs = "smallest eigenvalue|diverges|conjugate gradients|overflow at|converged|A stop after"
    assert not generated.tame or re.search(needs, refusal), refusal


RULES = [*st.RULES, "hold-out", "known noise", "one standard error of folds", "folds", 2, 3]


def by_rule(rule, generated):
    """Return how an estimator is told of a rule."""
    if isinstance(rule, int):
        return {"cv": rule}
    some_rows = slice(len(generated.X) // 2 + 1)  # rows that were also trained on will do
    folds = KFold(2, shuffle=True, random_state=0)
    noise = max(0.1 * float(np.var(generated.y)), 1e-300)
    made = {
        "hold-out": lambda: st.HoldOut(generated.X[some_rows], generated.y[some_rows]),
        "known noise": lambda: st.Discrepancy(noise=noise),
        "one standard error of folds": lambda: st.OneStandardError(st.CrossValidation(folds)),
    }
    return {"cv": folds} if rule == "folds" else {"rule": made[rule]() if rule in made else rule}


@examples(60, 5000)
@given(generated=data(least_rows=2), draw=some.data())
def test_a_chosen_stop_is_right_or_refused(generated, draw):
    scale = typical(generated)
    method = draw.draw(methods(scale), "method")
    rule = draw.draw(some.sampled_from(RULES), "rule")
    some_stops = some.lists(stops(method, scale), min_size=1, max_size=5)
    if not slow_to_search(generated, method):
        some_stops = some.one_of(some.none(), some.integers(3, 20), some_stops)
    grid = draw.draw(some_stops, "stops")
    event("choices")
    event(f"data {generated.kind}")
    event(f"rule {rule}")
    estimator = st.StoppedRegressorCV(
        method,
        grid,
        per_target=draw.draw(some.booleans(), "per_target"),
        fit_intercept=generated.fit_intercept,
        **by_rule(rule, generated),
    )
    model, said = fitted(estimator, generated)
    if model is None:
        return
    assert not np.isnan(np.asarray(model.errors_, float)).any(), "NaN among the errors"
    assert (np.asarray(model.errors_) >= 0).all() or rule == "sure", "negative error"
    # every target has its own stop between those of the grid
    own = np.ndim(model.stop_) > 0
    free = {"plug-in", "discrepancy", "known noise"}
    assert own or np.isin(model.stop_, model.stops_).all() or rule in free
    if LOST not in said:
        check_coefficients(model, generated, method)


DENSE = [kind for kind in KINDS if kind not in {*MATRIX_FREE, *STREAMED, *TENSORS}]


@examples(36, 3000)
@given(generated=data(kinds=DENSE, least_rows=2), draw=some.data())
def test_a_kernel_fit_is_finite_or_refused(generated, draw):
    """tests/spectrum/test_kernels.py compares kernels with the inner products of their features."""
    kernel = draw.draw(some.sampled_from(["rbf", "linear", "poly", "laplacian"]), "kernel")
    method = draw.draw(methods(1.0, conjugate=False), "method")
    stop = draw.draw(some.one_of(stops(method, 1.0), some.none()), "stop")
    event("kernels")
    options = {"kernel": kernel, "degree": 2, "gamma": None}
    options["fit_intercept"] = generated.fit_intercept
    estimator = st.StoppedKernelRegressor(method, stop, **options)
    if draw.draw(some.booleans(), "choose"):
        estimator = st.StoppedKernelRegressorCV(method, **options)
    model, _ = fitted(estimator, generated)
    if model is not None:
        assert np.isfinite(model.dual_coef_).all()
        assert np.isfinite(model.predict(generated.handed_over()[0])).all()
