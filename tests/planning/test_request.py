import pytest

from pmafl.errors import InputError
from pmafl.planning import read_request


def test_all_combinations_of_what_is_free_are_choices(write):
    request = read_request(write())
    assert len(request.choices) == 8
    assert {choice.band_share for choice in request.choices} == {0.1, 1.0}
    assert request.days == 365


def test_rounds_that_do_not_fit_a_day_are_no_choice(write):
    request = read_request(write(("[4, 24]", "[4, 20000]")))
    kept = {(choice.deadline_s, choice.rounds_per_day) for choice in request.choices}
    assert kept == {(2, 4), (2, 20000), (8, 4)}


def test_a_choice_gives_settings_that_a_run_takes(write):
    request = read_request(write())
    choice = request.choices[0]
    settings = request.settings_of(choice, rounds=7)
    assert settings.cell.deadline_s == choice.deadline_s
    assert settings.cell.bandwidth_hz == pytest.approx(1e5)
    assert (settings.policy.name, settings.run.rounds, settings.run.learning) == ("steady", 7, "none")
    assert settings.fleet.battery_j == pytest.approx(18000)
    assert settings.run.rounds_per_day == choice.rounds_per_day


def test_ranges_are_divided_by_equal_factors(write):
    request = read_request(write(("[2, 8]", "{low = 1, high = 16, steps = 5}")))
    assert sorted({choice.deadline_s for choice in request.choices}) == [1, 2, 4, 8, 16]


def test_cycles_of_a_whole_round_are_divided_over_samples_and_iterations(write):
    request = read_request(write(("cycles_per_sample = 2e5", "cycles_per_round = 2e7")))
    assert request.settings.fleet.cycles_per_operation == pytest.approx(2e5)


def test_layers_and_bits_are_free_where_there_is_a_model(write):
    path = write(
        ("upload_bits = 2000000", 'model = "mlp"\nshared_layers = 2'),
        (
            "band_share = {low = 0.1, high = 1, steps = 2}",
            "shared_layers = {low = 1, high = 4}\nupload_bits_per_parameter = [8, 16]",
        ),
    )
    choices = read_request(path).choices
    assert {choice.shared_layers for choice in choices} == {1, 2, 3, 4}
    assert {choice.upload_bits_per_parameter for choice in choices} == {8, 16}


WRONG = {
    "deadline_s = [2, 8]": [
        ("deadline_s = []", "plan.deadline_s = .*empty list"),
        ("deadline_s = [2, -1]", "plan.deadline_s.*greater than 0"),
        ("deadline_s = {low = 3, high = 1, steps = 4}", "low is 3 and high is 1"),
        ('deadline_s = "soon"', "plan.deadline_s = 'soon': must be a number, a list"),
        ("dedline_s = 3", "plan.dedline_s is not free to choose; deadline_s,"),
        ("", "cell.deadline_s is missing: give a number above 0, or let it be free as plan.deadline_s"),
        ("deadline_s = [90000, 1e6]", "not even 4 rounds of 90000 s fit a day"),
        ("deadline_s = {low = 1, high = 2, steps = 1000}", "steps from 1 to 100"),
    ],
    "rounds_per_day = [4, 24]": [
        ("rounds_per_day = [0]", "plan.rounds_per_day.*greater than 0"),
        ("shared_layers = [1]\nrounds_per_day = 1", "plan.shared_layers is free, but upload_bits says"),
        ("", "run.rounds_per_day is missing"),
    ],
    "band_share = {low = 0.1, high = 1, steps = 2}": [("band_share = 1.5", "plan.band_share.*at most 1")],
    "battery_wh = 5": [("battery_wh = -5", "fleet.battery_j = -18000.0: must be 0 or more")],
    "cycles_per_sample = 2e5": [("", "give fleet.cycles_per_sample or")],
    "devices = 40": [
        ("", "fleet.devices is missing"),
        ("devices = 40\nwheels = 4", "fleet.wheels is not a setting"),
    ],
}


@pytest.mark.parametrize(
    ("old", "new", "message"), [(k, *pair) for k, pairs in WRONG.items() for pair in pairs]
)
def test_a_wrong_file_gets_one_line(write, old, new, message):
    with pytest.raises(InputError, match=message) as error:
        read_request(write((old, new)))
    assert "\n" not in str(error.value)


def test_a_file_without_a_fleet_says_so(write):
    with pytest.raises(InputError, match=r"(cell|fleet|learning.*) is missing"):
        read_request(write(text="[plan]\ndeadline_s = 3\nrounds_per_day = 1\n"))
