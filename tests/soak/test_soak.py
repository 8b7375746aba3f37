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
KRYLOV = (
    1e-5  # ten times the tol of Krylov spaces, and what rows that pass by once lose without a word
)
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
    if largest is None or largest < 1e-290:
        return
    if unseen:  # an operator is known by what the response sees of it
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
    size = float(
        mp.mpf(float(np.abs(np.asarray(generated.X, float)).max())) / mp.sqrt(exact.largest)
    )
    return generated.eps * max(1.0, size if generated.fit_intercept else 1.0)


def compare(exact, model, generated, where, eps, found):
    (one, stop), (coef, intercept) = where, found
    method, cut = model.method_, generated.eps * max(generated.X.shape)
    lowest = (
        cut if generated.kind != "tensor32" else np.finfo(np.float64).eps
    )  # which it is worked on in
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
    allowed = tolerance(exact, method, stop, eps, cut, one, right, generated)
    size = mp.sqrt(mp.fsum(v * v for v in right))
    error = mp.sqrt(mp.fsum((mp.mpf(float(a)) - b) ** 2 for a, b in zip(coef, right, strict=True)))
    mean_size = mp.sqrt(mp.fsum(m * m for m in exact.feature_mean))
    tiny = mp.mpf("1e-290") if not generated.single else mp.mpf("1e-36")
    if allowed > size:
        event("ill-conditioned beyond comparison")
    sizes = [mp.nstr(one) for one in (error, size, allowed)]
    assert error <= allowed + tiny, "coefficients off by {} of {}, allowed {}".format(*sizes)
    b = exact.target_mean[one] - mp.fsum(
        m * v for m, v in zip(exact.feature_mean, right, strict=True)
    )
    slack = mean_size * allowed + 100 * generated.eps * (
        abs(exact.target_mean[one]) + mean_size * size
    )
    slack += 100 * generated.eps * mp.mpf(float(np.abs(generated.y).max()))
    assert not generated.fit_intercept or abs(mp.mpf(float(intercept)) - b) <= slack + tiny, (
        "intercept"
    )
    event("right")


def tolerance(exact, method, stop, eps, cut, one, right, generated):
    """Return the error of the coefficients that rounding explains."""
    size = mp.sqrt(mp.fsum(v * v for v in right))
    itself = ITSELF["float32" if generated.single else "float64"]
    if generated.kind in MATRIX_FREE | STREAMED:
        itself = KRYLOV
    if isinstance(method, st.ConjugateGradient) and np.isfinite(stop):
        return itself * size + SAFETY * moved_by_rounding(exact, method, stop, eps, one, right)
    return (
        itself * size + SAFETY * oracle.rounding_error(exact, method, stop, eps, max(cut, eps))[one]
    )


def moved_by_rounding(exact, method, stop, eps, one, right):
    """Return how far conjugate gradients move if the data are rounded, y about its mean."""
    rng, scale = np.random.default_rng(0), mp.sqrt(exact.largest)
    height = abs(exact.target_mean[one]) + mp.sqrt(mp.fsum(v * v for v in exact.targets[one]))
    worst = mp.mpf(0)
    for _ in range(2):
        rows = exact.rows.copy()
        for i in range(rows.rows):
            for j in range(rows.cols):
                rows[i, j] += scale * mp.mpf(eps * rng.standard_normal())
        target = [v + height * mp.mpf(eps * rng.standard_normal()) for v in exact.targets[one]]
        moved = oracle.Exact(rows, [target], [], [], exact.eigenvalues, exact.vectors, [])
        other = oracle.coefficients(moved, method, stop, 0.0)[0]
        worst = max(
            worst, mp.sqrt(mp.fsum((a - b) ** 2 for a, b in zip(other, right, strict=True)))
        )
    return worst


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
    if rule == "hold-out":  # rows that were also trained on will do
        return {
            "rule": st.HoldOut(
                generated.X[: len(generated.X) // 2 + 1], generated.y[: len(generated.X) // 2 + 1]
            )
        }
    if rule == "known noise":
        return {"rule": st.Discrepancy(noise=max(0.1 * float(np.var(generated.y)), 1e-300))}
    folds = KFold(2, shuffle=True, random_state=0)
    if rule == "one standard error of folds":
        return {"rule": st.OneStandardError(st.CrossValidation(folds))}
    return {"cv": folds} if rule == "folds" else {"rule": rule}


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
def test_a_kernel_fit_is_right_or_refused(generated, draw):
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
    if model is None:
        return
    check_kernel_fit(model, generated)


def check_kernel_fit(model, generated):
    """Compare the fit at the training rows with that of the oracle."""
    X = generated.handed_over()[0]
    predicted = np.asarray(model.predict(X), float).reshape(len(generated.X), -1)
    assert np.isfinite(predicted).all()
    assert np.isfinite(model.dual_coef_).all()
    if generated.single:
        return
    X = np.asarray(generated.X, float)
    wide = generated.eps * np.abs(X).max() > 1e-12 and np.ptp(X, axis=0).max() > 670
    if model.kernel == "rbf" and wide:
        event("distances lost by scikit-learn")  # |x|² + |y|² - 2xy cancels
        return
    kernel = model._features.values(model.X_fit_)
    weight = np.ones(len(kernel)) if generated.sample_weight is None else generated.sample_weight
    y = np.asarray(generated.y, float).reshape(len(kernel), -1)
    with mp.workdps(oracle.DIGITS):
        fit = oracle.kernel_fit(kernel, y, weight, model)
        if fit is None:
            event("kernel at the rank cut")
            return
        right, allowed = fit
        size = float(np.abs(y).max())
        error = max(
            abs(mp.mpf(float(a)) - b) for a, b in zip(predicted.ravel(), right, strict=True)
        )
        assert error <= (allowed + 1e-9) * mp.mpf(size), f"fit off by {mp.nstr(error)} of {size}"
    event("right")
