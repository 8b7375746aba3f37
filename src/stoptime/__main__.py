"""The command ``stoptime``, which says in one line why it cannot start."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from stoptime.cli import run  # noqa: PLC0415 - typer and rich are an extra
    except ModuleNotFoundError as error:
        sys.exit(f'The command line needs {error.name}: pip install "stoptime[cli]".')
    except (
        ImportError,
        MemoryError,
        OSError,
    ) as error:  # as libraries that find no room to be mapped say it
        reason = " ".join(str(error).split()) or type(error).__name__
        sys.exit(
            f"stoptime could not load its libraries: {reason}; the memory limit may be too small."
        )
    run()


if __name__ == "__main__":
    main()
