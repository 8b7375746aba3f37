"""The command ``stoptime``, which says what to install where its extra is missing."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from stoptime.cli import app  # noqa: PLC0415 - typer and rich are an extra
    except ModuleNotFoundError as error:
        sys.exit(f'The command line needs {error.name}: pip install "stoptime[cli]".')
    app(prog_name="stoptime")


if __name__ == "__main__":
    main()
