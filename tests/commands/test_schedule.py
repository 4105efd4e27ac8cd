import io
import json
import subprocess
import sys
import types

import pytest

from pmafl import cli
from pmafl.wireless import RoundProblem

CELL = {
    "bandwidth_hz": 1e7,
    "noise_w_per_hz": 3.98e-21,
    "deadline_s": 2.0,
    "upload_bits": 8531968,  # one number stands for every device
    "energy_coefficient": 5e-27,
    "local_iterations": 5,
    "tradeoff": 0.001,
}
DEVICE = {
    "samples": 600,
    "cycles_per_sample": 137586.5,
    "max_frequency_hz": 1e9,
    "max_power_w": 1.0,
    "channel_gain": 1e-8,
    "queue_j": 0.3,
}
LISTS = (
    "bandwidth_share", "compute_time_s", "upload_time_s", "frequency_hz", "power_w",
    "compute_energy_j", "upload_energy_j",
)  # fmt: skip


def problem(*devices, **changes):
    return json.dumps(CELL | {"devices": [DEVICE | device for device in devices]} | changes)


@pytest.fixture
def schedule(monkeypatch, capsys):
    """Runs `pmafl schedule -` in this process: exit code, output, errors."""

    def run(text, *options):
        raw = text if isinstance(text, bytes) else text.encode()
        monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(raw)))
        monkeypatch.setattr(sys, "argv", ["pmafl", "schedule", "-", *options])
        with pytest.raises(SystemExit) as end:
            cli.main()
        output = capsys.readouterr()
        return end.value.code or 0, output.out, output.err

    return run


