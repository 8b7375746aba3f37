"""Files that are written completely or not at all."""

from __future__ import annotations

import math
import secrets
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

BROKEN = (zipfile.BadZipFile, EOFError, KeyError, OSError, RuntimeError, SyntaxError, ValueError)
"""Errors of reading a damaged archive; OSError comes from offsets that lie outside the file."""


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


def save_arrays(target: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays as one .npz file, without pickle and without compression."""
    # np.savez before NumPy 2.0 leaves the archive open on a full disk
    with atomic(target) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                npy.write_array(file, np.asarray(array), allow_pickle=False)


def load_arrays(source: Path) -> dict[str, NDArray[Any]]:
    """Read a file of :func:`save_arrays`; raise a ValueError for any other file."""
    # nothing is unpickled or decompressed, so that reading needs no more memory than the file
    # a file that cannot be opened raises its own error, outside the try block
    with source.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
                return {one.filename.removesuffix(".npy"): _read(archive, one) for one in entries}
        except BROKEN as error:
            message = f"{source} is not a file of arrays written by stoptime: {error}"
            raise ValueError(message) from error


def _read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> NDArray[Any]:
    """Read one array, after checking that it is as long as its header says."""
    if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
        raise ValueError(f"{entry.filename} is compressed.")
    with archive.open(entry) as file:
        version = npy.read_magic(file)
        if version != (1, 0):
            raise ValueError(f"{entry.filename} has the unknown version {version}.")
        shape, _, dtype = npy.read_array_header_1_0(file)
        size = math.prod(shape) * dtype.itemsize
        if dtype.hasobject or min(shape, default=0) < 0 or size != entry.file_size - file.tell():
            raise ValueError(f"{entry.filename} does not hold the array that its header describes.")
    with archive.open(entry) as file:
        return np.asarray(npy.read_array(file, allow_pickle=False))
