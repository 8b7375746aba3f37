"""How many iterations to run: plans, and how they are printed and drawn."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from stoptime.bounds.plan import PlannedRun, batch_cost, best_penalty, planned_run
from stoptime.logistic.lockstep import CrossEntropyPlan, plan_cross_entropy
from stoptime.methods.base import Method, as_filter
from stoptime.methods.iterations import Nesterov
from stoptime.methods.recurrence import Iteration
from stoptime.methods.registry import get_method
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.decompose import decompose
from stoptime.support.arrays import Array
from stoptime.support.checks import nonnegative, positive_number, whole_number
from stoptime.support.wording import aligned, rounded_up
from stoptime.theory.calibration import possible_eigenvalues
from stoptime.theory.fluctuations import SpectrumSource

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Plan:
    """How long to run a method to match ridge with a penalty, compared with other methods.

    ``run`` is the requested method, ``descent`` is gradient descent with the same step, and
    ``safer`` is the same method with friction 5, if it has a friction other than 5.
    """

    penalty: float
    run: PlannedRun
    descent: PlannedRun
    safer: PlannedRun | None

    @property
    def iterations(self) -> int:
        """When to stop."""
        return self.run.iterations

    @property
    def speedup(self) -> float:
        """How many iterations of gradient descent one iteration is worth."""
        return self.descent.iterations / max(self.run.iterations, 1)

    @property
    def _runs(self) -> list[PlannedRun]:
        """The runs without repetition."""
        runs = (self.run, self.safer, self.descent)
        return list(dict.fromkeys(run for run in runs if run is not None))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the guarantee of each run at any iteration, with a dot where the plan stops."""
        from stoptime.show import plots  # noqa: PLC0415 - matplotlib is an extra

        ax = plots.new_figure()[1] if ax is None else ax
        for run in self._runs:
            (line,) = ax.plot(*self._guarantees(run), label=describe(run.method))
            ax.plot(run.iterations, run.inflation, "o", color=line.get_color())
        ax.set(xscale="log", xlabel="iterations", ylabel="risk over the best ridge risk, at most")
        ax.set_ylim(1, 2 * max(run.inflation for run in self._runs))
        ax.legend()
        return ax

    @property
    def _rows(self) -> list[list[str]]:
        """The runs as a table of words."""
        head = ["method", "iterations", "ridge penalty", "risk at most", "risk here", "speedup"]
        if self.run.batches is not None:
            head += [f"batches of {self.run.batches.batch_size}", "enough"]
        rows = [head]
        for run in self._runs:
            here = "-" if run.expected_inflation is None else f"{run.expected_inflation:.3f} x"
            bound = f"{rounded_up(run.inflation)} x"
            sooner = f"{self.descent.iterations / max(run.iterations, 1):.1f} x"
            name = describe(run.method)
            row = [name, str(run.iterations), f"{run.penalty:.3g}", bound, here, sooner]
            if run.batches is not None:
                row += [f"{run.batches.cost:.3g} x", str(run.batches.enough or "all rows")]
            rows.append(row)
        return rows

    def __str__(self) -> str:
        text = f"Equivalent to ridge with penalty {self.penalty:.4g}:\n{aligned(self._rows)}"
        searched = [describe(run.method) for run in self._runs if not run.proven]
        if searched:
            text += f"\nrisk at most: found by a search and not proven for {', '.join(searched)}"
        if self.run.batches is not None:
            text += (
                f"\nbatches of {self.run.batches.batch_size}: risk over that of the full gradient; "
                "enough: this batch size adds at most 1 %"
            )
        return text

    def _guarantees(self, run: PlannedRun) -> tuple[Array, Array]:
        """Return iterations before and after the stop of a run, and their guarantees."""
        last = 4 * run.iterations + 4
        k = np.unique(np.round(np.geomspace(max(1, last / 64), last, 100)))
        return k, run.guarantees(self.penalty, k)


def describe(method: Method) -> str:
    """Return a short description of the method, in the terms of torch if they exist."""
    shown = {one.name: getattr(method, one.name) for one in fields(method)}
    if shown.get("momentum") is not None:
        shown.pop("friction", None)  # a constant momentum takes its place
    words = {"step": "lr", "method": ""}
    options = [
        f"{words.get(name, name)} {_value_in_words(value)}".strip()
        for name, value in shown.items()
        if value is not None and value is not False
    ]
    return f"{method.name} ({', '.join(options)})"


