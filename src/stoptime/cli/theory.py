"""The commands on theory and paper: ``plan``, ``bounds``, ``reproduce`` and ``explore``."""

from __future__ import annotations

import sys
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from stoptime.cli.terminal import AsJson, Force, bad, check_output, parsed, print_json
from stoptime.cli.terminal import step as told

Number = float | None
HELP_ITERATION = (
    "gradient-descent, nesterov, heavy-ball, nu-method, or a call such as "
    '"Averaged(HeavyBall(0.5, 0.9))".'
)
HELP_STEP = "Step size, or learning rate; it may also stand in the call of --method."
HELP_BATCH = "Rows of a random batch; needs --rows and --features. Columns: independent, of size 1."
HELP_FOLDER = "Folder for the figures, tables and summary.md."
HELP_CERTIFY = "Prove the constants; by default if python-flint is installed."
HELP_OPEN = "Open the page in a browser, on a terminal."


def plan(  # noqa: PLR0913, PLR0917 - one for each option
    penalty: Annotated[float, Option(help="Ridge penalty λ that the run should match.")],
    step: Annotated[Number, Option("--step", "--lr", help=HELP_STEP)] = None,
    method: Annotated[str, Option(help=HELP_ITERATION)] = "nesterov",
    momentum: Annotated[Number, Option(help="Constant momentum, as in torch.optim.SGD.")] = None,
    friction: Annotated[Number, Option(help="Friction of Nesterov's method; 3 by default.")] = None,
    batch_size: Annotated[int | None, Option(help=HELP_BATCH)] = None,
    rows: Annotated[int | None, Option(help="Rows of the data, for --batch-size.")] = None,
    features: Annotated[int | None, Option(help="Features of the data, for --batch-size.")] = None,
    out: Annotated[Path | None, Option(help="Write a figure to this png, pdf or svg file.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Print how many iterations match a ridge penalty, and the risk that this guarantees.

    Example: stoptime plan --penalty 0.001 --lr 0.5
    """
    from stoptime.bounds.plan import isotropic_eigenvalues  # noqa: PLC0415
    from stoptime.show import plots  # noqa: PLC0415 - starts faster
    from stoptime.show.plan import plan as make_plan  # noqa: PLC0415
    from stoptime.show.plan import with_batches  # noqa: PLC0415
    from stoptime.support.checks import whole_number  # noqa: PLC0415
    from stoptime.support.files import atomic  # noqa: PLC0415

    check_output(out, "--out", (".png", ".pdf", ".svg"), force=force)
    chosen = parsed("--method", method)
    planned = make_plan(penalty, method=chosen, step=step, momentum=momentum, friction=friction)
    if batch_size is not None:
        if rows is None or features is None:
            raise ValueError("--batch-size needs --rows and --features, the shape of the data.")
        n = whole_number("--rows", rows, least=1)
        s = isotropic_eigenvalues(n, whole_number("--features", features, least=1))
        planned = with_batches(planned, s, n, batch_size)
    if out is not None:
        figure, ax = plots.new_figure()
        planned.plot(ax=ax)
        with atomic(out) as target:
            figure.savefig(target, dpi=150)
    if as_json:
        print_json({"iterations": planned.iterations, "plan": planned, "file": out})
        return
    typer.echo(planned)
    if out is not None:
        typer.echo(f"wrote {out}")


def bounds(as_json: AsJson = False) -> None:
    """Prove the constants of the paper, and print them beside those in print.

    The best stop of each spectrum is what the theorems are about; one stop
    for all spectra is what a plan can promise before it sees the data.

    Example: stoptime bounds
    """
    from stoptime.bounds import table  # noqa: PLC0415 - needs python-flint

    proven = table(progress=told)
    if not as_json:
        typer.echo(proven)
        return
    names = ("statement", "paper", "verdict")
    rows = [
        {name: getattr(row, name) for name in names} | vars(row.certified) for row in proven.rows
    ]
    print_json({"bounds": rows})


def reproduce(
    out: Annotated[Path, Option(help=HELP_FOLDER)] = Path("reproduction"),
    certify: Annotated[bool | None, Option(help=HELP_CERTIFY)] = None,
    dark: Annotated[bool, Option("--dark", help="Also draw every figure for dark pages.")] = False,
) -> None:
    """Run the experiments of the paper: figures, the numbers behind them, and its constants.

    Example: stoptime reproduce --out figures
    """
    from rich.console import Console  # noqa: PLC0415 - starts faster
    from rich.markdown import Markdown  # noqa: PLC0415

    from stoptime.paper import reproduction  # noqa: PLC0415 - needs matplotlib

    if out.is_file():
        raise bad("--out", f"{out} is a file: give a folder.")
    certify = find_spec("flint") is not None if certify is None else certify
    files = reproduction.reproduce(out, certify=certify, dark=dark, progress=told)
    Console().print(Markdown(files[-1].read_text(encoding="utf-8")))
    typer.echo(f"\n{len(files)} files in {out}; look at {out / 'stability_polynomial.png'}")


def explore(
    out: Annotated[Path, Option(help="The page to write.")] = Path("explorer.html"),
    show: Annotated[bool, Option("--open/--no-open", help=HELP_OPEN)] = True,
    force: Force = False,
) -> None:
    """Write an interactive page on bias, variance and risk of every method; it works offline.

    Example: stoptime explore --out explorer.html
    """
    from stoptime.show import explorer  # noqa: PLC0415 - starts faster

    check_output(out, "--out", (".html", ".htm"), force=force)
    page = explorer.write(out)
    typer.echo(f"wrote {page}")
    if show and sys.stdout.isatty():
        webbrowser.open(page.resolve().as_uri())
