"""
A messy table, from text to intervals
=====================================

Prices with a euro sign, weights with a unit, times, codes and gaps: ``fit_table`` reads them, fits
a model, and says what it did. The preparation alone is a transformer for pipelines.
"""

# %%
# A table as it comes out of a spreadsheet. The price depends on the weight, the town and the hour.

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from sklearn.pipeline import make_pipeline

import stoptime as st

rng = np.random.default_rng(0)
n = 200
weight = rng.normal(20, 5, n)
hour = rng.integers(8, 18, n)
town = rng.choice(["Oslo", "Rome", "Lima"], n)
price = 30 * weight + 100 * (town == "Oslo") + 5 * hour + rng.normal(0, 60, n)
frame = pd.DataFrame(
    {
        "weight": [f"{one:.1f} kg" for one in weight],
        "time": [f"{one}:30" for one in hour],
        "town": np.where(rng.random(n) < 0.05, None, town),
        "zip": [f"0{one}00" for one in rng.integers(10, 14, n)],
        "stock": np.where(rng.random(n) < 0.1, -999, rng.integers(0, 9, n)),
        "price": [f"€ {one:,.2f}" for one in price],
    }
)
print(frame.head(3).to_string())

# %%
# One call. Each note shows a value, and names the parameter that would change the decision.

fit = st.fit_table(frame, "price")
print("\n".join(fit.notes))

# %%
# The advice on -999 is taken. Every row of the summary is about rows that were left out.

preparation = st.TablePreparation(na=[-999])
fit = st.fit_table(frame, "price", preparation=preparation)
print(fit)

# %%
# The same preparation in a pipeline of one's own, here before a kernel, and intervals through it.

rows = fit.X
pipeline = make_pipeline(preparation, st.StoppedKernelRegressorCV(kernel="rbf", gamma=0.02))
pipeline.fit(rows, fit.y)
new = rows.dropna().head(3)
print(st.predict_interval(pipeline, new).round())

# %%
# Predicted against observed: each row by the fit without it.

_, ax = plt.subplots(layout="constrained")
predicted = fit.y - fit.model.left_out_residuals_
ax.plot(predicted, fit.y, ".", color=st.plots.COLORS["gradient-flow"])
ax.axline((500, 500), slope=1, color="0.6", linewidth=0.8)
ax.set(xlabel="predicted price, by the fit without the row", ylabel="price")
plt.show()
