import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pmafl.errors import InputError
from pmafl.settings import PRESETS, Settings, build, load, parse, parse_assignment


def message(**overrides):
    with pytest.raises(InputError) as caught:
        load("mnist", {key.replace("__", "."): value for key, value in overrides.items()})
    line = str(caught.value)
    assert "\n" not in line
    return line


@pytest.mark.parametrize("preset", PRESETS)
def test_printed_settings_read_back_unchanged(preset):
    text = load(preset).to_toml()
    assert parse(text) == load(preset)
    assert parse(text).to_toml() == text


def test_the_presets_hold_the_numbers_of_section_v():
    mnist, cifar = load("mnist"), load("cifar10")
    assert (mnist.cell.bandwidth_hz, mnist.cell.noise_dbm_per_hz) == (1e7, -174)
    assert (mnist.fleet.devices, mnist.fleet.max_frequency_hz, mnist.fleet.max_power_w) == (100, 1e9, 1)
    assert mnist.fleet.energy_coefficient == 5e-27
    assert (mnist.cell.deadline_s, mnist.fleet.budget_j) == (2, 0.1)
    assert (cifar.cell.deadline_s, cifar.fleet.budget_j) == (14, 2)
    assert (mnist.learning.shared_layers, cifar.learning.shared_layers) == (2, 4)
    assert (mnist.learning.momentum, mnist.learning.iterations) == (0.9, 5)


def test_a_file_extends_a_preset_and_replaces_single_keys(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('extends = "cifar10"\n[cell]\ndeadline_s = 20.0\n')
    mine = load(file)
    assert mine.cell.deadline_s == 20
    assert mine.cell.bandwidth_hz == load("cifar10").cell.bandwidth_hz
    assert mine.data.dataset == "cifar10"


def test_a_file_extends_a_file_beside_it(tmp_path):
    (tmp_path / "base.toml").write_text('extends = "mnist"\n[run]\nrounds = 7\n')
    (tmp_path / "top.toml").write_text('extends = "base.toml"\n[run]\nseed = 9\n')
    assert (load(tmp_path / "top.toml").run.rounds, load(tmp_path / "top.toml").run.seed) == (7, 9)


def test_a_circle_of_files_is_named(tmp_path):
    (tmp_path / "a.toml").write_text('extends = "b.toml"\n')
    (tmp_path / "b.toml").write_text('extends = "a.toml"\n')
    with pytest.raises(InputError, match="circle"):
        load(tmp_path / "a.toml")


def test_a_spread_can_be_a_number_a_list_or_a_distribution():
    spread = {"distribution": "uniform", "low": 0.5, "high": 1.0}
    tree = load(
        "mnist",
        {"fleet.devices": 2, "fleet.budget_j": [1, 2], "fleet.max_power_w": spread, "fleet.samples": 6},
    )
    assert tree.fleet.budget_j == (1, 2)
    assert tree.fleet.max_power_w.high == 1
    assert parse(tree.to_toml()) == tree


@pytest.mark.parametrize(
    ("overrides", "parts"),
    [
        ({"cell__bandwith_hz": 1e7}, ["cell.bandwith_hz", "did you mean cell.bandwidth_hz?"]),
        ({"cell__fading": "none"}, ["cell.fading is called cell.channel since version 0.2"]),
        ({"learning__fedrep_work": "equal"}, ["is called learning.options.work since version 0.2"]),
        ({"cell__bandwidth_mhz": 10}, ["cell.bandwidth_mhz", "did you mean cell.bandwidth_hz?"]),
        ({"cell__bandwidth_hz": "10 MHz"}, ["cell.bandwidth_hz", "'10 MHz'", "a number in hertz"]),
        ({"cell__bandwidth_hz": float("nan")}, ["cell.bandwidth_hz", "nan", "finite"]),
        ({"fleet__max_power_w": -1.0}, ["fleet.max_power_w", "-1.0", "greater than 0"]),
        ({"fleet__max_power_w": [1.0, 2.0]}, ["max_power_w", "2 values", "devices = 100"]),
        ({"fleet__max_power_w": {"distribution": "gauss"}}, ["fleet.max_power_w", "uniform"]),
        ({"fleet__budget_j": 10**400}, ["fleet.budget_j", "finite"]),
        ({"fleet__devices": 0}, ["fleet.devices", "0", "greater than or equal to 1"]),
        ({"fleet__devices": 2.5}, ["fleet.devices", "2.5", "integer"]),
        ({"fleet__devices": True}, ["fleet.devices", "True", "integer"]),
        ({"fleet__samples": "all"}, ["fleet.samples", "'all'", '"equal"']),
        ({"learning__upload_bits_per_parameter": 12}, ["12", "8, 16 or 32"]),
        ({"learning__operations_per_sample": 0}, ["operations_per_sample", "greater than 0"]),
        ({"learning__operations_per_sample": 1e9, "fleet__samples": 600}, ["cell.deadline_s = 2", "750 s"]),
        ({"cell__min_distance_m": 400.0}, ["min_distance_m = 400", "side_m = 500"]),
        ({"run__learning": "none", "run__wireless": "none"}, ["learning", "wireless", "nothing would run"]),
        ({"cell": 3}, ["cell = 3", "table"]),
        ({"learning__shared": "a.*"}, ["learning.shared = 'a.*': must be a list of patterns"]),
        ({"run__plugin_path": "mine"}, ["run.plugin_path = 'mine': must be a list of folders"]),
        ({"weather": "rain"}, ["weather", "cell, fleet, data"]),
        ({"cell__deadline_s__x": 1}, ["cell.deadline_s.x", "not a table"]),
    ],
)
def test_a_wrong_setting_gives_one_line_with_key_value_and_what_is_allowed(overrides, parts):
    line = message(**overrides)
    for part in parts:
        assert part in line


OPTIONS_AND_OTHERS = [
    ("policy.name", "policy.options", "dual"),
    ("learning.algorithm", "learning.options", "fedavg"),
    ("learning.upload", "learning.upload_options", "sign"),
    ("learning.model", "learning.model_options", "own:network"),
    ("cell.channel", "cell.options", "none"),
]


def section_and_key(dotted):
    section, _, key = dotted.partition(".")
    return section, key


def value_of(tree, dotted):
    section, key = section_and_key(dotted)
    return getattr(getattr(tree, section), key)


@pytest.mark.parametrize(("name", "options", "other"), OPTIONS_AND_OTHERS)
def test_options_go_with_the_name_that_they_were_given_to(tmp_path, name, options, other):
    own = value_of(load("mnist"), name)
    (section, key), place = section_and_key(options), tmp_path / "own.toml"
    place.write_text(f'extends = "mnist"\n[{section}]\n{key} = {{a = 1, b = 2}}\n')
    assert value_of(load(place), options) == {"a": 1, "b": 2}
    assert value_of(load(place, {name: own}), options) == {"a": 1, "b": 2}
    assert value_of(load(place, {name: other}), options) == {}
    assert value_of(load(place, {f"{options}.c": 3, name: other}), options) == {"c": 3}
    assert value_of(load(place, {name: other, options: {"a": 4}}), options) == {"a": 4}
    above = tmp_path / "above.toml"
    above.write_text(f'extends = "own.toml"\n[{section}]\n{section_and_key(name)[1]} = "{other}"\n')
    assert value_of(load(above), options) == {}
    assert value_of(load(above, {options: {"c": 3}}), options) == {"c": 3}


def test_a_network_of_ones_own_on_the_watch_does_not_get_the_presets_width():
    assert load("watch").learning.model_options == {"width": 16}
    assert load("watch", {"learning.model": "own:network"}).learning.model_options == {}
    assert load("watch", {"policy.name": "dual"}).learning.model_options == {"width": 16}


def test_a_missing_key_says_how_to_get_it():
    with pytest.raises(InputError, match=r'cell is missing.*extends = "mnist"'):
        parse("[run]\nrounds = 1\nseed = 1\n")


def test_sources_that_cannot_be_read_are_named(tmp_path):
    presets = r"mnist, cifar10, watch, tracker, sensor, phone"
    with pytest.raises(InputError, match=rf"neither a preset \({presets}\) nor a readable"):
        load("mnits")
    (tmp_path / "broken.toml").write_text("[cell\n")
    with pytest.raises(InputError, match="not valid TOML"):
        load(tmp_path / "broken.toml")


def test_assignments_are_toml_values_or_plain_strings():
    assert parse_assignment("cell.bandwidth_hz=2e7") == ("cell.bandwidth_hz", 2e7)
    assert parse_assignment("policy.name=dual") == ("policy.name", "dual")
    assert parse_assignment("fleet.budget_j=[1, 2]") == ("fleet.budget_j", [1, 2])
    with pytest.raises(InputError, match="KEY=VALUE"):
        parse_assignment("policy.name")


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**300, max_value=10**400),
    st.floats(),
    st.text(max_size=8),
    st.dates(),
    st.lists(st.one_of(st.floats(), st.integers(), st.text(max_size=3)), max_size=4),
    st.dictionaries(st.sampled_from(["distribution", "low", "high", "values", "x"]), st.floats(), max_size=3),
    st.fixed_dictionaries(
        {"distribution": st.sampled_from(["uniform", "loguniform", "choice"])},
        optional={"low": st.floats(), "high": st.floats(), "values": st.lists(st.floats(), max_size=3)},
    ),
)
KEYS = [f"{s}.{k}" for s, f in Settings.model_fields.items() for k in f.annotation.model_fields]
PLAUSIBLE = st.one_of(
    st.integers(1, 200),
    st.floats(1e-3, 1e9),
    st.sampled_from(["equal", "count", "none", "full", "iid", "pma"]),
)


