"""The page of the paper's claims has their numbers, and refuses what is damaged in one line."""

import json

import numpy as np
import pytest

from pmafl.errors import InputError
from pmafl.page import write_page
from tests.page.pages import RESULTS, data_of


@pytest.fixture
def results(tmp_path):
    """The claims and one figure."""
    for name in ("CLAIMS.json", "fig4-cifar10.json", "fig4-cifar10.csv"):
        (tmp_path / name).write_bytes((RESULTS / name).read_bytes())
    return tmp_path


def test_claims_and_curves_are_those_of_the_files(results):
    data = data_of(write_page(results).read_text("utf-8"))
    claims = json.loads((results / "CLAIMS.json").read_text())
    assert [(c["claim"], c["number"], c["verdict"]) for c in data["claims"]] == [
        (c["claim"], c["number"], c["verdict"]) for c in claims
    ]
    (figure,) = data["shown"]
    first = (results / "fig4-cifar10.csv").read_text().splitlines()[1].split(",")
    assert figure["lines"][0] == f"{first[0]}, {first[1]}"
    np.testing.assert_allclose(figure["curves"][0]["accuracy_mean"][0], float(first[4]))


@pytest.mark.parametrize("name", ["CLAIMS.json", "fig4-cifar10.csv"])
@pytest.mark.parametrize("content", ["[1]", "{", "method,value,round\na,b,<script>\n"])
def test_damaged_results_are_one_line(results, name, content):
    (results / name).write_text(content)
    if name.endswith("csv") and content != "method,value,round\na,b,<script>\n":
        assert data_of(write_page(results).read_text("utf-8"))["shown"] == []
        return
    with pytest.raises(InputError, match="is damaged"):
        write_page(results)
    assert not (results / "page.html").exists()
