"""Run the tests on every supported Python with the lowest and with the newest dependencies.

``make test-matrix`` runs everything. To run a part, use for example ``python tools/test_matrix.py
--python 3.12 --versions lowest tests/methods``. A missing interpreter counts as a failure.
Environments are kept in ``.matrix``; models fitted in any of them are read in all others.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = ROOT / ".matrix"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
VERSIONS = ("lowest", "newest")
TOOLS = ("pytest", "hypothesis", "mpmath")  # always the newest: users do not install them
REQUIREMENT = re.compile(r"(?P<name>[\w-]+)(\[[\w,]+\])?>=(?P<version>[\d.]+)")


def main() -> None:
    """Run the requested tests; the exit code is the number of failures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", choices=PYTHONS, action="append", help="all by default")
    parser.add_argument("--versions", choices=VERSIONS, action="append", help="both by default")
    parser.add_argument(
        "tests", nargs="*", help="files and options for pytest; all tests by default"
    )
    wanted, options = parser.parse_known_args()
    verdicts = {
        f"Python {python}, {versions}": tried(python, versions, [*wanted.tests, *options])
        for python, versions in product(wanted.python or PYTHONS, wanted.versions or VERSIONS)
    }
    verdicts["models between environments"] = exchanged()
    for case, verdict in verdicts.items():
        print(f"{case}: {verdict}")
    sys.exit(sum(verdict != "passed" for verdict in verdicts.values()))


def tried(python: str, versions: str, tests: list[str]) -> str:
    """Return the result of the tests on one Python with one choice of dependencies."""
    interpreter = found(python)
    if interpreter is None:
        return "no such interpreter: put it on the PATH or install it with pyenv"
    environment = ENVIRONMENTS / f"{python}-{versions}"
    shutil.rmtree(environment, ignore_errors=True)
    print(f"=== Python {python}, {versions} dependencies", flush=True)
    subprocess.run([interpreter, "-m", "venv", environment], check=True)
    own_python = str(environment / "bin" / "python")
    pip = [own_python, "-m", "pip"]
    subprocess.run([*pip, "install", "--quiet", "--upgrade", "pip"], check=True)
    pins = [] if versions == "newest" else list(lowest(pip))
    constraints = environment / "constraints.txt"
    constraints.write_text("".join(f"{pin}\n" for pin in pins))
    install = [*pip, "install", "--quiet", "--constraint", str(constraints)]
    install += ["--editable", ".[all]", *TOOLS]
    if subprocess.run(install, cwd=ROOT, check=False).returncode:
        return "dependencies cannot be installed together"
    # Old releases warn about newer versions of their own dependencies; ignore these warnings.
    quiet = ["-W", "ignore::DeprecationWarning"] if versions == "lowest" else []
    pytest = [own_python, "-m", "pytest", "-q", *quiet, *tests]
    run = subprocess.run(pytest, cwd=ROOT, check=False)
    return "failed" if run.returncode else "passed"


def exchanged() -> str:
    """Return whether models written in one environment are the same in every other."""
    script, folder = str(ROOT / "tools" / "exchange.py"), ENVIRONMENTS / "models"
    pythons = {
        path.parents[1].name: str(path) for path in sorted(ENVIRONMENTS.glob("*/bin/python"))
    }
    shutil.rmtree(folder, ignore_errors=True)
    failed = []
    for writer, python in pythons.items():
        if subprocess.run(
            [python, script, "write", folder / writer], cwd=ROOT, check=False
        ).returncode:
            failed.append(f"written by {writer}")
            continue
        for reader, other in pythons.items():
            if subprocess.run(
                [other, script, "read", folder / writer], cwd=ROOT, check=False
            ).returncode:
                failed.append(f"from {writer} to {reader}")
    return f"failed {', '.join(failed)}" if failed else "passed"


def found(python: str) -> str | None:
    """Return the path of a working interpreter, from the PATH or from pyenv."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [
        shutil.which(f"python{python}"),
        *map(str, versions.glob(f"{python}.*/bin/python")),
    ]
    for candidate in filter(None, candidates):
        # A shim of pyenv is on the PATH even if this version is not activated.
        if (
            subprocess.run(
                [candidate, "-c", "import venv"], capture_output=True, check=False
            ).returncode
            == 0
        ):
            return candidate
    return None


def lowest(pip: list[str]) -> Iterator[str]:
    """Yield a pin of every dependency to its lowest release with a wheel for this Python."""
    for name, version in sorted(lower_bounds().items()):
        for series in (version, *later(pip, name, version)):
            pin = f"{name}=={series}.*"
            trial = [*pip, "install", "--dry-run", "--no-deps", "--only-binary=:all:", pin]
            if subprocess.run(trial, capture_output=True, check=False).returncode == 0:
                yield pin
                break
        else:
            raise RuntimeError(
                f"no release of {name} from {version} on has a wheel for this Python."
            )


def lower_bounds() -> dict[str, str]:
    """Return the lowest version in pyproject.toml of every dependency of users."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    return dict(
        _bounds([project["dependencies"], *(extras[name] for name in _members(extras["all"]))])
    )


def _members(requirements: list[str]) -> list[str]:
    """Return the extras in the brackets of ``stoptime[...]``."""
    return re.findall(r"[\w-]+", requirements[0].partition("[")[2])


def _bounds(groups: Iterable[list[str]]) -> Iterator[tuple[str, str]]:
    for requirement in (one for group in groups for one in group):
        match = REQUIREMENT.fullmatch(requirement)
        if match is None:
            raise ValueError(f"cannot read {requirement!r} in pyproject.toml: write name>=version.")
        yield match["name"], match["version"]


def later(pip: list[str], name: str, version: str) -> list[str]:
    """Return the release series after a version, such as 2.1, in increasing order."""
    told = subprocess.run(
        [*pip, "index", "versions", name], capture_output=True, text=True, check=True
    ).stdout
    line = next(line for line in told.splitlines() if line.startswith("Available versions:"))
    words = line.removeprefix("Available versions:").replace(",", " ").split()
    # Pre-releases have letters in their number and are skipped.
    numbers = {_number(word)[:2] for word in words if re.fullmatch(r"[\d.]+", word)}
    return [".".join(map(str, number)) for number in sorted(numbers) if number > _number(version)]


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


if __name__ == "__main__":
    main()
