"""The command ``stoptime``: it reports in one line why it cannot start."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from stoptime.cli import run  # noqa: PLC0415 - typer and rich are an extra
    except ModuleNotFoundError as error:
        sys.exit(f'The command line needs {error.name}: pip install "stoptime[cli]".')
    # Libraries that cannot be mapped into memory raise any of these.
    except (ImportError, MemoryError, OSError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        advice = "the memory limit may be too small."
        sys.exit(f"stoptime could not load its libraries: {reason}; {advice}")
    except KeyboardInterrupt:
        sys.stderr.write("stoptime: interrupted; no file was left half written.\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
