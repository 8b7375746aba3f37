"""``stoptime plan``, ``stoptime bounds`` and ``stoptime reproduce``: theory and paper."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from stoptime.cli.options import AsJson, checked_output
from stoptime.cli.terminal import bar, print_json
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


def bounds(as_json: AsJson = False) -> None:
    """Prove every constant of the paper, and print it beside the value in the paper.

    Example: stoptime bounds
    """
    from stoptime.bounds import statements, table  # noqa: PLC0415 - needs python-flint

    with bar(len(statements())) as advance:
        proven = table(progress=advance)
    if not as_json:
        typer.echo(proven)
        return
    rows = [
        {"statement": row.statement, "paper": row.paper, "verdict": row.verdict}
        | vars(row.certified)
        for row in proven.rows
    ]
    print_json({"bounds": rows})


def reproduce(
    out: Annotated[
        Path, typer.Option(help="Folder for the figures, tables and summary.md.")
    ] = Path("reproduction"),
    certify: Annotated[
        bool | None,
        typer.Option(help="Prove the constants; by default if python-flint is installed."),
    ] = None,
    dark: Annotated[
        bool, typer.Option("--dark", help="Also draw every figure for dark pages.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run the experiments of the paper: figures, the numbers behind them, and its constants.

    Example: stoptime reproduce --out figures
    """
    from stoptime.paper import reproduction  # noqa: PLC0415 - needs matplotlib

    certify = find_spec("flint") is not None if certify is None else certify
    with bar(len(reproduction.steps(certify))) as advance:
        files = reproduction.reproduce(out, certify=certify, dark=dark, progress=advance)
    if as_json:
        print_json({"certified": certify, "files": files})
        return
    Console().print(Markdown(files[-1].read_text(encoding="utf-8")))
    typer.echo(f"\n{len(files)} files in {out}; look at {out / 'stability_polynomial.png'}")