@pytest.fixture
def own_policy(monkeypatch, tmp_path):
    """Writes a user's module; its file stands outside the package."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_policy_module", raising=False)

    def write(code):
        imports = "import numpy as np\nfrom pmafl.scheduling import allocate_given\n"
        (tmp_path / "own_policy_module.py").write_text(imports + code)

    yield write
    sys.modules.pop("own_policy_module", None)


@pytest.fixture
def answer(schedule):
    def run(text, *options):
        code, out, err = schedule(text, "--json", *options)
        assert (code, err) == (0, "")
        return json.loads(out, parse_constant=pytest.fail)

    return run


def test_the_answer_keeps_the_contract(answer):
    found = answer(problem({}, {"queue_j": 5e3}, {"channel_gain": 1e-9}))
    more = {"policy", "scheduled", "objective", "lower_bound", "gap", "queue_after_j", "left_out"}
    assert set(found) == more | {*LISTS}
    assert found["policy"] == "dual"
    assert found["scheduled"] == [0, 2]
    assert all(len(found[key]) == 3 and found[key][1] == 0 for key in LISTS)
    assert found["gap"] == pytest.approx(found["objective"] - found["lower_bound"])


@pytest.mark.parametrize("policy", ["set-expansion", "exhaustive", "ocean", "rs-wel", "all"])
def test_every_policy_answers(answer, policy):
    assert answer(problem({}, {}), "--policy", policy)["policy"] == policy


def test_the_queues_after_the_round_are_given_where_budgets_are_known(answer):
    found = answer(problem({"budget_j": 0.1}, {"budget_j": 0.1, "channel_gain": 0}, {}))
    energy_j = found["compute_energy_j"][0] + found["upload_energy_j"][0]
    assert found["queue_after_j"] == [pytest.approx(0.3 + energy_j - 0.1), pytest.approx(0.2), None]


def test_those_left_out_are_listed_with_the_reason(answer):
    found = answer(problem({}, {"channel_gain": 1e-30}, {"queue_j": 1e9}, {"available": False}))
    assert [(entry["device"], entry["code"]) for entry in found["left_out"]] == [
        (1, "channel"), (2, "energy"), (3, "unavailable")
    ]  # fmt: skip
    assert "cannot upload in time" in found["left_out"][0]["reason"]
    assert "left_out" not in answer(problem({}, {"available": False}), "--no-reasons")


def test_devices_go_by_the_ids_of_the_caller(answer, schedule):
    devices = [{"id": "north/7"}, {"id": 12, "queue_j": 1e9}, {"id": "south"}]
    found = answer(problem(*devices, id="round 3"))
    assert (found["id"], found["scheduled"]) == ("round 3", ["north/7", "south"])
    assert found["devices"] == ["north/7", 12, "south"]
    assert [entry["device"] for entry in found["left_out"]] == [12]
    assert answer(problem(*devices, scheduled=["south"]))["scheduled"] == ["south"]
    _, out, _ = schedule(problem({"id": "one"}, {"id": "evil\x1b[2J", "channel_gain": 0}))
    assert "device evil?[2J cannot upload" in out
    code, _, err = schedule(problem({"id": "a"}, {"id": "b", "samples": -1}))
    assert code == 2
    assert 'samples of device "b" is -1' in err


def test_all_that_is_wrong_is_said_at_once(schedule):
    text = problem({"samples": "x"}, {"samples": -1, "odd": 1}, {"queue_j": None}, band=3, deadline_s=0)
    code, _, err = schedule(text)
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("error: the problem has 6 faults: ")
    for part in (
        "the problem has 'band'", "deadline_s is 0", "devices[0].samples is", "samples of device 1 is -1",
        "devices[1] has 'odd'", "devices[2].queue_j is null",
    ):  # fmt: skip
        assert part in err
    _, _, err = schedule(problem(*[{"samples": -1}] * 50))
    assert "the problem has 50 faults" in err
    assert err.endswith("and 30 more\n")


def test_what_is_not_known_may_be_null(answer):
    unknown = {"energy_cap_j": None, "budget_j": None, "rounds_since": None, "last_loss": None}
    assert answer(problem(unknown)) == answer(problem({}))


def test_the_help_names_every_field(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["pmafl", "schedule", "--help"])
    with pytest.raises(SystemExit):
        cli.main()
    text = " ".join(capsys.readouterr().out.split())
    names = [name for name in RoundProblem.__dataclass_fields__ if name not in text]
    assert names == []
    assert all(name in text for name in ("--schema", "--stream", *LISTS, "queue_after_j", "left_out"))


def test_the_schema_is_printed(schedule):
    code, out, _ = schedule("", "--schema")
    assert code == 0
    assert json.loads(out)["$ref"] == "#/$defs/problem"


def test_without_a_problem_the_way_out_is_said(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["pmafl", "schedule"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert "schedule needs PROBLEM.json" in capsys.readouterr().err


def test_a_stream_answers_line_by_line(schedule):
    lines = [problem({}, {}), "{broken", problem({}, id="last")]
    code, out, err = schedule("\n".join(lines) + "\n", "--stream")
    assert (code, err) == (0, "")
    first, second, third = map(json.loads, out.splitlines())
    assert first["scheduled"] == [0, 1]
    assert (second["line"], second["kind"]) == (2, "input")
    assert (third["id"], third["scheduled"]) == ("last", [0])


def test_a_wrong_policy_ends_a_stream_before_its_first_line(schedule):
    code, out, err = schedule(problem({}), "--stream", "--policy", "duel")
    assert (code, out) == (2, "")
    assert "did you mean 'dual'?" in err


def test_devices_may_upload_different_amounts(answer):
    found = answer(problem({"upload_bits": 4e6}, {}, {"upload_bits": 0}))
    assert found["scheduled"] == [0, 1, 2]
    energy_j = found["upload_energy_j"]
    assert 0 <= energy_j[2] < energy_j[0] < energy_j[1]


def test_one_number_stands_for_the_same_number_on_every_device(answer):
    devices = [{}, {"channel_gain": 1e-9}]
    alone = json.loads(problem(*[device | {"upload_bits": 8531968} for device in devices]))
    del alone["upload_bits"]
    assert answer(json.dumps(alone)) == answer(problem(*devices))


def test_what_some_policies_want_to_know_may_stand_beside_the_cell_or_the_device(answer, own_policy):
    text = problem(
        {"rounds_since": 3}, {"last_loss": 0.5, "budget_j": 0.2}, round=7, last_loss=2.0, budget_j=0.1
    )
    own_policy(
        "def known(problem, rng):\n"
        "    assert problem.round == 7\n"
        "    assert problem.rounds_since.tolist() == [3.0, np.inf]\n"
        "    assert problem.last_loss.tolist() == [2.0, 0.5]\n"
        "    assert problem.budget_j.tolist() == [0.1, 0.2]\n"
        "    return allocate_given(problem, problem.last_loss > 1, 'known')\n"
    )
    assert answer(text, "--policy", "own_policy_module:known")["scheduled"] == [0]


def test_a_policy_that_remembers_decides_as_in_its_first_round(answer, own_policy):
    own_policy(
        "class Next:\n"
        "    def start(self, outlook):\n"
        "        return {'next': np.array(outlook.rounds)}\n"
        "    def decide(self, problem, state, rng):\n"
        "        return allocate_given(problem, np.arange(problem.devices) == state['next'], 'next')\n"
    )
    assert answer(problem({}, {}, {}), "--policy", "own_policy_module:Next")["scheduled"] == [1]


def test_steady_asks_for_budgets(schedule, answer):
    code, _, err = schedule(problem({"budget_j": 1}, {}), "--policy", "steady")
    assert code == 2
    assert "device 1 has no energy budget; give every device its budget_j" in err
    assert answer(problem({}, {}, budget_j=5.0), "--policy", "steady")["scheduled"] == [0, 1]


def test_what_an_own_policy_raises_is_one_clear_line(schedule, own_policy):
    own_policy("def broken(problem, rng):\n    return problem.samples / problem.nothing\n")
    code, out, err = schedule(problem({}), "--policy", "own_policy_module:broken")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "policy 'own_policy_module:broken' in round 0: raised AttributeError" in err


def test_options_and_seed_reach_the_policy(answer):
    text = problem(*[{}] * 9)
    draws = [answer(text, "--policy", "uniform", "--option", "count=3", "--seed", seed) for seed in "0012"]
    assert all(len(draw["scheduled"]) == 3 for draw in draws)
    assert draws[0] == draws[1]
    assert len({tuple(draw["scheduled"]) for draw in draws}) > 1


def test_a_fixed_set_is_allocated_or_refused_with_the_reason(schedule, answer):
    found = answer(problem({}, {}, {}, scheduled=[1]))
    assert (found["policy"], found["scheduled"], found["gap"]) == ("fixed", [1], None)
    code, out, err = schedule(problem({}, {"channel_gain": 1e-30}, scheduled=[0, 1]), "--json")
    assert (code, out) == (1, "")
    assert "device 1 cannot upload in time" in err


def test_the_table_says_who_takes_part_and_why_others_do_not(schedule):
    code, out, _ = schedule(problem({}, {"channel_gain": 1e-30}, {"queue_j": 1e9}))
    assert code == 0
    assert "policy dual" in out
    assert "1 of 3 devices with 600 samples" in out
    assert "device 1 cannot upload in time" in out
    assert "device 2 is not worth its energy" in out


def test_a_long_table_is_cut_and_says_so(schedule):
    _, out, _ = schedule(problem(*[{"queue_j": 1e9}] * 150))
    assert "and 50 more were left out" in out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        ("[]", "the problem must be a JSON object with bandwidth_hz"),
        ("{}", "the problem has no bandwidth_hz"),
        (problem(), "devices must be a list of at least one device"),
        (problem(devices={}), "devices must be a list"),
        (problem(devices=[3]), "devices[0] must be a JSON object"),
        (problem(devices=[DEVICE, {"samples": 1}]), "devices[1] has no cycles_per_sample"),
        (problem({"gain": 1}), "devices[0] has 'gain'; its keys are samples"),
        (problem({}, band=1), "the problem has 'band'"),
        (problem({}, {"channel_gain": float("nan")}), "channel_gain of device 1 is nan"),
        (problem({"channel_gain": -1e-8}), "channel_gain of device 0 is -1e-08"),
        (problem({"queue_j": float("inf")}), "queue_j of device 0 is inf"),
        (problem({"samples": "600"}), 'devices[0].samples is "600"; it must be a number'),
        (problem({"samples": True}), "devices[0].samples is true; it must be a number"),
        (problem({"samples": None}), "devices[0].samples is null"),
        (problem({"samples": 10**400}), "devices[0].samples is too large"),
        (
            problem({}).replace("600", "9" * 5000),
            "a whole number of thousands of digits; 1e15 is the largest",
        ),
        (problem({}, deadline_s=0), "deadline_s is 0"),
        (problem({"upload_bits": 0.5}), "upload_bits of device 0 is 0.5; it must be 0, or from 1 to 1e+15"),
        (problem({"upload_bits": "all"}), 'devices[0].upload_bits is "all"; it must be a number'),
        (problem({}, upload_bits=None), "error: upload_bits is null"),
        (problem({"rounds_since": 0}), "rounds_since of device 0 is 0; it must be 1 or more"),
        (problem({}, round=-1), "round is -1"),
        (problem({}, local_iterations=0.5), "local_iterations is 0.5; it must be a whole number"),
        (problem({}, scheduled=[1]), "scheduled must be a list of different device numbers from 0 to 0"),
        (problem({}, scheduled=[0, 0]), "scheduled must be a list of different"),
        (problem({}, scheduled=[True]), "scheduled must be a list of different"),
        (problem({}, scheduled="all"), "scheduled must be a list of different"),
    ],
)
def test_bad_input_is_one_clear_line(schedule, text, said):
    code, out, err = schedule(text, "--json")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert said in err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--policy", "best"], "policy.name = 'best': there is no such policy"),
        (["--policy", "exhaustive"], "exhaustive was given 17 devices; it takes at most 16"),
        (["--policy", "dual", "--option", "speed=1"], "policy 'dual' was given the options speed"),
        (["--policy", "uniform", "--option", "count=99"], "count of policy uniform is 99"),
        (["--policy", "uniform", "--option", "count=abc"], "policy 'uniform', option count = 'abc'"),
        (["--policy", "uniform", "--option", "count=" + "9" * 5000], "thousands of digits"),
    ],
)
def test_a_wrong_policy_or_option_is_one_clear_line(schedule, options, said):
    code, _, err = schedule(problem(*[{}] * 17), *options)
    assert code == 2
    assert said in err


@pytest.mark.parametrize("policy", ["dual", "set-expansion", "ocean", "rs-wel"])
@pytest.mark.parametrize(
    ("devices", "scheduled"),
    [
        ([{}], 1),
        ([{}] * 30, 30),
        ([{"samples": 0}], 0),
        ([{"channel_gain": 1e-30}, {"channel_gain": 0}, {"max_frequency_hz": 1}], 0),
        ([{"channel_gain": 1e3}, {"channel_gain": 1e-12}], 2),
        ([{"queue_j": 0}, {"queue_j": 1e9}], 1),
    ],
)
def test_hostile_devices_get_a_right_answer(answer, policy, devices, scheduled):
    cheap = [{"queue_j": 0.01} | device for device in devices]
    found = answer(problem(*cheap), "--policy", policy)
    if policy != "rs-wel":  # it also takes those that are not worth their energy
        assert len(found["scheduled"]) == scheduled
    assert sum(found["bandwidth_share"]) <= 1 + 1e-9


def test_five_megabytes_are_answered(answer):
    text = problem(*[{"channel_gain": 1e-9 + 1e-15 * i} for i in range(35_000)])
    assert len(text) > 5e6
    assert len(answer(text)["scheduled"]) > 10


def test_a_file_that_cannot_be_read_is_one_clear_line(monkeypatch, capsys, tmp_path):
    for path in (tmp_path / "missing.json", tmp_path):
        monkeypatch.setattr(sys, "argv", ["pmafl", "schedule", str(path)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert end.value.code == 2
        assert "cannot be read" in capsys.readouterr().err


def test_an_own_policy_is_found_by_its_path(tmp_path):
    """From a file beside the user, as a program of its own, and without torch."""
    (tmp_path / "mine.py").write_text(
        "import sys\n"
        "from pmafl.scheduling import allocate_given\n"
        "def strongest(problem, rng):\n"
        "    assert 'torch' not in sys.modules\n"
        "    chosen = problem.channel_gain == problem.channel_gain.max()\n"
        "    return allocate_given(problem, chosen, 'strongest')\n"
    )
    (tmp_path / "problem.json").write_text(problem({}, {"channel_gain": 1e-7}))
    command = [
        sys.executable,
        "-m",
        "pmafl",
        "schedule",
        "problem.json",
        "--policy",
        "mine:strongest",
        "--json",
    ]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(result.stdout)["scheduled"] == [1]