def _value_in_words(value: Any) -> str:
    """Return a number, a schedule, or the method that another one is made of, in words."""
    if hasattr(value, "shrinkage"):
        return describe(value)
    return f"{value:.3g}" if isinstance(value, float) else str(value)


class _Options(TypedDict, total=False):
    """Parameters of a plan for any loss, for type checkers."""

    X: Any
    y: Any
    spectrum: Spectrum | ArrayLike | None
    method: str | Method
    step: float | str | None
    lr: float | str | None
    momentum: float | None
    friction: float | None
    batch_size: int | None


@overload
def plan(
    penalty: float | None = None, *, loss: Literal["squared"] = ..., **options: Unpack[_Options]
) -> Plan: ...


@overload
def plan(*, loss: Literal["cross-entropy"], **options: Unpack[_Options]) -> CrossEntropyPlan: ...


def plan(  # noqa: PLR0913 - step and momentum have torch's names beside ours
    penalty: float | None = None,
    *,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    spectrum: Spectrum | ArrayLike | None = None,
    method: str | Method = "nesterov",
    step: float | str | None = None,
    lr: float | str | None = None,
    momentum: float | None = None,
    friction: float | None = None,
    batch_size: int | None = None,
    loss: Literal["squared", "cross-entropy"] = "squared",
) -> Plan | CrossEntropyPlan:
    r"""Plan a run: when to stop, the equivalent ridge penalty, the guarantee, and the time saved.

    .. math:: k = \arg\min_k \max_{0 \le s \le L} \frac{R_k(s)}{R_\mathrm{ridge}(s)}

    with R the Bayes risk in a direction of eigenvalue s, under the prior for which the penalty is
    the best one. If python-flint is installed, the guarantee is proven in ball arithmetic: at any
    stop for gradient descent, Nesterov's method and the ν-method with steps up to 1/L, and up to
    200 iterations otherwise. The plan says where it only comes from a search in floating point.

    Parameters
    ----------
    penalty : float, optional
        The λ of ‖y - Xβ‖²/(2n) + (λ/2)‖β‖²; torch's ``weight_decay`` for the loss without the
        second term. By default the best one, estimated from the data by marginal likelihood.
    X, y, spectrum : array-like, or Spectrum, optional
        Data, or their spectrum or eigenvalues, but eigenvalues alone give no penalty.
    method : Iteration or str, default="nesterov"
        The method to run.
    step, lr : float or "auto", optional
        The step; ``lr`` is torch's name for it. If the spectrum is known, the default is the step
        of the method, or 1/L.
    momentum, friction : float, optional
        A constant momentum, for "nesterov" and "heavy-ball"; the friction of "nesterov".
    batch_size : int, optional
        Rows of the random batches on which the run takes its gradients, instead of all rows. The
        plan then says what they cost, and from which size on they no longer matter; see
        :func:`stoptime.theory.stochastic.limit`. It needs X and y, or their spectrum.
    loss : {"squared", "cross-entropy"}, default="squared"
        With "cross-entropy" y are labels, and the run is that of ``torch.nn.Linear`` from zero
        weights and biases on the rows of X as they are. Cross-entropy has no filter: the run is
        made, by five folds in lockstep, and the plan is the step at which held-out rows have the
        least log loss. A linear layer with two outputs is meant for two classes; for one output
        and ``BCEWithLogitsLoss`` read the optimiser with ``loss_scale=0.5``.

    Returns
    -------
    Plan or CrossEntropyPlan
        Both say when to stop as ``iterations``.

    Examples
    --------
    >>> print(plan(0.01, step=1.0))
    Equivalent to ridge with penalty 0.01:
    method                       iterations  ridge penalty  risk at most  risk here  speedup
    nesterov (lr 1, friction 3)          13        0.00986       1.234 x          -    3.5 x
    nesterov (lr 1, friction 5)          17        0.00961       1.154 x          -    2.6 x
    gradient-descent (lr 1)              45           0.01       1.082 x          -    1.0 x
    """
    if loss not in {"squared", "cross-entropy"}:
        raise ValueError(f'loss must be "squared" or "cross-entropy"; got {loss!r}.')
    if loss == "cross-entropy" and (X is None or y is None):
        raise ValueError("A plan for cross-entropy needs X, and labels as y.")
    if loss == "cross-entropy" and {penalty, batch_size} != {None}:
        raise ValueError("penalty and batch_size belong to a plan for the squared loss.")
    known = None if loss == "cross-entropy" else _known(X, y, spectrum)
    eigenvalues = possible_eigenvalues(known) if isinstance(known, Spectrum) else known
    complete = not isinstance(known, Spectrum) or known.accuracy.complete
    if step is not None and lr is not None:
        raise ValueError("step and lr are two names of one parameter: give one of them.")
    if momentum is not None and friction is not None:
        raise ValueError(
            "Give momentum or friction, not both: a constant momentum takes the place of friction."
        )
    options = {"step": step if lr is None else lr, "momentum": momentum, "friction": friction}
    chosen: Any = _configured(get_method(method), options)
    if loss == "cross-entropy":
        return plan_cross_entropy(X, y, chosen)
    if eigenvalues is None and not chosen.is_tuned:
        raise ValueError(
            'step="auto" needs a spectrum: give X and y, a spectrum, or the step as a number.'
        )
    penalty = best_penalty(known) if penalty is None else positive_number("penalty", penalty)
    descent = _configured(get_method("gradient-descent"), {"step": chosen.step})
    methods = [one for one in (chosen, descent, _safer(chosen)) if one is not None]
    runs = [planned_run(one, penalty, eigenvalues, complete=complete) for one in methods]
    planned = Plan(penalty, runs[0], runs[1], runs[2] if len(runs) > 2 else None)
    if batch_size is None:
        return planned
    if not isinstance(known, Spectrum) or not complete:
        raise ValueError(
            "batch_size needs the number of rows and every eigenvalue: give a dense X and y, or "
            "their spectrum."
        )
    return with_batches(planned, known.padded_eigenvalues, known.n_samples, batch_size)


