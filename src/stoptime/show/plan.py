"""How many iterations to run: plans, and how they are printed and drawn."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from stoptime.bounds.plan import PlannedRun, batch_cost, best_penalty, planned_run
from stoptime.logistic.lockstep import CrossEntropyPlan, iteration_of, plan_cross_entropy
from stoptime.methods.base import Method, as_filter
from stoptime.methods.iterations import Nesterov
from stoptime.methods.recurrence import Iteration
from stoptime.methods.registry import get_method
from stoptime.methods.schedules import Schedule
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.decompose import decompose
from stoptime.support.checks import nonnegative, positive_number, whole_number
from stoptime.support.wording import aligned, method_in_words, rounded_up
from stoptime.theory.calibration import possible_eigenvalues
from stoptime.theory.stochastic import SpectrumSource

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Plan:
    """How long to run a method to match ridge with a penalty, compared with other methods.

    ``run`` is the requested method, ``descent`` is gradient descent with the same step, or 1/L
    where it diverges with that, and ``safer`` is the same method with friction 5, if it has a
    friction other than 5. The loss of the run is ``loss_scale`` times ‖y - Xβ‖²/(2n); steps are
    printed as learning rates for that loss.
    """

    penalty: float
    run: PlannedRun
    descent: PlannedRun
    safer: PlannedRun | None
    loss_scale: float = 1.0

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

    def _name(self, run: PlannedRun) -> str:
        return method_in_words(run.method.in_units_of(1 / self.loss_scale), step="lr")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Estimate the largest ratio of each run at any iteration; a dot is where it stops."""
        from stoptime.show import plots  # noqa: PLC0415 - matplotlib is an extra

        ax = plots.new_figure()[1] if ax is None else ax
        for run in self._runs:
            last = 4 * run.iterations + 4
            k = np.unique(np.round(np.geomspace(max(1, last / 64), last, 100)))
            (line,) = ax.plot(
                k,
                run.largest_ratios(self.penalty, k),
                "--" if run is self.safer else "-",
                color=plots.COLORS.get(run.method.name),
                label=self._name(run),
            )
            ax.plot(run.iterations, run.inflation, "o", color=line.get_color())
        ax.set(xscale="log", xlabel="iterations", ylabel="largest risk over ridge risk")
        ax.set_ylim(1, 2 * max(run.inflation for run in self._runs))
        ax.legend()
        return ax

    def __str__(self) -> str:
        head = ["method", "iterations", "ridge penalty", "risk at most", "risk here", "error here"]
        batches = self.run.batches
        rows = [[*head, "speedup"]]
        if batches is not None:
            rows[0] += [f"batches of {batches.batch_size}", "their error", "enough"]
        for run in self._runs:
            here = (run.expected_inflation, run.expected_error)
            ratios = ["-" if one is None else f"{one:.3f} x" for one in here]
            sooner = f"{self.descent.iterations / max(run.iterations, 1):.1f} x"
            row = [self._name(run), str(run.iterations), f"{run.penalty:.3g}"]
            about = "" if run.proven else "about "
            row += [f"{about}{rounded_up(run.inflation)} x", *ratios, sooner]
            if run.batches is not None:
                row += [f"{run.batches.cost:.3g} x", f"{run.batches.error:.3g} x"]
                row.append(str(run.batches.enough or "all rows"))
            rows.append(row)
        lines = [f"Equivalent to ridge with penalty {self.penalty:.4g}:", aligned(rows)]
        return "\n".join([*lines, *self._notes()])

    def _notes(self) -> list[str]:
        """Say what the columns mean, and what the plan could not do."""
        notes = []
        for run in self._runs:
            step = run.method.step
            if isinstance(step, Schedule) and run.iterations >= step.length:
                notes.append(
                    f"{run.method.name}: the schedule ends too early, after {run.iterations} "
                    f"iterations, like a penalty of {run.penalty:.3g}: plan a longer one"
                )
        searched = [self._name(run) for run in self._runs if not run.proven]
        if searched:
            notes.append(
                f"risk at most: an estimate by a search, not proven for {', '.join(searched)}"
            )
        if self.run.expected_error is not None:
            notes += [
                "risk: squared error of coefficients, error: of predictions with noise, over ridge",
                "by left-out rows instead: st.leave_one_out(X, y, st.from_torch(optimizer), stops)",
            ]
        if self.run.batches is not None:
            notes.append(
                f"batches of {self.run.batches.batch_size}: risk and error over those of the full "
                "gradient; enough: this batch size adds at most 1 % to the risk"
            )
        return notes


