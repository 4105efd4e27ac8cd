import json

import numpy as np
import pytest

from pmafl import runs
from pmafl.errors import InputError
from pmafl.plots.bound import draw_bound
from pmafl.rounds import simulate
from pmafl.settings import load
from pmafl.theory import replay
from pmafl.theory.assessment import assess
from pmafl.theory.promise import PRINTED, SOUND
from tests.runs.directories import unseal

SAMPLES = 156  # 26 of each device of the tiny problem


@pytest.fixture
def make_run(tmp_path, tiny):
    """Makes a finished run of the tiny problem, four of six devices a round unless told otherwise."""

    def make(**changes):
        free = {"run.wireless": "none", "policy.name": "uniform", "policy.options.count": 4}
        changes = {key.replace("__", "."): value for key, value in changes.items()}
        runs.create(tmp_path / "run", load("mnist", tiny | free | changes))
        runs.execute(tmp_path / "run")
        return tmp_path / "run"

    return make


def no_training(*_):
    raise AssertionError("the run was trained again")


@pytest.mark.parametrize("changes", [{}, {"learning__batch_size": 8}, {"learning__algorithm": "fedavg"}])
def test_the_replay_is_the_run(make_run, changes):
    assessment = assess(make_run(**changes), points=2, probed=1)
    assert float(assessment.found.test_loss) == assessment.recorded_test_loss


@pytest.mark.heavy
def test_a_run_inside_the_theorem_stays_below_the_bound_with_the_measured_mu(make_run):
    """One plain step a round at a small rate, everybody taking part, every round measured."""
    plain = {"iterations": 1, "upload_bits_per_parameter": 32, "extractor_rate": 1e-3, "predictor_rate": 1e-3}
    changes = {f"learning__{key}": value for key, value in plain.items()}
    assessment = assess(make_run(policy__options__count=6, **changes), points=6, probed=6)
    assert assessment.not_covered == []
    assert all(verdict.holds for verdict in assessment.verdicts if "rate" in verdict.condition)
    bound = assessment.promises[0].losses[SOUND]
    assert np.all(assessment.found.losses <= bound + 1e-6)
    assert bound[-1] < bound[0]
    assert not any("proves nothing" in remark for remark in assessment.remarks)


def test_few_scheduled_samples_make_it_vacuous_and_it_says_so(make_run):
    promise = assess(make_run(policy__options__count=2), points=3, probed=1).promises[0]
    assert promise.losses[SOUND][-1] >= promise.losses[SOUND][0]
    assert "vacuous" in promise.remarks[0]
    assert any("more than half" in remark for remark in promise.remarks)


def test_more_samples_give_a_lower_bound(make_run, tmp_path):
    (tmp_path / "volumes.txt").write_text("96\n" * 5)
    texts = ["samples=0", "samples=64,64,64,64,64", f"samples={tmp_path / 'volumes.txt'}", "samples=156"]
    _, *others = assess(make_run(), texts, points=2, probed=1).promises
    assert [promise.name for promise in others][:2] == texts[:2]
    ends = [promise.losses[SOUND][-1] for promise in others]
    assert np.all(np.diff(ends) < 0)
    assert others[-1].scheduled_share.tolist() == [1] * 5


def test_another_policy_is_asked_on_the_same_channels_without_training(make_run, monkeypatch):
    directory = make_run(run__wireless="full", policy__name="dual", policy__options={})
    assess(directory, points=2, probed=1)
    monkeypatch.setattr(replay, "measure", no_training)
    own, dual, ocean = assess(directory, ["policy=dual", "policy=ocean"], points=2, probed=1).promises
    assert np.array_equal(own.scheduled_share, dual.scheduled_share)
    settings = load(directory, {"policy.name": "ocean", "run.learning": "none"})
    volumes = [record.scheduled_samples for record in simulate(settings)]
    assert ocean.scheduled_share * SAMPLES == pytest.approx(volumes)


def test_what_was_measured_is_kept_and_used_again(make_run, monkeypatch):
    directory = make_run()
    first = assess(directory, points=2, probed=1)
    monkeypatch.setattr(replay, "measure", no_training)
    assert assess(directory, points=2, probed=1).to_dict() == first.to_dict()


def change_settings(directory):
    path = directory / "settings.toml"
    path.write_text(path.read_text().replace("predictor_rate = 0.05", "predictor_rate = 0.06"))


