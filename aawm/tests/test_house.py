"""The house rules: a room opens with an overview, an example follows what it offers, arguments have types, imports run downwards."""

import ast
import functools
import importlib
import json
import re
import runpy
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE, NBS = ROOT / "aawm", ROOT / "nbs"
WINGS = ("infant", "marple")
NOTEBOOKS = sorted(path for path in NBS.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)


@functools.cache
def cells_of(path: Path) -> list:
    return [
        (cell["cell_type"], "".join(cell["source"]))
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
    ]


def is_exported(source: str) -> bool:
    return re.match(r"#\|\s*export", source) is not None


LIBRARY = [path for path in NOTEBOOKS if any("#| default_exp" in source for _, source in cells_of(path))]


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = [
    path
    for path in sorted(PACKAGE.rglob("*.py"))
    if "tests" not in path.relative_to(PACKAGE).parts and path.name != "_modidx.py"
]


@pytest.fixture(scope="module")
def modules() -> dict:
    "Every module of the library by its name, tests apart, as a syntax tree: nothing is imported."
    return {module_name(path): ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


def assigned(tree: ast.Module) -> dict:
    "The top-level assignments of a module: name -> value."
    pairs = [(node.targets, node.value) for node in tree.body if isinstance(node, ast.Assign)]
    pairs += [([node.target], node.value) for node in tree.body if isinstance(node, ast.AnnAssign)]
    return {
        target.id: value
        for targets, value in pairs
        for goal in targets
        for target in ast.walk(goal)
        if isinstance(target, ast.Name)
    }


def public_names(tree: ast.Module) -> list:
    "The names in a module's `__all__`; none where a package makes it on demand."
    listed = assigned(tree).get("__all__")
    return [item.value for item in listed.elts] if isinstance(listed, ast.List) else []


def defined(tree: ast.Module) -> dict:
    "What a module defines itself: name -> function, class or value."
    return assigned(tree) | {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def wing(module: str) -> str:
    return next((part for part in module.split(".")[1:2] if part in WINGS), "")



PACKAGES = {module_name(path) for path in FILES if path.name == "__init__.py"}


def definitions(modules: dict) -> dict:
    "Public name -> the modules that define it; what a module only passes on does not count."
    found = defaultdict(list)
    for module, tree in modules.items():
        # a verb is named after its function
        if module not in PACKAGES and module != "aawm.cli" and not module.endswith(".commands"):
            for name in set(public_names(tree)) & set(defined(tree)):
                found[name].append(module)
    return found


def test_no_name_hides_its_module(modules):
    for package in PACKAGES:
        imported = [
            alias.asname or alias.name
            for node in modules[package].body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        ]
        for name in {*imported, *defined(modules[package])}:
            assert f"{package}.{name}" not in modules, f"{package}.{name} is no module: something hides it"


LAZY = ("aawm", "aawm.evaluation", "aawm.viz", "aawm.infant", "aawm.marple", "aawm.study")


@pytest.mark.parametrize("package", LAZY)
def test_an_editor_sees_the_names_that_come_lazily(package):
    "A stub names each once, as itself, which tells editors and type checkers that it is public."
    stub = ast.parse((ROOT / package.replace(".", "/") / "__init__.pyi").read_text(encoding="utf-8"))
    aliases = [alias for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert all(alias.asname == alias.name for alias in aliases)
    room = importlib.import_module(package)
    assert sorted(alias.name for alias in aliases) == room.__all__ == dir(room)
    assert all(hasattr(room, name) for name in room.__all__)


def test_a_room_opens_with_an_overview_and_its_numbers_are_unique():
    for folder in sorted({path.parent for path in LIBRARY}):
        numbers = [path.name.partition("_")[0] for path in sorted(folder.glob("[0-9]*.ipynb"))]
        assert len(numbers) == len(set(numbers)), f"{folder.relative_to(ROOT)} has a number twice: {numbers}"
        assert folder.parent != NBS or (folder / "00_overview.ipynb").is_file(), f"{folder.relative_to(ROOT)} has no overview"


def pictures_in(path: Path) -> list:
    "The stored outputs of a page that are pictures."
    outputs = [
        output
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        for output in cell.get("outputs", ())
    ]
    return [kind for output in outputs for kind in output.get("data", {}) if kind.startswith("image/")]


SHOWN = (
    "sim", "data", "events", "models", "evaluation", "training", "viz", "guides", "lessons", "runs", "studies", *WINGS,
)  # fmt: skip


@pytest.mark.parametrize("room", SHOWN)
def test_an_overview_shows_a_picture(room):
    assert pictures_in(NBS / room / "00_overview.ipynb"), f"{room}/00_overview stores no picture"


MEASURE = runpy.run_path(str(ROOT / ".ci/measure"))


def test_rooms_are_of_the_size_of_their_budget():
    assert not (faults := MEASURE["off_budget"](MEASURE["measure"](ROOT))), "\n".join(faults)


def test_imports_run_downwards_and_in_no_circle(tmp_path):
    assert not (faults := MEASURE["import_faults"](ROOT)), "\n".join(faults)
    (tmp_path / "CONTRIBUTING.md").write_text((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    for name, text in {
        "sim/planning": "def draw():\n    from ..viz import stage", "viz/stage": "", "data/one": "import aawm.data.two",
        "data/two": "from . import one",
    }.items():
        path = tmp_path / "aawm" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    upwards, circle = MEASURE["import_faults"](tmp_path)
    assert upwards == "aawm.sim.planning imports aawm.viz.stage, a room above it" and "in a circle" in circle


def test_exported_cells_are_short():
    long = [
        f"{path.relative_to(NBS)} cell {place}"
        for path in LIBRARY
        for place, (kind, source) in enumerate(cells_of(path))
        if kind == "code" and is_exported(source) and len(source.splitlines()) > 90
    ]
    assert not long


def offered(modules: dict) -> set:
    "What the rooms offer: module and name of each thing that a package's `__init__` imports from a page of its own."
    return {
        (f"{package}.{node.module}", alias.name)
        for package in PACKAGES
        for node in ast.walk(modules[package])
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module
        for alias in node.names
    }


def test_an_example_follows_what_a_room_offers(modules):
    wanted = offered(modules)
    far = []
    for path in LIBRARY:
        code = [source for kind, source in cells_of(path) if kind == "code"]
        home = "aawm." + re.search(r"#\| default_exp (\S+)", "\n".join(code))[1]
        for place, source in enumerate(code):
            made = ast.parse(source).body if is_exported(source) else []
            names = [one.name for one in made if isinstance(one, (ast.FunctionDef, ast.ClassDef))]
            names = [name for name in names if (home, name) in wanted]
            if names and all(is_exported(later) for later in code[place + 1 : place + 3]):
                far.append(f"{path.relative_to(NBS)}: {', '.join(names)}")
    assert not far, "definitions without an example within two cells:\n" + "\n".join(far)


def untyped(function: ast.FunctionDef) -> tuple:
    "How many arguments a function has, and which lack a type."
    given = function.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, [given.vararg, given.kwarg])]
    arguments = [argument for argument in arguments if argument.arg not in ("self", "cls")]
    return len(arguments), [argument.arg for argument in arguments if argument.annotation is None]


def public_functions(thing: ast.AST, name: str) -> dict:
    "A function, or the public methods of a class."
    if isinstance(thing, ast.ClassDef):
        return {
            f"{name}.{node.name}": node
            for node in thing.body
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        }
    return {name: thing} if isinstance(thing, ast.FunctionDef) else {}


@pytest.mark.parametrize("room", ["", *WINGS])
def test_public_arguments_have_types(modules, room):
    total = 0
    without = defaultdict(list)
    for name, places in definitions(modules).items():
        for place in (place for place in places if wing(place) == room):
            for label, function in public_functions(defined(modules[place])[name], name).items():
                count, missing = untyped(function)
                total += count
                without[place] += [f"{label}({argument})" for argument in missing]
    count = sum(map(len, without.values()))
    listed = "\n".join(
        f"{place}: {len(names)}: {', '.join(names)}"
        for place, names in sorted(without.items(), key=lambda item: -len(item[1]))
        if names
    )
    assert count <= 0.05 * total, f"{count} of {total} public arguments have no type:\n{listed}"


def test_lines_end_at_newlines_alone(modules):
    "`splitlines` also breaks at letters that people type, such as U+2028; only the first line of a message may be found so."
    places = [name for name, tree in modules.items() for node in ast.walk(tree) if getattr(node, "attr", "") == "splitlines"]
    assert places == ["aawm.errors"]