class _Options(TypedDict, total=False):
    """Parameters of a plan for any loss, for type checkers."""

    X: Any
    y: Any
    spectrum: Any
    method: str | Method
    step: float | str | None
    lr: float | str | None
    momentum: float | None
    friction: float | None
    batch_size: int | None


@overload
def plan(
    penalty: float | None = None,
    *,
    loss: Literal["squared", "mse"] = ...,
    **options: Unpack[_Options],
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
    loss: Literal["squared", "mse", "cross-entropy"] = "squared",
) -> Plan | CrossEntropyPlan:
    r"""Plan a run: when to stop, the equivalent ridge penalty, its risk at most, and time saved.

    .. math:: k = \arg\min_k \max_{0 \le s \le L} \frac{R_k(s)}{R_\mathrm{ridge}(s)}

    with R the Bayes risk in a direction of eigenvalue s, under the prior for which the penalty is
    the best one. The plan says which guarantees are proven, and which come from a search.

    Parameters
    ----------
    penalty : float, optional
        The λ of ‖y - Xβ‖²/(2n) + (λ/2)‖β‖²; by default the one of greatest marginal likelihood.
    X, y, spectrum : array-like, or Spectrum, optional
        Data, or their spectrum or eigenvalues, but eigenvalues alone give no penalty.
    method : Iteration or str, default="nesterov"
        The method to run, for example :func:`stoptime.from_torch` of an optimiser.
    step, lr : float or "auto", optional
        The step; ``lr`` is torch's name for it. The default is that of the method, or 1/L.
    momentum, friction : float, optional
        A constant momentum, for "nesterov" and "heavy-ball"; the friction of "nesterov".
    batch_size : int, optional
        Rows of the random batches on which the run takes its gradients: the plan then says what
        they cost. It needs X and y, or their spectrum.
    loss : {"squared", "mse", "cross-entropy"}, default="squared"
        The loss of the run: ‖y - Xβ‖²/(2n), or ``torch.nn.MSELoss()``, which is 2/q of it for q
        outputs and changes step and weight decay accordingly; the optimiser is then read without a
        ``loss_scale``. With "cross-entropy" y are labels,
        and the run is that of ``torch.nn.Linear`` from zero: it is made, by five folds in lockstep,
        and stops where held-out rows have the least log loss. For one output and
        ``BCEWithLogitsLoss`` read the optimiser with ``loss_scale=0.5``.

    Returns
    -------
    Plan or CrossEntropyPlan
        Both say when to stop as ``iterations``.

    Examples
    --------
    >>> planned = plan(0.01, step=1.0)
    >>> planned.iterations, round(planned.speedup, 1), planned.safer.iterations
    (13, 3.5, 17)
    """
    if loss not in {"squared", "mse", "cross-entropy"}:
        raise ValueError(f'loss must be "squared", "mse" or "cross-entropy"; got {loss!r}.')
    given = get_method(method)
    if loss == "cross-entropy":
        iteration_of(given)  # raises where it cannot be run step by step
        if X is None or y is None or {penalty, batch_size} != {None}:
            raise ValueError(
                "A plan for cross-entropy needs X, and labels as y; penalty and batch_size belong "
                "to a plan for the squared loss."
            )
        return plan_cross_entropy(X, y, _configured(given, step, lr, momentum, friction))
    chosen: Any = _configured(given, step, lr, momentum, friction)
    known = _known(X, y, spectrum)
    eigenvalues = possible_eigenvalues(known) if isinstance(known, Spectrum) else known
    complete = not isinstance(known, Spectrum) or known.accuracy.complete
    data = known if isinstance(known, Spectrum) and complete else None
    n_samples = None if data is None else data.n_samples
    scale = _loss_scale(known) if loss == "mse" else 1.0
    chosen = chosen.in_units_of(scale) if chosen.is_tuned else chosen
    if eigenvalues is None and not chosen.is_tuned:
        raise ValueError(
            'step="auto" needs a spectrum: give X and y, a spectrum, or the step as a number.'
        )
    penalty = best_penalty(known) if penalty is None else positive_number("penalty", penalty)

    def made(one: Iteration) -> PlannedRun:
        return planned_run(one, penalty, eigenvalues, complete=complete, n_samples=n_samples)

    run = made(chosen)
    descent = _configured(get_method("gradient-descent"), chosen.step)
    try:
        descent.tuned_to([] if eigenvalues is None else eigenvalues)
    except ValueError:  # with momentum longer steps converge than without
        descent = _configured(descent, "auto")
    # Nesterov's method with friction 5 has a much better guarantee for a few more steps.
    is_risky = isinstance(chosen, Nesterov) and chosen.momentum is None and chosen.friction != 5
    safer = made(replace(chosen, friction=5.0)) if is_risky else None
    planned = Plan(penalty, run, made(descent), safer, scale)
    if batch_size is None:
        return planned
    if data is None:
        raise ValueError(
            "batch_size needs the number of rows and every eigenvalue: give a dense X and y, or "
            "their spectrum."
        )
    return with_batches(planned, data.padded_eigenvalues, data.n_samples, batch_size)


