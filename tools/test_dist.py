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
SOURCE = ROOT / "src" / "stoptime"
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
        install(python, str(wheel))
        run(
            folder,
            python,
            "-c",
            "import stoptime; assert 'venv' in stoptime.__file__, stoptime.__file__",
        )
        check_missing_extra(folder)
        options = ["-o", "ELLIPSIS", "-o", "NORMALIZE_WHITESPACE"]
        run(folder, python, "-m", "doctest", *options, readme(folder))
        install(python, f"{wheel}[all]")
        write_table(folder / "data.csv")
        for command in (*NEED_FILES, *readme_commands()):
            run(folder, *shlex.split(command))
        check_types(folder, python)
    print(f"{wheel.name} and {sdist.name} work away from the source")


def only(pattern: str) -> Path:
    """Return the one file in ``dist`` with this ending."""
    found = list((ROOT / "dist").glob(pattern))
    if len(found) != 1:
        sys.exit(f"dist must hold one {pattern}, not {len(found)}: run make dist")
    return found[0]


def check_contents(wheel: Path, sdist: Path) -> None:
    """Fail if the wheel misses files of the package, or the sdist misses files of the tests."""
    package = {
        file.relative_to(SOURCE.parent).as_posix()
        for file in SOURCE.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = {name for name in archive.namelist() if ".dist-info/" not in name}
    if in_wheel != package:
        sys.exit(f"the wheel and the source differ by {sorted(in_wheel ^ package)}")
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    tests = {file.relative_to(ROOT).as_posix() for file in (ROOT / "tests").rglob("test_*.py")}
    wanted = (
        tests
        | {f"src/{name}" for name in package}
        | {"README.md", "LICENSE", "Makefile", "pyproject.toml"}
    )
    if not wanted <= in_sdist:
        sys.exit(f"the sdist lacks {sorted(wanted - in_sdist)}")


def check_missing_extra(folder: Path) -> None:
    """Without its extra the command must print one line that says what to install."""
    told = finished(folder, "stoptime", "--version")
    if (
        told.returncode != 1
        or 'pip install "stoptime[cli]"' not in told.stderr
        or "Traceback" in told.stderr
    ):
        sys.exit(f"stoptime without the extra cli ended with {told.returncode}:\n{told.stderr}")


def check_types(folder: Path, python: str) -> None:
    """Check that strict mypy finds the types of the installed package."""
    users = folder / "outside.py"
    users.write_text(
        (ROOT / "tests" / "typing" / "outside.py").read_text(encoding="utf-8"), encoding="utf-8"
    )
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, users.name]
    run(folder, *mypy)


def readme(folder: Path) -> str:
    """Copy the README into the folder and return its name."""
    copy = folder / "README.md"
    copy.write_text((ROOT / "README.md").read_text(encoding="utf-8"), encoding="utf-8")
    return copy.name


def write_table(target: Path) -> None:
    """Write the data.csv that the commands of the README use."""
    rows = [f"{i % 7},{i * 5 % 11},{2 * (i % 7) - i * 5 % 11 + i * 3 % 5}" for i in range(60)]
    target.write_text("\n".join(["size,age,price", *rows, ""]), encoding="utf-8")


def readme_commands() -> list[str]:
    """Return the commands in the text and in the code blocks of the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"(?:^|`)(stoptime [a-z][^`\n#]*)", text, re.MULTILINE)
    return list(dict.fromkeys(command.strip() for command in found))


def install(python: str, what: str) -> None:
    """Install into the empty environment."""
    subprocess.run([python, "-m", "pip", "install", "--quiet", what], check=True)


def run(folder: Path, *command: str) -> None:
    """Run a command; print its output only if it fails."""
    print("$", shlex.join(command), flush=True)
    done = finished(folder, *command)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\n{command[0]} ended with {done.returncode}")


def finished(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command with the environment first on the PATH and without the source tree."""
    path = f"{folder / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    variables = {key: one for key, one in os.environ.items() if key != "PYTHONPATH"} | {
        "PATH": path
    }
    return subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, check=False
    )


if __name__ == "__main__":
    main()
