"""What users rely on: names, signatures, docstrings, types, and a light import.

The public names and signatures are frozen in ``reference/api.txt``. Where a change is meant,
``python tests/test_api.py`` writes that file anew.
"""

import ast
import inspect
import json
import subprocess
import sys
from functools import cached_property, reduce
from pathlib import Path
from typing import get_overloads

import stoptime

SNAPSHOT = Path(__file__).parent / "reference" / "api.txt"
SOURCE = Path(stoptime.__file__).parent
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
OWN_PARTS_OF_SKLEARN = (
    "sklearn.base", "sklearn.dummy", "sklearn.linear_model", "sklearn.metrics",
    "sklearn.model_selection",
    "sklearn.utils.validation",
)  # fmt: skip


class Written:
    """An annotation as it stands in the source, whatever the version of Python makes of it."""

    def __init__(self, annotation):
        annotation = getattr(annotation, "__forward_arg__", annotation)
        self.text = (
            annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
        )

    def __repr__(self):
        return self.text


def written(annotation):
    return annotation if annotation is inspect.Parameter.empty else Written(annotation)


def signature(function):
    found = inspect.signature(function)
    parameters = [
        one.replace(annotation=written(one.annotation)) for one in found.parameters.values()
    ]
    return str(
        found.replace(parameters=parameters, return_annotation=written(found.return_annotation))
    )


def described(name, thing):
    """Return one line for each public name that a thing has."""
    if inspect.isclass(thing):
        head = [f"class {name}{'' if issubclass(thing, Exception) else signature(thing)}"]
        return head + [
            line for key, one in own_members(thing) for line in described(f"{name}.{key}", one)
        ]
    if isinstance(thing, classmethod | staticmethod):
        return [f"{type(thing).__name__} {name}{signature(thing.__func__)}"]
    if isinstance(thing, property | cached_property):
        getter = thing.fget if isinstance(thing, property) else thing.func
        return [name + signature(getter).partition(")")[2]]
    thing = inspect.unwrap(thing)  # a method that only some subclasses have
    if callable(thing):
        return [name + signature(one) for one in get_overloads(thing) or [thing]]
    return [
        f"{name} = {{{', '.join(thing)}}}" if isinstance(thing, dict) else f"{name} = {thing!r}"
    ]


def own_members(cls):
    """Return the public members that a class has from this package.

    Fields are in its signature, and the setters of an estimator are scikit-learn's.
    """
    members, fields = (
        {},
        inspect.signature(cls).parameters if not issubclass(cls, Exception) else (),
    )
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("stoptime"):
            members |= {
                key: one for key, one in vars(base).items() if not key.startswith(("_", "set_"))
            }
    return sorted((key, one) for key, one in members.items() if key not in fields)


def public_names():
    for module_name in MODULES:
        module = reduce(getattr, module_name.split(".")[1:], stoptime)
        for name in module.__all__:
            if not inspect.ismodule(getattr(module, name)):
                yield f"{module_name}.{name}", getattr(module, name)


def api():
    return "".join(f"{line}\n" for name, thing in public_names() for line in described(name, thing))


def test_names_and_signatures_are_frozen():
    assert api().splitlines() == SNAPSHOT.read_text(encoding="utf-8").splitlines(), (
        "the public API changed; where that is meant: python tests/test_api.py"
    )


def test_api_of_a_class_holds_what_it_inherits_from_this_package_alone():
    lines = described("Flow", stoptime.GradientFlow)
    assert lines[0] == "class Flow() -> None"
    assert any(line.startswith("Flow.gain(self, ") for line in lines)
    assert not any("set_params" in line for line in described("Model", stoptime.StoppedRegressor))


def undocumented(tree, name):
    """Yield what has a public name and no docstring, by its path in the source."""
    overload = any(ast.unparse(one) == "overload" for one in getattr(tree, "decorator_list", ()))
    if ast.get_docstring(tree) is None and not overload:
        yield name
    for node in ast.iter_child_nodes(tree):
        named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if named and not node.name.startswith("_") and not isinstance(tree, ast.FunctionDef):
            yield from undocumented(node, f"{name}.{node.name}")


def test_every_public_name_has_a_docstring():
    files = sorted(SOURCE.rglob("*.py"))
    assert len(files) > 50
    missing = [
        name
        for file in files
        for name in undocumented(
            ast.parse(file.read_text(encoding="utf-8")), str(file.relative_to(SOURCE.parent))
        )
    ]
    assert not missing


def test_a_missing_docstring_is_seen():
    source = (
        '"""m"""\nclass A:\n  """a"""\n  def b(self): pass\n  def _c(self): pass\ndef d(): pass\n'
    )
    assert list(undocumented(ast.parse(source), "m")) == ["m.A.b", "m.d"]


def printed(code):
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own code
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_import_brings_nothing_that_scikit_learn_does_not_bring():
    code = f"""
import json, sys, {", ".join(OWN_PARTS_OF_SKLEARN)}
before = set(sys.modules)
import stoptime
packages = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(json.dumps(sorted(packages & {set(OPTIONAL)})))
"""
    assert printed(code) == []


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
