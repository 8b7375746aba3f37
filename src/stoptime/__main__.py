"""The command ``stoptime``: it reports in one line why it cannot start."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from stoptime.cli import run  # noqa: PLC0415 - typer and rich are an extra
    except ModuleNotFoundError as error:
        sys.exit(f'The command line needs {error.name}: pip install "stoptime[cli]".')
    except KeyboardInterrupt:
        sys.stderr.write("stoptime: interrupted; no file was left half written.\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