def change_rounds(directory):
    path = directory / "rounds.jsonl"
    path.write_text(path.read_text().replace('"scheduled": [', '"scheduled": [ ', 1))


def damage(directory):
    (directory / "bound.json").write_text('{"key": 3, ')


def strip(directory):
    kept = json.loads((directory / "bound.json").read_text())
    del kept["found"]["losses"]
    (directory / "bound.json").write_text(json.dumps(kept))


@pytest.mark.parametrize("change", [change_settings, change_rounds, damage, strip])
def test_what_was_measured_on_another_run_is_not_used(make_run, monkeypatch, change):
    directory = make_run()
    unseal(directory)  # as version 0.1 wrote them: else the change itself is refused
    assess(directory, points=2, probed=1)
    change(directory)
    monkeypatch.setattr(replay, "measure", no_training)
    with pytest.raises(AssertionError, match="trained again"):
        assess(directory, points=2, probed=1)


def test_other_points_or_devices_are_measured_anew(make_run):
    directory = make_run()
    assess(directory, points=2, probed=1)
    assert len(assess(directory, points=3, probed=2).found.rounds) == 3


def test_the_answer_is_strict_json_even_where_the_bound_is_infinite(make_run):
    assessment = assess(make_run(policy__options__count=1), ["samples=0"], points=2, probed=1)
    assessment.promises[1].losses[PRINTED][-1] = np.inf
    answer = json.loads(json.dumps(assessment.to_dict(), allow_nan=False))
    assert answer["bounds"][1]["losses"][PRINTED][-1] is None
    draw_bound(assessment)


def test_a_directory_without_a_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="is not a run directory"):
        assess(tmp_path)


def test_a_run_without_learning_is_refused(make_run):
    directory = make_run(run__learning="none", run__wireless="full", policy__name="dual", policy__options={})
    with pytest.raises(InputError, match=r'run\.learning = "none"'):
        assess(directory)


def test_an_unfinished_run_is_refused(make_run):
    directory = make_run()
    lines = (directory / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    (directory / "rounds.jsonl").write_bytes(b"".join(lines[:3]))
    with pytest.raises(InputError, match=r"holds 3 of 5 rounds; finish it with pmafl run --resume"):
        assess(directory)


@pytest.mark.parametrize("scheduled", ["[99]", "[-1]", '"all"', "null", '["0"]'])
def test_a_record_with_impossible_devices_is_named(make_run, scheduled):
    directory = make_run()
    unseal(directory)
    lines = (directory / "rounds.jsonl").read_text().splitlines()
    lines[1] = f'{{"scheduled": {scheduled}}}'
    (directory / "rounds.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=r"line 2: needs a list 'scheduled' of devices 0 to 5"):
        assess(directory)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("policy", "must be policy=NAME, samples=N,N,... or samples=FILE"),
        ("samples=", "must be policy=NAME"),
        ("rounds=3", "must be policy=NAME"),
        ("policy=nonsense", "nonsense"),
        ("samples=nowhere.txt", "neither numbers nor a file of them"),
        ("samples=" + "x" * 5000, "neither numbers nor a file of them"),
        ("samples=" + "1," * 999 + "1", "has 1000 numbers; must be 1 or 5"),
        ("samples=1,2", "has 2 numbers; must be 1 or 5"),
        ("samples=157", "must be 0 to 156"),
        ("samples=-1", "must be 0 to 156"),
        ("samples=nan", "must be 0 to 156"),
    ],
)
def test_bad_questions_are_answered_before_anything_is_measured(make_run, monkeypatch, text, part):
    monkeypatch.setattr(replay, "measure", no_training)
    with pytest.raises(InputError) as caught:
        assess(make_run(), [text])
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_rounds_without_a_connection_are_rounds_without_samples(make_run, tmp_path):
    gains = np.full((5, 6), 1e-7)
    gains[:, 2] = gains[3, :] = 0
    np.save(tmp_path / "outages.npy", gains)
    run = make_run(
        run__wireless="full",
        policy__name="dual",
        policy__options={},
        cell__gain_trace=str(tmp_path / "outages.npy"),
    )
    assessment = assess(run, ["policy=steady"], points=2, probed=1)
    for promise in assessment.promises:
        assert promise.scheduled_share[3] == 0
        assert 0 < promise.scheduled_share.max() < 1
