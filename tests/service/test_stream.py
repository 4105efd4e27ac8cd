"""Lines in, lines out: every one answered, with the policy's memory between them."""

import gc
import io
import json
import random
import sys

import jsonschema
import numpy as np
import pytest

from pmafl.scheduling import POLICIES, begin, find_policy, read_question, schema, tell
from pmafl.service import Asked, serve_lines
from pmafl.streams import stream as random_stream

CELL = {
    "bandwidth_hz": 1e7, "noise_w_per_hz": 3.98e-21, "deadline_s": 2.0, "upload_bits": 8531968,
    "energy_coefficient": 5e-27, "local_iterations": 5, "tradeoff": 0.001,
}  # fmt: skip
DEVICE = {
    "samples": 600, "cycles_per_sample": 137586.5, "max_frequency_hz": 1e9, "max_power_w": 1.0,
    "channel_gain": 1e-8, "queue_j": 0.3, "budget_j": 0.5,
}  # fmt: skip
OUTLOOK = {"rounds": 4, "mean_gain": [1e-8] * 3, "fading": "exponential"}
ERROR = jsonschema.Draft202012Validator({"$ref": "#/$defs/error", "$defs": schema()["$defs"]})


def problem(*devices, **changes):
    return json.dumps(CELL | {"devices": [DEVICE | device for device in devices]} | changes)


def served(lines, asked=None, **limits):
    answers = io.StringIO()
    raw = b"".join(line if isinstance(line, bytes) else line.encode() + b"\n" for line in lines)
    serve_lines(asked or Asked(), io.BytesIO(raw), answers, **limits)
    return [json.loads(line, parse_constant=pytest.fail) for line in answers.getvalue().splitlines()]


def test_every_line_gets_one_answer_in_order():
    odd = ["", "[]", "{", "null", "[" * 10_000, '"\\ud800"', "{}", '{"id": "x"}']
    found = served([problem({}, id=0), *odd, problem({}, id=1)])
    assert [answer.get("id") for answer in found] == [0, *[None] * 7, "x", 1]
    for number, answer in enumerate(found[1:-1], start=2):
        ERROR.validate(answer)
        assert (answer["line"], answer["kind"]) == (number, "input")


def test_the_last_line_needs_no_end_and_windows_ends_are_taken():
    assert len(served([problem({}).encode() + b"\r\n", problem({}).encode()])) == 2
    assert served([]) == []


def test_a_line_that_is_too_long_is_refused_and_the_next_is_served():
    line = problem({})
    long, next_one = served([problem(*[{}] * 9), line], longest=len(line))
    assert "more than" in long["error"]
    assert next_one["scheduled"] == [0]


def test_an_infeasible_set_is_no_answer_but_no_fault():
    (found,) = served([problem({"channel_gain": 0}, scheduled=[0])])
    assert found["kind"] == "no-answer"
    assert "device 0 cannot upload" in found["error"]


def test_rounds_are_counted_unless_they_are_numbered(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "stream_numbers.py").write_text(
        "from pmafl.scheduling import allocate_given\n"
        "def number(problem, rng):\n"
        "    if problem.round > 5: raise ValueError('beyond five')\n"
        "    return allocate_given(problem, problem.samples < 0, str(problem.round))\n"
    )
    lines = [problem({}), problem({}), "odd", problem({}), problem({}, round=5), problem({}), problem({})]
    found = served(lines, Asked("stream_numbers:number"))
    assert [answer.get("policy") for answer in found] == ["0", "1", None, "2", "5", None, None]
    assert "raised ValueError: beyond five" in found[-1]["error"]


def test_draws_follow_the_seed_and_the_round():
    lines = [problem(*[{}] * 9)] * 6
    asked = Asked("uniform", {"count": 2}, seed=3)
    sets = [answer["scheduled"] for answer in served(lines, asked)]
    assert sets == [answer["scheduled"] for answer in served(lines, asked)]
    assert len({tuple(chosen) for chosen in sets}) > 1


