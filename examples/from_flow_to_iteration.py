"""
From flow to iteration
======================

Iterates on top of their flow, the gap between them, and exact risk.
"""

# %%
# Left, the shrinkage of one direction under Nesterov's method for three step sizes, on top of accelerated
# flow at time √ε·k. Middle, the largest gap over all directions: halving √ε halves it. Right, the exact
# risk of every iteration against the mean of 500 simulated runs, with two standard errors.

from matplotlib import pyplot as plt

from stoptime.paper.discretisation import from_flow_to_iteration

from_flow_to_iteration()

plt.show()
