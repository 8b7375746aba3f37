"""Whether a file can be read at once."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["available_memory", "fits_in_memory", "memory_needed"]

SHARE = 0.5  # of the free memory that a table may take
PARQUET_EXPANSION = 4  # columns are compressed, and a copy is made of them
TEXT_EXPANSION = 3  # a number takes about as many bytes as digits; it is copied, and text is larger
MEMORY_INFO = Path("/proc/meminfo")


def fits_in_memory(source: str | Path, wanted: bool | None = None) -> bool:
    """Tell whether a file is to be read at once: as wanted, or by its size and the free memory.

    Examples
    --------
    >>> fits_in_memory("diabetes")
    True
    """
    path = Path(source)
    if not path.is_file():
        return True
    if wanted is not None:
        return wanted
    return memory_needed(path) <= SHARE * available_memory()


def memory_needed(path: Path) -> int:
    """Return about how many bytes a table takes to be read and turned into a matrix."""
    expansion = (
        PARQUET_EXPANSION if path.suffix.lower() in {".parquet", ".pq", ".gz"} else TEXT_EXPANSION
    )
    return expansion * path.stat().st_size


def available_memory() -> int:
    """Return how many bytes can be had without swapping."""
    if MEMORY_INFO.exists():
        for line in MEMORY_INFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
