"""The layers of the package: nothing imports from above, and no two rooms import each other."""

import ast
import re
from pathlib import Path

import pmafl

ROOT = Path(pmafl.__file__).parent
# From below. Rooms of one layer may use each other, but not in a circle.
LAYERS = [
    [
        "errors",
        "arrays",
        "files",
        "paths",
        "settings",
        "streams",
        "plugins",
        "registry",
        "spreads",
        "brief",
        "progress",
    ],
    ["wireless", "data"],
    ["allocation"],
    ["scheduling", "learning"],
    ["world", "devices", "workers", "rounds", "budgets", "service"],
    ["runs"],
    ["checks", "comparison", "curves", "theory", "efficiency", "planning"],
    ["plots", "page", "display", "callbacks"],
    ["experiments", "flower"],
    ["commands", "cli", "__main__"],
]
HEIGHT = {room: height for height, rooms in enumerate(LAYERS) for room in rooms}


# Parts of a room that others open by themselves, because the door would load too much: torch (learning),
# SciPy's optimisers (clairvoyant), Matplotlib (pictures), or rooms within a room.
SIDE_DOORS = {
    "pmafl.data.picture",
    "pmafl.experiments.claims",
    "pmafl.experiments.making",
    "pmafl.experiments.sensitivity",
    "pmafl.experiments.statements",
    "pmafl.experiments.study",
    "pmafl.learning.algorithms",
    "pmafl.learning.evaluation",
    "pmafl.learning.method",
    "pmafl.learning.quantise",
    "pmafl.learning.rebuild",
    "pmafl.learning.task",
    "pmafl.learning.uploads",
    "pmafl.plots.bound",
    "pmafl.plots.plan",
    "pmafl.scheduling.clairvoyant",
    "pmafl.scheduling.fluid",
    "pmafl.service.http",
    "pmafl.theory.assessment",
    "pmafl.theory.promise",
    "pmafl.wireless.channels",
}


def module_name(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


def for_type_checkers(tree):
    """Nodes that no program runs: what stands under `if TYPE_CHECKING`."""
    hidden = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            hidden |= {id(inner) for part in node.body for inner in ast.walk(part)}
    return hidden


def imported(source, importer, is_package, modules):
    """Modules of the package that a source imports, anywhere in it, and whether that is for types alone."""
    tree = ast.parse(source)
    hidden = for_type_checkers(tree)
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                home = importer.split(".")
                home = home[: len(home) - node.level + is_package]
                base = ".".join([*home, *filter(None, [node.module])])
            inside = [f"{base}.{alias.name}" for alias in node.names]
            names = [name if name in modules else base for name in inside]
        for name in names:
            if name.split(".")[0] == "pmafl":
                yield name, id(node) in hidden


def room(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def edges(types_too):
    """Pairs of an importing and an imported module in different rooms; the package's own door is no room."""
    found = []
    for importer, path in MODULES.items():
        for name, for_types in imported(
            path.read_text("utf-8"), importer, path.name == "__init__.py", MODULES
        ):
            if (
                room(importer)
                and room(name)
                and room(name) != room(importer)
                and (types_too or not for_types)
            ):
                found.append((importer, name))
    return list(dict.fromkeys(found))


def test_every_room_has_its_layer():
    assert {room(module) for module in MODULES} - {""} <= set(HEIGHT)


def test_the_table_of_rooms_has_every_room_in_its_layer():
    table = (ROOT.parent / "docs" / "architecture.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \|", table, flags=re.MULTILINE)
    listed = [(name, int(layer) - 1) for layer, names in rows for name in re.findall(r"`(\w+)`", names)]
    assert dict(listed) == {name: height for name, height in HEIGHT.items() if name != "__main__"}
    assert len(listed) == len(dict(listed))


def test_nothing_imports_what_does_not_exist():
    missing = [f"{importer} -> {name}" for importer, name in edges(types_too=True) if name not in MODULES]
    assert missing == []


def test_nothing_imports_from_above_not_even_for_types_or_inside_a_function():
    upward = [
        f"{importer} -> {name}"
        for importer, name in edges(types_too=True)
        if HEIGHT.get(room(name), 0) > HEIGHT[room(importer)]
    ]
    assert upward == []


def test_a_room_is_entered_by_its_door():
    past_the_door = [
        (importer, node.module)
        for importer, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.count(".") > 1
        if node.module.startswith("pmafl.") and room(node.module) != room(importer) != "cli"
        if ".".join(node.module.split(".")[:3]) not in SIDE_DOORS
    ]
    assert not past_the_door


def test_no_rooms_import_each_other_in_a_circle():
    """What is for types alone is left out: it names things, but runs nothing."""
    below = {name: set() for name in HEIGHT}
    for importer, name in edges(types_too=False):
        below[room(importer)].add(room(name))
    while free := [name for name, needs in below.items() if not needs & below.keys()]:
        for name in free:
            del below[name]
    assert below == {}, "these rooms are part of a circle, or above one"


def test_the_check_sees_every_kind_of_import():
    source = """
import pmafl.runs
from pmafl import plots, load_settings
from . import allocation
from .wireless.cell import place
if TYPE_CHECKING:
    from pmafl.flower import server
def late():
    from pmafl.commands.run import run
"""
    modules = {"pmafl", "pmafl.plots", "pmafl.allocation", "pmafl.flower", "pmafl.flower.server"}
    assert set(imported(source, "pmafl.world", False, modules)) == {
        ("pmafl.runs", False),
        ("pmafl.plots", False),
        ("pmafl", False),
        ("pmafl.allocation", False),
        ("pmafl.wireless.cell", False),
        ("pmafl.flower.server", True),
        ("pmafl.commands.run", False),
    }
