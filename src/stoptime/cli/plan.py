"""``stoptime plan``: how many iterations to run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stoptime.cli.options import AsJson, checked_output
from stoptime.cli.terminal import print_json
from stoptime.support.files import atomic


def plan(
    penalty: Annotated[float, typer.Option(help="Ridge penalty λ that the run should match.")],
    step: Annotated[float, typer.Option("--step", "--lr", help="Step size, or learning rate.")],
    method: Annotated[
        str, typer.Option(help="gradient-descent, nesterov, heavy-ball or nu-method.")
    ] = "nesterov",
    momentum: Annotated[
        float | None, typer.Option(help="Constant momentum, as in torch.optim.SGD.")
    ] = None,
    friction: Annotated[
        float | None, typer.Option(help="Friction of Nesterov's method; 3 by default.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write a figure to this png, pdf or svg file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print how many iterations match a ridge penalty, and the risk that this guarantees.

    Example: stoptime plan --penalty 0.001 --lr 0.5
    """
    from stoptime.support import plots  # noqa: PLC0415 - starts faster
    from stoptime.theory.plan import plan as make_plan  # noqa: PLC0415 - starts faster

    checked_output(out, "--out")
    planned = make_plan(penalty, method=method, step=step, momentum=momentum, friction=friction)
    if out is not None:
        figure, ax = plots.new_figure()
        planned.plot(ax=ax)
        with atomic(out) as target:
            figure.savefig(target, dpi=150)
    if as_json:
        files = [out] if out else []
        print_json({"iterations": planned.iterations, "plan": planned, "files": files})
        return
    typer.echo(planned)
    if out is not None:
        typer.echo(f"wrote {out}")
