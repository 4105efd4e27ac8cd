"""Handing out parts, with workers that are not there: order, memory, and what happens when one dies."""

import random
from types import SimpleNamespace

import pytest

from pmafl.errors import InputError
from pmafl.workers.crew import AHEAD, TRIES, Answer, Crew
from pmafl.workers.tasks import WorkerDied


class Made:
    """A worker that is told when it has done its first part."""

    def __init__(self, ready):
        self.ready, self.parts, self.ended = ready, [], False

    def give(self, number, kind, part):
        assert self.ready
        self.parts.append((number, part))

    def end(self):
        self.ended = True


class MadeUp:
    """Workers of which one after another does something, in an order drawn at random."""

    start_s, part_s = 0.0, 0.0

    def __init__(self, seed, deaths=0.0, deadly=None, ready=True, most=1000):
        self.rng, self.deaths, self.deadly, self.ready = random.Random(seed), deaths, deadly, ready
        self.hired, self.done, self.dead, self.most = [], [], 0, most

    def hire(self):
        if len(self.hired) == self.most:
            raise OSError(11, "too many")
        self.hired.append(Made(self.ready))
        return self.hired[-1]

    def share(self, shared):
        assert not any(worker.parts for worker in self.hired if not worker.ended)

    def wait(self, workers, timeout_s):
        able = [worker for worker in workers if worker.parts or not worker.ready]
        if timeout_s is not None and (not able or self.rng.random() < 0.5):
            return []
        assert able, "waits for nobody"
        return [
            (worker, self._event(worker)) for worker in self.rng.sample(able, self.rng.randint(1, len(able)))
        ]

    def _event(self, worker):
        if self.rng.random() < self.deaths or (worker.parts and worker.parts[0][1][0] == self.deadly):
            self.dead += 1
            return WorkerDied("died")
        if not worker.ready:
            worker.ready = True
            return "ready"
        number, part = worker.parts.pop(0)
        self.done.append(number)
        error = InputError(f"part {part[0]}") if part[0] in ("bad", "worse") else None
        return Answer(number, part[0], error, 0.0)

    def close(self):
        assert all(worker.ended for worker in self.hired)


def work(names, costs=None):
    return SimpleNamespace(
        kind="train", shared={}, parts=[(name,) for name in names], costs=costs or [1] * len(names)
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ready", [True, False])
def test_answers_come_in_the_order_of_parts_whoever_is_first_and_whoever_dies(seed, ready):
    place = MadeUp(seed, deaths=0.03, ready=ready)
    crew = Crew(place, 3)
    for _ in range(3):
        answers = crew.spread(work(range(50)), window=8)
        assert [answer.result for answer in answers] == list(range(50))
    crew.close()
    assert len(place.hired) == 3 + place.dead - sum(not worker.ended for worker in place.hired)


def test_nobody_works_further_ahead_than_the_window():
    place = MadeUp(1)
    crew = Crew(place, 4)
    costs = list(range(100))  # the last is the longest, and would go first
    for given, _ in enumerate(crew.spread(work(range(100), costs), window=10)):
        begun = {number for worker in place.hired for number, _ in worker.parts} | set(place.done)
        assert max(begun) < given + 10
    crew.close()


def test_the_longest_part_goes_first_and_the_last_ones_go_to_whoever_is_free():
    place = MadeUp(1)
    crew = Crew(place, 2)
    answers = crew.spread(work("abcdef", [1, 6, 3, 2, 5, 4]), window=100)
    next(answers)
    assert place.done[0] in (1, 4)
    assert set(place.done[:4]) >= {1, 4, 5}
    list(answers)
    crew.close()
    assert AHEAD == 2


def test_there_are_no_more_workers_than_parts():
    place = MadeUp(1)
    crew = Crew(place, 16)
    list(crew.spread(work("ab"), window=100))
    assert len(place.hired) == 2
    crew.close()


@pytest.mark.parametrize("seed", range(5))
def test_of_two_errors_the_one_that_comes_first_alone_is_raised(seed):
    crew = Crew(MadeUp(seed), 3)
    answers = crew.spread(work(["a", "b", "bad", "c", "worse", "d"], [1, 1, 1, 1, 9, 1]), window=100)
    assert [next(answers).result, next(answers).result] == ["a", "b"]
    with pytest.raises(InputError, match="part bad"):
        next(answers)
    crew.close()


def test_a_part_that_kills_its_workers_is_given_up_with_what_would_be_right(capsys):
    place = MadeUp(1, deadly="b")
    crew = Crew(place, 2)
    with pytest.raises(InputError, match=r"device b: 3 workers died of it; .* use fewer workers \(--workers"):
        list(crew.spread(work("abc"), window=100))
    crew.close()
    assert place.dead == TRIES
    assert capsys.readouterr().err.count("warning: the worker of device b died") == TRIES - 1


def test_workers_that_never_start_are_given_up():
    crew = Crew(MadeUp(1, deaths=1.0, ready=False), 2)
    with pytest.raises(InputError, match="no worker can start: the last one died"):
        list(crew.spread(work("abc"), window=100))
    crew.close()


def test_where_no_more_workers_can_start_fewer_do_it(capsys):
    place = MadeUp(1, most=2)
    crew = Crew(place, 5)
    assert [answer.result for answer in crew.spread(work("abcdef"), window=100)] == list("abcdef")
    crew.close()
    assert capsys.readouterr().err == "warning: no more than 2 workers (too many)\n"
    crew = Crew(MadeUp(1, most=0), 5)
    with pytest.raises(InputError, match=r"^no worker can start \(too many\); use --workers 1$"):
        list(crew.spread(work("abc"), window=100))


def test_work_that_is_left_half_way_does_not_disturb_the_next():
    place = MadeUp(1)
    crew = Crew(place, 2)
    answers = crew.spread(work(range(20)), window=100)
    next(answers)
    answers.close()
    assert [answer.result for answer in crew.spread(work("xyz"), window=100)] == list("xyz")
    crew.close()