def with_batches(planned: Plan, eigenvalues: ArrayLike, n_samples: float, batch_size: int) -> Plan:
    """Return the plan with the cost of random batches in every run, on this spectrum."""
    size = whole_number("batch_size", batch_size, least=1)
    s = np.asarray(eigenvalues, dtype=np.float64)
    # with coordinates of the signal of size one, the penalty λ = σ²/n is the best one
    source = SpectrumSource(s, np.ones(len(s)), 0.0, planned.penalty * n_samples, n_samples)

    def costed(run: PlannedRun | None) -> Any:
        return run and replace(run, batches=batch_cost(run, source, size))

    return Plan(planned.penalty, *map(costed, (planned.run, planned.descent, planned.safer)))


def _known(X: Any, y: Any, spectrum: Any) -> Spectrum | Array | None:
    """Return the spectrum of the data, or the given spectrum or eigenvalues."""
    if (X is None) != (y is None):
        raise ValueError("Give both X and y, or neither.")
    if X is not None and spectrum is not None:
        raise ValueError("Give either X and y or their spectrum.")
    if X is not None:
        return decompose(X, y)
    if spectrum is None or isinstance(spectrum, Spectrum):
        return spectrum
    return np.atleast_1d(nonnegative("spectrum", spectrum))


def _configured(method: Method, options: dict[str, Any]) -> Iteration:
    """Return the iteration with those of the options that are not None."""
    method = as_filter(method)
    if not isinstance(method, Iteration):
        raise ValueError(  # noqa: TRY004 - the method is legal elsewhere
            f'A plan counts iterations, and {method} has none: take "nesterov", "heavy-ball", '
            '"gradient-descent" or "nu-method".'
        )
    given = {name: value for name, value in options.items() if value is not None}
    wrong = given.keys() - {one.name for one in fields(method)}
    if wrong:
        raise ValueError(f"{method} has no {' and no '.join(sorted(wrong))}.")
    return replace(method, **given)


def _safer(method: Method) -> Nesterov | None:
    """Return Nesterov's method with friction 5: a much better guarantee for a few more steps."""
    if not isinstance(method, Nesterov) or method.momentum is not None or method.friction == 5:
        return None
    return replace(method, friction=5.0)
