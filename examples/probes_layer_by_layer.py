"""
Probing the layers of a network
===============================

Which layer of a network still knows which digit it has seen? One linear probe for each layer, each
stopped where held-out rows say, without a validation set and without a sweep of penalties.
"""

# %%
# The network is trained to tell even digits from odd ones, on one half of the images. A probe then
# predicts the digit itself from the activations of one layer, on 400 other images. Activations are
# computed once and kept in single precision, as one caches embeddings of a large model.

import warnings
from time import perf_counter

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

import stoptime as st
from stoptime.show import plots

# the peers warn about changes to come, and the network about an early end
warnings.simplefilter("ignore", UserWarning)
warnings.simplefilter("ignore", FutureWarning)
rng = np.random.default_rng(1)
pixels, digit = load_digits(return_X_y=True)
order = rng.permutation(len(digit))
trained, train, new = np.split(order, [900, 1300])
network = MLPClassifier((96, 96, 96), max_iter=60, alpha=1e-2, random_state=0)
network.fit(pixels[trained] / 16, digit[trained] % 2)


def activations(X):
    """Return what each layer passes on, the pixels first."""
    found = [X / 16]
    for weights, bias in zip(network.coefs_[:-1], network.intercepts_[:-1], strict=True):
        found.append(np.maximum(found[-1] @ weights + bias, 0))
    return [one.astype(np.float32) for one in found]


cached = activations(pixels)

# %%
# A probe is one call, and its held-out log loss is that of rows it has not seen. The network was
# trained for something else, so that what a probe looks for may be in directions of small variance,
# which plain stopping learns last. The default run follows ridge by a weight decay that vanishes;
# held-out rows say which of the two to take. ``LogisticRegressionCV`` with 20 penalties is the
# usual sweep.

losses = {"held-out rows": [], "new rows": [], "new rows, 20 penalties": []}
spreads, probes = [], []
for layer, features in enumerate(cached):
    scaler = StandardScaler().fit(features[train])
    X, X_new = scaler.transform(features[train]), scaler.transform(features[new])
    begin = perf_counter()
    probe = st.StoppedLogisticRegressionCV(["auto", "nesterov"], max_iter=3000)
    probe.fit(X, digit[train])
    middle = perf_counter()
    penalties = np.geomspace(1e-4, 1e4, 20)
    sweep = LogisticRegressionCV(Cs=penalties, scoring="neg_log_loss", max_iter=2000)
    sweep.fit(X, digit[train])
    end = perf_counter()
    probes.append(probe)
    spreads.append(probe.standard_errors_[probe.stop_])
    losses["held-out rows"].append(-probe.best_score_)
    for name, model in (("new rows", probe), ("new rows, 20 penalties", sweep)):
        losses[name].append(log_loss(digit[new], model.predict_proba(X_new)))
    print(
        f"layer {layer}: {probe.method_.name}, stop {probe.stop_:>3}, "
        f"{probe.score(X_new, digit[new]):.1%} right, log loss {losses['new rows'][-1]:.3f} "
        f"in {middle - begin:.2f} s; sweep {losses['new rows, 20 penalties'][-1]:.3f} "
        f"in {end - middle:.2f} s"
    )

# %%
# Left: the deeper the layer, the less it knows about the digit, beyond what it was trained for.
# Right: the whole path of one probe, which is what choosing its stop has computed.

figure, (left, right) = plots.new_figure(1, 2, figsize=(11, 4.2))
looks = ("o", "#0072B2"), ("s", "#D55E00"), ("^", "#999999")
for (name, values), (marker, color) in zip(losses.items(), looks, strict=True):
    left.plot(values, marker=marker, color=color, label=name)
low, high = np.array(losses["held-out rows"]) + np.outer([-1, 1], spreads)
left.fill_between(range(len(cached)), low, high, color=looks[0][1], alpha=0.15, linewidth=0)
left.set(xlabel="layer", ylabel="log loss of the digit", title="One probe for each layer")
left.set_xticks(range(len(cached)), ["pixels", *map(str, range(1, len(cached)))])
left.legend()
probes[2].plot(ax=right)
right.set(title="The probe of layer 2", ylim=(0, 1.5 * probes[2].errors_[0]))

plt.show()
