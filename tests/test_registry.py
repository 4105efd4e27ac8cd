import sys
import types
from typing import Literal

import pytest

from pmafl.errors import InputError
from pmafl.learning.algorithms import ALGORITHMS
from pmafl.registry import Registry, check_options, make
from pmafl.scheduling import POLICIES
from pmafl.wireless.channels import CHANNELS


@pytest.fixture
def shapes():
    return Registry("shape", "drawing.shape", {"triangle": 3, "square": 4})


def polygon(site, corners: int, size: float = 1.0, kind: Literal["open", "closed"] = "closed", anything=None):
    return site, corners, size, kind, anything


def test_entries_are_found_by_name_and_listed_in_order(shapes):
    shapes.register("pentagon", 5)
    assert shapes.find("pentagon") == 5
    assert shapes.names() == list(shapes) == ["triangle", "square", "pentagon"]
    assert "square" in shapes
    assert "circle" not in shapes


def test_a_registry_is_not_changed_through_its_list_or_its_origin():
    origin = {"triangle": 3}
    shapes = Registry("shape", "drawing.shape", origin)
    shapes.names().append("circle")
    origin["circle"] = 0
    assert shapes.names() == ["triangle"]


def test_a_taken_name_is_refused_and_the_first_entry_stays(shapes):
    with pytest.raises(InputError, match="there is a shape called 'square' already; choose another name"):
        shapes.register("square", 44)
    assert shapes.find("square") == 4


@pytest.mark.parametrize("name", ["", "my.module:square"])
def test_a_name_that_could_be_a_path_is_refused(shapes, name):
    with pytest.raises(InputError, match="cannot be the name of a shape"):
        shapes.register(name, 4)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("squar", "drawing.shape = 'squar': there is no such shape; did you mean 'square'?"),
        ("trianlge", "did you mean 'triangle'?"),
        ("zzz", "there is no such shape; choose triangle, square or package.module:name"),
        ("", "there is no such shape; choose triangle, square or package.module:name"),
        ("no_such_module_here:square", "there is no module 'no_such_module_here' to import"),
        ("own_shapes:circle", "module 'own_shapes' has no 'circle'"),
        ("own_shapes:", "must be package.module:name"),
        ("square:sides", "'sides' has no value; an option is given as in square:option=value"),
    ],
)
def test_a_wrong_name_is_one_line_that_helps(shapes, own_shapes, name, said):
    with pytest.raises(InputError) as error:
        shapes.find(name)
    assert str(error.value).startswith(f"drawing.shape = {name!r}: ")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.fixture
def own_shapes(monkeypatch):
    module = types.ModuleType("own_shapes")
    module.hexagon = 6
    monkeypatch.setitem(sys.modules, "own_shapes", module)


@pytest.mark.usefixtures("own_shapes")
def test_an_entry_is_found_at_its_path(shapes):
    assert shapes.find("own_shapes:hexagon") == 6
    assert "own_shapes:hexagon" not in shapes


def test_a_maker_gets_what_the_program_gives_and_the_users_options():
    assert make(polygon, "shape 'polygon'", ("here",), {"corners": 3, "size": 2.5}) == (
        "here", 3, 2.5, "closed", None
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "shape 'polygon' needs the options corners"),
        ({"corners": 3, "colour": 1}, "was given the options colour; it has corners, size"),
        ({"corners": 3, "site": 1}, "was given the options site; it has corners, size"),
        ({"corners": "three"}, "shape 'polygon', option corners = 'three': must be a whole number"),
        ({"corners": 2.5}, "option corners = 2.5: must be a whole number"),
        ({"corners": True}, "option corners = True: must be a whole number"),
        ({"corners": 3, "size": "big"}, "option size = 'big': must be a number"),
        ({"corners": 3, "kind": "round"}, "option kind = 'round': must be 'open' or 'closed'"),
    ],
)
def test_a_wrong_option_is_one_line_before_anything_is_made(options, said):
    def never(
        site, corners: int, size: float = 1.0, kind: Literal["open", "closed"] = "closed", anything=None
    ):
        pytest.fail("it was called")

    with pytest.raises(InputError) as error:
        make(never, "shape 'polygon'", ("here",), options)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_whole_number_may_stand_for_a_fraction_and_untyped_options_take_anything():
    check_options(polygon, "shape 'polygon'", 1, {"corners": 3, "size": 2, "anything": object()})


def test_a_class_is_a_maker_with_the_options_of_its_constructor():
    class Star:
        def __init__(self, points: int = 5):
            self.points = points

    assert make(Star, "shape 'star'", (), {"points": 7}).points == 7
    with pytest.raises(InputError, match="option points = 'many': must be a whole number"):
        make(Star, "shape 'star'", (), {"points": "many"})


def test_what_cannot_be_called_makes_nothing():
    with pytest.raises(InputError, match="shape 'square' is a int; it must be a function"):
        make(4, "shape 'square'", (), {})


@pytest.mark.parametrize("registry", [POLICIES, ALGORITHMS, CHANNELS])
def test_every_kind_of_thing_refuses_a_name_that_is_taken(registry):
    name = registry.names()[0]
    with pytest.raises(InputError, match=f"there is an? .* called '{name}' already"):
        registry.register(name, lambda: None)
