"""Test the built distributions as users get them: in an empty environment, away from the source.

``make test-dist`` builds them and runs this script. The Python code of the README is run with the
wheel only. The commands of the README, and those that need data files of the package, are run with
the extras.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEED_FILES = (
    "stoptime --version",
    "stoptime fit diabetes --report diabetes.html",
    "stoptime explore --out page.html --no-open",
)


def main() -> None:
    """Run all checks on the files in ``dist``; the first failure ends the run."""
    wheel, sdist = only("*.whl"), only("*.tar.gz")
    check_contents(wheel, sdist)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        python = str(folder / "venv" / "bin" / "python")
        install = f"{python} -m pip install --quiet"
        run(folder, f"{install} {wheel}")
        where = run(folder, f"{python} -c 'import stoptime; print(stoptime.__file__)'").stdout
        if "venv" not in where:
            sys.exit(f"stoptime was imported from {where}")
        check_missing_extra(folder)
        run(folder, f"{python} -m doctest -o ELLIPSIS -o NORMALIZE_WHITESPACE {ROOT}/README.md")
        run(folder, f"{install} {wheel}[all]")
        write_table(folder / "data.csv")
        for command in (*NEED_FILES, *readme_commands()):
            run(folder, command)
        # strict mypy finds the types of the installed package
        users = ROOT / "tests" / "typing" / "outside.py"
        run(folder, f"{sys.executable} -m mypy --strict --python-executable {python} {users}")
    print(f"{wheel.name} and {sdist.name} work away from the source")


def only(pattern: str) -> Path:
    """Return the one file in ``dist`` with this ending."""
    found = list((ROOT / "dist").glob(pattern))
    if len(found) != 1:
        sys.exit(f"dist must hold one {pattern}, not {len(found)}: run make dist")
    return found[0]


def check_contents(wheel: Path, sdist: Path) -> None:
    """Fail if the wheel misses files of the package, or the sdist misses files of the tests."""
    package = files("src", "*")
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = {f"src/{name}" for name in archive.namelist() if ".dist-info/" not in name}
    if in_wheel != package:
        sys.exit(f"the wheel and the source differ by {sorted(in_wheel ^ package)}")
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    wanted = package | files("tests", "test_*.py")
    wanted |= {"README.md", "LICENSE", "Makefile", "pyproject.toml"}
    if not wanted <= in_sdist:
        sys.exit(f"the sdist lacks {sorted(wanted - in_sdist)}")


def files(folder: str, pattern: str) -> set[str]:
    """Return the names of the files in a folder of the repository."""
    found = (path for path in (ROOT / folder).rglob(pattern) if path.is_file())
    return {path.relative_to(ROOT).as_posix() for path in found if "__pycache__" not in path.parts}


def check_missing_extra(folder: Path) -> None:
    """Without its extra the command must print one line that says what to install."""
    told = run(folder, "stoptime --version", code=1)
    if 'pip install "stoptime[cli]"' not in told.stderr or "Traceback" in told.stderr:
        sys.exit(f"stoptime without the extra cli printed:\n{told.stderr}")


def write_table(target: Path) -> None:
    """Write the data.csv that the commands of the README use."""
    rows = [f"{i % 7},{i * 5 % 11},{2 * (i % 7) - i * 5 % 11 + i * 3 % 5}" for i in range(60)]
    target.write_text("\n".join(["size,age,price", *rows, ""]), encoding="utf-8")


def readme_commands() -> list[str]:
    """Return the commands in the text and in the code blocks of the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"(?:^|`)(stoptime [a-z][^`\n#]*)", text, re.MULTILINE)
    return list(dict.fromkeys(command.strip() for command in found))


def run(folder: Path, command: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command with the environment first on the PATH and without the source tree.

    Its output is printed only if it ends with another code.
    """
    print("$", command, flush=True)
    variables = {key: one for key, one in os.environ.items() if key != "PYTHONPATH"}
    variables["PATH"] = f"{folder / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        shlex.split(command), cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    if done.returncode != code:
        sys.exit(f"{done.stdout}{done.stderr}\n{command} ended with {done.returncode}")
    return done


if __name__ == "__main__":
    main()
