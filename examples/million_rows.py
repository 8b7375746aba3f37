"""
A kernel for a million rows
===========================

With landmarks a kernel is fitted to all rows, and all stops have their exact leave-one-out error,
without the kernel matrix. On a GPU a million rows take seconds.
"""

# %%
# The data are a smooth function of three columns out of six, with noise of variance 0.09. Where
# torch finds a GPU, there are a million rows there; this page was built with fewer on a processor.

import time
from importlib.util import find_spec

import numpy as np
from matplotlib import pyplot as plt

import stoptime as st
from stoptime.show import plots

on_gpu = False
if find_spec("torch"):
    import torch

    on_gpu = torch.cuda.is_available()
n = 1_000_000 if on_gpu else 8_000
rng = np.random.default_rng(0)
X = rng.standard_normal((n, 6))
truth = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
y = truth + 0.3 * rng.standard_normal(n)
if on_gpu:
    X, y = torch.from_numpy(X).cuda(), torch.from_numpy(y).cuda()

# %%
# More landmarks take more time and give a smaller error. The leave-one-out error is that of the fit
# with these landmarks, so that it says whether more of them would pay. The width is chosen for
# each number of landmarks.

counts = [256, 1024, 4096] if on_gpu else [30, 100, 300]
models = []
for count in counts:
    begin = time.perf_counter()
    model = st.StoppedKernelRegressorCV(kernel="rbf", gamma="auto", n_landmarks=count).fit(X, y)
    spent = time.perf_counter() - begin
    models.append(model)
    print(
        f"{count:5} landmarks: left-out error {model.choice_.error:.4f}, gamma {model.gamma_:.3f}, "
        f"{model.method_.name}, {spent:.1f} s"
    )

# %%
# The features of all rows would take n times m numbers; they are computed in blocks, twice, and
# never stored. Left: the error along the path of the largest model. Right: errors by the number of
# landmarks, beside the variance of the noise.

figure, (left, right) = plots.new_figure(1, 2, figsize=(11, 4.4))
models[-1].plot(ax=left)
left.legend(loc="upper right", fontsize=8)
left.set(xlabel="stop", ylabel="mean squared error", title=f"{n} rows, {counts[-1]} landmarks")
right.semilogx(counts, [model.choice_.error for model in models], "o-", color="#0072B2")
right.axhline(0.09, color="0.4", linestyle=":", label="noise")
right.set(xlabel="landmarks", ylabel="left-out error", title="What more landmarks gain")
right.minorticks_off()
right.set_xticks(counts, counts)
right.legend()

plt.show()
