"""Files that are written completely or not at all."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@contextmanager
def atomic(target: Path) -> Iterator[Path]:
    """Yield a temporary path; move it to ``target`` if the block succeeds, else remove it."""
    # the name is chosen before the file exists, so that every interrupt finds a name to remove
    temporary = target.with_name(f".{target.stem}-{secrets.token_hex(8)}{target.suffix}")
    try:
        temporary.touch(exist_ok=False)
        yield temporary
        temporary.replace(target)
    except OSError as error:
        if error.errno is None or Path(error.filename or temporary) != temporary:
            raise
        # the caller knows the name of the target only, and a full disk names no file
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        temporary.unlink(missing_ok=True)


def save_arrays(target: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays as one .npz file, without pickle and without compression."""
    with atomic(target) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)


def load_arrays(source: Path) -> dict[str, NDArray[Any]]:
    """Read a file of :func:`save_arrays`; raise a ValueError for any other file."""
    # a file that cannot be opened raises its own error, outside the try block
    with source.open("rb") as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except MemoryError:
            raise
        except Exception as error:  # a damaged file raises errors of NumPy, zipfile and zlib
            message = f"{source} is not a file of arrays written by stoptime: {error}"
            raise ValueError(message) from error