def with_batches(planned: Plan, eigenvalues: ArrayLike, n_samples: float, batch_size: int) -> Plan:
    """Return the plan with the cost of random batches in every run, on this spectrum."""
    size = whole_number("batch_size", batch_size, least=1)
    s = np.asarray(eigenvalues, dtype=np.float64)
    # with coordinates of the signal of size one, the penalty λ = σ²/n is the best one
    source = SpectrumSource(s, np.ones(len(s)), planned.penalty * n_samples, n_samples)

    def costed(run: PlannedRun | None) -> Any:
        return run and replace(run, batches=batch_cost(run, source, size))

    runs = {name: costed(getattr(planned, name)) for name in ("run", "descent", "safer")}
    return replace(planned, **runs)


def _loss_scale(known: Any) -> float:
    """Return ``torch.nn.MSELoss()``, a mean over rows and outputs, over half the mean square."""
    if not isinstance(known, Spectrum):
        raise ValueError(  # noqa: TRY004 - a value is missing
            'loss="mse" needs the number of outputs: give X and y, or their spectrum.'
        )
    return 2.0 / (1 if known.response.ndim == 1 else known.response.shape[1])


def _known(X: Any, y: Any, spectrum: Any) -> Any:
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


def _configured(
    method: Method, step: Any, lr: Any = None, momentum: Any = None, friction: Any = None
) -> Iteration:
    """Return the iteration with those of the options that are not None."""
    method = as_filter(method)
    if not isinstance(method, Iteration):
        raise ValueError(  # noqa: TRY004 - the method is legal elsewhere
            f'A plan counts iterations, and {method} has none: take "nesterov", "heavy-ball", '
            '"gradient-descent" or "nu-method".'
        )
    if step is not None and lr is not None:
        raise ValueError("step and lr are two names of one parameter: give one of them.")
    if momentum is not None and friction is not None:
        raise ValueError("A constant momentum takes the place of friction: give one of them.")
    options = {"step": step if lr is None else lr, "momentum": momentum, "friction": friction}
    given = {name: value for name, value in options.items() if value is not None}
    wrong = given.keys() - {one.name for one in fields(method)}
    if wrong:
        raise ValueError(f"{method} has no {' and no '.join(sorted(wrong))}.")
    return replace(method, **given)
