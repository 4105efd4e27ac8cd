"""`pmafl data` lists, checks and draws data sets."""

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from pmafl.commands.data import data
from pmafl.data import KNOWN
from pmafl.errors import InputError


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the command beside own.npz, a data set of 300 samples in 3 classes, with an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PMAFL_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    np.savez("own.npz", x=np.random.default_rng(0).normal(size=(300, 8)), y=np.arange(300) % 3)
    app = typer.Typer()
    app.command()(data)

    def invoke(*arguments):
        return CliRunner().invoke(app, arguments, catch_exceptions=False).stdout

    return invoke


def test_without_a_name_the_known_data_sets_are_listed(run, tmp_path):
    listed = run()
    assert "mnist: 60000 training and 10000 test samples of 1 x 28 x 28, 10 classes" in listed
    assert "cifar10: 50000 training and 10000 test samples of 3 x 32 x 32, 10 classes" in listed
    assert listed.count("not fetched yet") == len(KNOWN)


def test_fetched_data_sets_are_listed_with_their_place(run, tmp_path):
    folder = tmp_path / "cache" / "pmafl" / "cifar10"
    folder.mkdir(parents=True)
    for name in KNOWN["cifar10"].checksums:
        (folder / name).touch()
    assert f"in {folder}" in run()


def test_ones_own_data_is_checked(run):
    assert run("own.npz") == (
        "own.npz: 240 training and 60 test samples of 8, 3 classes\n  values verified, from own.npz\n"
    )


def test_who_holds_what_is_drawn_for_the_settings_given(run, tmp_path):
    said = run(
        "own.npz", "--plot", "held.png", "--set", "fleet.devices=6", "--set", "data.partition=dirichlet"
    )
    assert "own.npz: dirichlet over 6 devices, 40 to 40 samples each; drawn in held.png" in said
    assert (tmp_path / "held.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--plot", "held.png"], "need the NAME of a data set"),
        (["mnits"], "did you mean 'mnist'"),
        (["own.npz", "--set", "data.directory=/no/such"], "cannot be read: No such file"),
        (["own.npz", "--set", "fleet.devces=3"], r"did you mean fleet.devices"),
        (["own.npz", "--plot", "held.xyz", "--set", "fleet.devices=6"], "cannot be written"),
    ],
)
def test_bad_input_is_told_in_one_line(arguments, complaint, run):
    with pytest.raises(InputError, match=complaint):
        run(*arguments)
