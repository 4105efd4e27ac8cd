from pmafl import display
from pmafl.progress import listening, report


def test_only_who_is_listening_hears():
    heard = []
    report("work", 0.1)
    with listening(lambda work, part: heard.append((work, part))):
        report("work", 0.5)
    report("work", 1.0)
    assert heard == [("work", 0.5)]


def test_short_work_shows_nothing_and_long_work_a_line_now_and_then(monkeypatch):
    lines, now_s = [], 0.0
    monkeypatch.setattr(display.time, "monotonic", lambda: now_s)
    listener = display.patiently(lines.append)
    for now_s in (0.0, 1.0, 1.9):
        listener("prices", now_s / 10)
    assert lines == []
    for now_s in (2.5, 3.0, 4.0, 4.6):
        listener("prices", now_s / 10)
    assert lines == ["prices: 25%", "prices: 46%"]


def test_planning_tells_how_far_it_is():
    from pmafl.scheduling import find_policy
    from pmafl.settings import load
    from pmafl.world import outlook, wireless_world

    world = wireless_world(load("mnist", {"policy.name": "steady", "fleet.devices": 30}))
    heard = []
    with listening(lambda work, part: heard.append(part)):
        find_policy("steady").start(outlook(world))
    assert heard[0] == 0
    assert heard == sorted(heard)
    assert heard[-1] == 1