@pytest.mark.parametrize(
    "spread",
    [
        {"distribution": "uniform", "low": 1.0, "high": 1.0},
        {"distribution": "loguniform", "low": 2.0, "high": 50.0},
        {"distribution": "choice", "values": [20.0, 30.0]},
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_spread_survives_being_dumped(spread):
    tree = load("mnist", {"fleet.samples": spread})
    assert build(tree.model_dump()) == parse(tree.to_toml()) == tree


ANY_TREE = given(
    changes=st.dictionaries(
        st.one_of(
            st.sampled_from(KEYS),
            st.sampled_from(["cell", "fleet", "run", "nothing", "cell.x", "run.seed.x"]),
        ),
        st.one_of(ODD, PLAUSIBLE),
        max_size=4,
    )
)


@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@ANY_TREE
def test_any_tree_validates_or_fails_with_one_clear_line(changes):
    validates_or_fails_with_one_clear_line(changes)


@pytest.mark.heavy
@settings(max_examples=3_000, suppress_health_check=list(HealthCheck))
@ANY_TREE
def test_so_do_three_thousand(changes):
    validates_or_fails_with_one_clear_line(changes)


def validates_or_fails_with_one_clear_line(changes):
    try:
        tree = load("mnist", changes)
    except InputError as error:
        assert str(error)
        assert "\n" not in str(error)
        assert len(str(error)) < 1000
    else:
        assert build(tree.model_dump()) == tree
