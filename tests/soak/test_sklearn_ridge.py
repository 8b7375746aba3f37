"""RidgeCV of scikit-learn on generated problems: a penalty alpha is the stop n/alpha.

RidgeCV keeps alpha when it leaves one of n rows out, and a stop keeps alpha/n. To choose as RidgeCV
does, stops are (n - 1)/alpha, and then all rows are fitted at n/alpha.
"""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge, RidgeCV

import stoptime as st
from campaign import problems

ALPHAS = np.geomspace(1e-2, 1e3, 11)


@pytest.mark.parametrize("seed", range(problems(24, 2000)))
def test_ridge_of_scikit_learn_is_chosen_and_fitted(seed):
    rng = np.random.default_rng(seed)
    n, p = rng.integers(4, 40, 2)
    X = rng.standard_normal((n, p)) * (rng.random((n, p)) < 0.6) + rng.integers(0, 2)
    y = X @ rng.standard_normal((p, 2)) + rng.standard_normal((n, 2))
    several = seed % 3 == 0
    y = y if several else y[:, 0]
    rows = sparse.csr_array(X) if seed % 4 == 1 else X
    options = {"fit_intercept": bool(seed % 2), "scoring": "neg_mean_squared_error"}
    theirs = RidgeCV(ALPHAS, alpha_per_target=several, **options).fit(X, y)
    ours = st.StoppedRegressorCV("ridge", (n - 1) / ALPHAS, per_target=several, **options)
    ours.fit(rows, y)
    np.testing.assert_allclose((n - 1) / ours.stop_, theirs.alpha_, rtol=1e-12)
    np.testing.assert_allclose(ours.best_score_, theirs.best_score_, rtol=1e-6)
    alpha = float(rng.choice(ALPHAS))
    weights = rng.uniform(0.1, 3, n)
    fit = Ridge(alpha, fit_intercept=options["fit_intercept"]).fit(X, y, weights)
    stop = weights.sum() / alpha
    found = st.StoppedRegressor("ridge", stop, options["fit_intercept"]).fit(rows, y, weights)
    np.testing.assert_allclose(found.coef_, fit.coef_, rtol=0, atol=1e-8 * abs(fit.coef_).max())
    np.testing.assert_allclose(found.intercept_, fit.intercept_, rtol=0, atol=1e-7)
