"""The page of a plan has what its JSON says, and refuses what is no plan in one line."""

import json

import pytest

from pmafl.errors import InputError
from pmafl.page import write_page
from tests.page.pages import PLAN, data_of


@pytest.fixture
def path(tmp_path):
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    return tmp_path / "plan.json"


def test_choices_goals_and_rings_are_those_of_the_plan(path):
    page = write_page(path)
    assert page == path.with_name("plan.html")
    data = data_of(page.read_text("utf-8"))
    assert [name for name, _, _ in data["free"]] == ["deadline_s", "rounds_per_day"]
    assert [values for _, _, values in data["free"]] == [[1.0, 3.0], [24.0]]
    assert [choice["measures"]["battery_days"] for choice in data["choices"]] == [900.0, 700.0]
    assert [choice["measures"]["band_used"] for choice in data["choices"]] == [50.0, 100.0]
    assert data["goals"] == [["battery >= 2 years", True, "the first battery lasts 2.46 years"]]
    assert data["unable"][0] == [3, "too far away"]
    assert data["rings"][0]["to_m"] == 100.0
    assert "accuracy" not in [name for name, _ in data["measures"]]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"choices": [{}]}', "[" * 100_000, "\x00"])
def test_what_is_no_plan_is_one_line(path, content):
    path.write_text(content)
    with pytest.raises(InputError, match="is no plan"):
        write_page(path)
    assert not path.with_suffix(".html").exists()
