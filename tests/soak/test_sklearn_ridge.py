"""The ridge tests of the installed scikit-learn, run on stoptime; see ridge_adapters.

Tests that do not apply are excused by name, with the reason.
"""

import importlib.util
from pathlib import Path

import pytest
import sklearn.linear_model

from campaign import SOAK
from soak.ridge_adapters import NAMES

FILE = Path(sklearn.linear_model.__file__).parent / "tests" / "test_ridge.py"
ONE_PENALTY = "There is no list of penalties, one for each target."
SIGNS = "There are no constraints on the signs of coefficients."
SOLVERS = "It tests solvers, their iterations and their messages."
MESSAGES = "It tests the wording of messages about alpha."
EXCUSED = {
    "test_array_api_error_and_warnings_for_solver_parameter": SOLVERS,
    "test_dtype_match_cholesky": ONE_PENALTY,
    "test_lbfgs_solver_error": SIGNS,
    "test_n_iter": SOLVERS,
    "test_positive_ridge_loss": SIGNS,
    "test_raises_value_error_if_sample_weights_greater_than_1d": "A weight is one for each row.",
    "test_ridge_classifier_cv_store_cv_results": "The left-out scores of every stop are not kept.",
    "test_ridge_cv_individual_penalties": ONE_PENALTY,
    "test_ridge_fit_intercept_sparse_error": SOLVERS,
    "test_ridge_fit_intercept_sparse_sag": SOLVERS,
    "test_ridge_ground_truth_positive_test": SIGNS,
    "test_ridge_individual_penalties": ONE_PENALTY,
    "test_ridge_loo_cv_asym_scoring": "A single row has no explained variance, and no mean of it.",
    "test_ridge_positive_error_test": SIGNS,
    "test_ridge_positive_regression_test": SIGNS,
    "test_ridge_regression_check_arguments_validity": SOLVERS,
    "test_ridge_regression_convergence_fail": SOLVERS,
    "test_ridge_regression_custom_scoring": "Of equal scores the largest penalty is chosen.",
    "test_ridge_shapes_type": "The coefficients of a y with one column are a matrix with one row.",
    "test_ridgeclassifier_multilabel": "A row has one label.",
    "test_ridgecv_alphas_validation": MESSAGES,
    "test_ridgecv_alphas_zero": "A penalty of zero is allowed: it is least squares.",
    "test_ridgecv_sample_weight": "A stop keeps the penalty per row in every fold, not alpha.",
    "test_ridgecv_store_cv_results": "A scorer is a function of an estimator, X and y.",
}
IGNORED = ("solver", "gcv_mode")  # parameters that the adapters do not use
PRIVATE = ("_solve", "_X_", "_check", "_Ridge")  # tests of functions of scikit-learn's own module


def loaded():
    """Return the tests of the file, made with the adapters in the place of scikit-learn's ridge."""
    spec = importlib.util.spec_from_file_location("sklearn.linear_model.tests.ridge_again", FILE)
    module = importlib.util.module_from_spec(spec)
    theirs = {name: getattr(sklearn.linear_model, name) for name in NAMES}
    try:
        vars(sklearn.linear_model).update(NAMES)
        spec.loader.exec_module(module)
    finally:
        vars(sklearn.linear_model).update(theirs)
    return vars(module)


@pytest.fixture
def global_random_seed():
    return 42


@pytest.fixture(autouse=True)
def _same_numbers():
    """Let every test draw the same numbers, whichever tests were run before."""
    found["rng"].seed(0)


def applicable(items):
    """Return the cases to run: see tests/conftest.py.

    Tensors have tests of their own. Every test is run in one case, and with ``make soak`` in all
    cases that differ in a parameter that the adapters use.
    """
    kept = {}
    for item in items:
        name = item.function.__name__
        given = item.callspec.params if hasattr(item, "callspec") else {}
        private = any(one.startswith(PRIVATE) for one in names_in(item.function))
        if name in EXCUSED or private or "array_namespace" in given:
            continue
        used = {key: value for key, value in given.items() if key not in IGNORED}
        case = name, repr(used) if SOAK else ""
        # for other solvers of scikit-learn, the tests themselves skip sparse X
        if case not in kept or {"sparse_cg", "eigen"} & set(map(given.get, IGNORED)):
            kept[case] = item
    return list(kept.values())


def names_in(function):
    """Return the global names that a test uses."""
    return getattr(function, "__wrapped__", function).__code__.co_names


try:
    found = loaded() if FILE.exists() else {}
except ImportError:  # a version whose tests need something else
    found = {}

if not found:
    pytest.skip(
        "this scikit-learn has no ridge tests that can be imported", allow_module_level=True
    )


def listed(mark):
    """Return a mark of pytest whose values are a list: pytest 9.1 warns of generators."""
    if mark.name != "parametrize":
        return mark
    names, values, *others = mark.args
    return pytest.mark.parametrize(names, list(values), *others, **mark.kwargs).mark


for test in found.values():
    if hasattr(test, "pytestmark"):
        test.pytestmark = [listed(mark) for mark in test.pytestmark]

globals().update({name: found[name] for name in found if name.startswith("test_")})
ols_ridge_dataset = found.get("ols_ridge_dataset")
