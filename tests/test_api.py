"""What users rely on: names, and a light import.

The public names are frozen in ``reference/api.txt``. Where a change is meant,
``python tests/test_api.py`` writes that file anew.
"""

import inspect
import json
import subprocess
import sys
from functools import reduce
from pathlib import Path

import stoptime

SNAPSHOT = Path(__file__).parent / "reference" / "api.txt"
MODULES = (
    "stoptime", "stoptime.bounds", "stoptime.schedules", "stoptime.stochastic", "stoptime.tables",
    "stoptime.report",
    "stoptime.explorer",
)  # fmt: skip
OPTIONAL = (
    "dask", "distributed", "flint", "matplotlib", "pandas", "playwright", "pyarrow", "rich",
    "torch", "typer",
    "zarr",
)  # fmt: skip


def members(thing):
    """Return the public names that a class has from this package."""
    own = [vars(base) for base in getattr(thing, "__mro__", ()) if "stoptime" in base.__module__]
    # the setters of an estimator are scikit-learn's
    return sorted({name for one in own for name in one if not name.startswith(("_", "set_"))})


def api():
    lines = []
    for module_name in MODULES:
        module = reduce(getattr, module_name.split(".")[1:], stoptime)
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.ismodule(thing):
                continue
            whole = f"{module_name}.{name}"
            lines.append(" ".join([whole, *members(thing)]) if inspect.isclass(thing) else whole)
    return "".join(f"{line}\n" for line in lines)


def test_public_names_are_frozen():
    assert api().splitlines() == SNAPSHOT.read_text(encoding="utf-8").splitlines(), (
        "the public API changed; where that is meant: python tests/test_api.py"
    )
    assert "set_params" not in api()


def printed(code):
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own code
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_import_brings_no_scientific_package_before_a_name_is_used():
    code = """
import json, sys, stoptime
heavy = {"numpy", "scipy", "sklearn"}
light = not heavy & set(sys.modules)
every = {*stoptime.__all__, "__version__", "explorer", "plots", "report", "tables"}
print(json.dumps([light, sorted(every - set(dir(stoptime))), hasattr(stoptime, "no_such_name")]))
"""
    assert printed(code) == [True, [], False]


def test_the_stub_says_what_a_star_imports():
    hidden = {"__version__", "explorer", "plots", "report", "tables"}
    assert set(stoptime.__all__) == stoptime._HOMES.keys() - hidden
    namespace = {}
    exec("from stoptime import *", namespace)  # noqa: S102 - our own
    assert namespace.keys() >= set(stoptime.__all__)


def test_import_does_without_the_extras():
    code = f"""
import json, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OPTIONAL}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
import stoptime, stoptime.bounds, stoptime.show.explorer
print(json.dumps(stoptime.get_method("ridge").name))
"""
    assert printed(code) == "ridge"


if __name__ == "__main__":
    SNAPSHOT.write_text(api(), encoding="utf-8")
