"""The command line: thin commands over the functions of the library."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from stoptime import __version__
from stoptime.files import atomic

__all__ = ["app"]

app = typer.Typer(
    help="Least squares fitted by momentum and stopped early: what stopping did, and when to stop.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of every command."""


@app.command()
def reproduce(
    out: Annotated[Path, typer.Option(help="Folder for the figures, tables and summary.md.")] = Path(
        "reproduction"
    ),
    certify: Annotated[
        bool | None,
        typer.Option(help="Prove the constants; by default where the extra 'certify' is installed."),
    ] = None,
) -> None:
    """Run the paper's experiments: four figures, the numbers behind them, and a table of constants.

    Example: stoptime reproduce --out figures
    """
    from stoptime import reproduction  # noqa: PLC0415 - matplotlib only when needed

    certify = find_spec("flint") is not None if certify is None else certify
    with _progress(len(reproduction.steps(certify))) as advance:
        files = reproduction.reproduce(out, certify=certify, progress=advance)
    Console().print(Markdown(files[-1].read_text(encoding="utf-8")))
    typer.echo(f"\n{len(files)} files in {out}; look at {out / 'stability_polynomial.png'}")


@app.command()
def bounds() -> None:
    """Prove every constant of the paper and print it beside the paper's own.

    Example: stoptime bounds
    """
    from stoptime.bounds import statements, table  # noqa: PLC0415 - python-flint only when needed

    with _progress(len(statements())) as advance:
        proven = table(progress=advance)
    typer.echo(proven)


@app.command()
def plan(
    penalty: Annotated[float, typer.Option(help="Ridge penalty λ that the run should be like.")],
    step: Annotated[float, typer.Option("--step", "--lr", help="Step size; --lr in torch's language.")],
    method: Annotated[
        str, typer.Option(help="gradient-descent, nesterov, heavy-ball or nu-method.")
    ] = "nesterov",
    momentum: Annotated[float | None, typer.Option(help="Constant momentum, as in torch.optim.SGD.")] = None,
    friction: Annotated[
        float | None, typer.Option(help="Friction of Nesterov's method; 3 by default.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Picture to write, by its ending: png, pdf or svg.")
    ] = None,
) -> None:
    """Tell how many iterations to run, what ridge that is like, and what it guarantees.

    Example: stoptime plan --penalty 0.001 --lr 0.5
    """
    from stoptime import plots  # noqa: PLC0415 - fast to start
    from stoptime.planning import plan as make_plan  # noqa: PLC0415 - fast to start

    planned = make_plan(penalty, method=method, step=step, momentum=momentum, friction=friction)
    typer.echo(planned)
    if out is not None:
        figure, ax = plots.new_figure()
        planned.plot(ax=ax)
        with atomic(out) as target:
            figure.savefig(target, dpi=150)
        typer.echo(f"wrote {out}")


@app.command()
def explore(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("explorer.html"),
    show: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in the browser; never without a terminal.")
    ] = True,
) -> None:
    """Write a page that shows bias, variance and risk of every method as settings move; it works offline.

    Example: stoptime explore --out explorer.html
    """
    from stoptime import explorer  # noqa: PLC0415 - fast to start

    page = explorer.write(out)
    typer.echo(f"wrote {page}")
    if show and sys.stdout.isatty():
        webbrowser.open(page.resolve().as_uri())


@contextmanager
def _progress(steps: int) -> Iterator[Callable[[str], None]]:
    """Show a bar on a terminal, and nothing elsewhere; yields what is to be called before each step."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=steps, completed=-1)

        def advance(name: str) -> None:
            bar.update(task, advance=1, description=name)

        yield advance
