import hypothesis
import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

hypothesis.settings.register_profile(
    "repeatable", derandomize=True, deadline=None, max_examples=100, print_blob=False
)
hypothesis.settings.register_profile("soak", deadline=None, print_blob=True)  # other problems every time
hypothesis.settings.load_profile("repeatable")


@pytest.fixture
def rng():
    return np.random.default_rng(20220)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    from matplotlib import pyplot as plt

    plt.close("all")