def test_a_policy_that_remembers_goes_on_as_in_a_run():
    """Against the contract's own functions, called by hand; a bad line in between changes nothing."""
    policy, gains = find_policy("steady"), [1e-8, 3e-9, 2e-8]
    lines = [problem(*[{"channel_gain": gain}] * 3, outlook=OUTLOOK) for gain in gains]
    found = served([lines[0], "{", lines[1], "", lines[2]], Asked("steady"))
    decided = [answer for answer in found if "error" not in answer]
    state = begin(policy, read_question(lines[0]).outlook, "steady")
    for number, line in enumerate(lines):
        question = read_question(line, number)
        expected = policy.decide(question.problem, state, random_stream(0, "policy", number))
        assert decided[number]["upload_energy_j"] == expected.upload_energy_j.tolist()
        state = tell(policy, state, question.problem, expected, question.outcome(expected), "steady")


def test_what_came_of_a_round_reaches_the_policy():
    def second(outcome):
        lines = [problem(*[{}] * 3, outlook=OUTLOOK), problem(*[{}] * 3, outcome=outcome)]
        return served(lines, Asked("steady"))[1]

    as_decided, spent_all = second(None), second({"energy_j": [2.0, 0.1, 0.1], "failed": [0]})
    assert 0 in as_decided["scheduled"]
    assert 0 not in spent_all["scheduled"]


def test_steady_says_what_it_needs():
    found = served([problem({}), problem({}, outlook=OUTLOOK | {"mean_gain": [1e-8]})], Asked("steady"))
    assert (
        "policy 'steady' before the first round: plans ahead, and needs the number of rounds"
        in (found[0]["error"])
    )
    assert found[1]["scheduled"] == [0]
    many = served([problem({}, outlook=OUTLOOK | {"mean_gain": [1e-8]})] * 5, Asked("steady"))
    assert "round 4 is beyond the 4 that 'steady' planned for" in many[-1]["error"]


def test_a_policy_that_remembers_wants_the_same_devices():
    lines = [problem(*[{}] * 3, outlook=OUTLOOK), problem({}), problem({"id": 1}, {"id": 2}, {"id": 3})]
    found = served(lines, Asked("steady"))
    assert all("remembers 3 devices" in answer["error"] for answer in found[1:])


def many_lines(count):
    """Problems of three devices, one in a hundred broken, made as they are read."""
    rng = random.Random(0)

    class Lines(io.RawIOBase):
        given = 0

        def readline(self, size=-1):
            if self.given == count:
                return b""
            self.given += 1
            line = problem(*[{"channel_gain": rng.uniform(1e-9, 1e-7)} for _ in range(3)], id=self.given)
            return (line[: rng.randrange(len(line))] if self.given % 100 == 0 else line).encode() + b"\n"

    return Lines()


@pytest.mark.parametrize("count", [200, pytest.param(5_000, marks=pytest.mark.heavy)])
def test_many_lines_with_broken_ones_are_all_answered_in_flat_memory(count):
    class Answers(io.StringIO):
        good = bad = 0
        blocks = ()  # of memory in use, after a third of the lines and at the end

        def write(self, line):
            answer = json.loads(line)
            self.good += "scheduled" in answer
            self.bad += "error" in answer
            number = self.good + self.bad
            assert answer.get("id", answer.get("line")) == number
            if number in (count // 3, count):
                gc.collect()
                self.blocks = (*self.blocks, sys.getallocatedblocks())
            return len(line)

    answers = Answers()
    serve_lines(Asked("rs-wel"), many_lines(count), answers)
    assert (answers.good, answers.bad) == (count - count // 100, count // 100)
    early, late = answers.blocks
    assert late < early + 2000


def test_reasons_may_be_left_out():
    (found,) = served([problem({"channel_gain": 0})], Asked(reasons=False))
    assert "left_out" not in found
    assert np.isclose(found["objective"], 0)


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_answers_a_stream_as_it_would_in_a_run(name):
    """With the state that it keeps between lines; what it needs beyond a problem, the first line has."""
    options = {"count": 2} if name == "uniform" else {}
    lines = [problem(*[{"channel_gain": gain}] * 3, outlook=OUTLOOK) for gain in (1e-8, 3e-9, 2e-8)]
    policy, found = find_policy(name, **options), served(lines, Asked(name, options))
    state = begin(policy, read_question(lines[0]).outlook, name)
    for number, line in enumerate(lines):
        question = read_question(line, number)
        expected = policy.decide(question.problem, state, random_stream(0, "policy", number))
        assert found[number]["bandwidth_share"] == expected.bandwidth_share.tolist()
        state = tell(policy, state, question.problem, expected, question.outcome(expected), name)
