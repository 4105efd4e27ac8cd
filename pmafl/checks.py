"""Whether settings can run, found out before the first of many runs and without training.

The world of each run is built without its learning side, which tells of names, options, sizes, traces and
the deadline; each policy decides one round, since some look at their options only then; and the data that
devices train with is read. What several settings have in common is looked at once.
"""

from collections.abc import Iterable
from importlib.util import find_spec

from pmafl import data
from pmafl.rounds import play
from pmafl.settings import DataSettings, Settings
from pmafl.world import wireless_world


def check(several: Iterable[Settings], here: bool = True) -> None:
    """Refuse settings that cannot run; `here`: they are to run on this machine, with its files and GPU."""
    several = list(several)
    seen: set[str] = set()
    own_data: dict[tuple[str, str, data.Reading], data.Dataset] = {}

    def is_new(*facts: object) -> bool:
        before = len(seen)
        seen.add(repr(facts))
        return len(seen) > before

    for settings in several:
        fleet, run, policy = settings.fleet, settings.run, settings.policy
        place = _place(settings.data)
        if settings.data.dataset not in (*data.KNOWN, "none") and place not in own_data:
            own_data[place] = data.load_data(settings.data)
        new_world = is_new(
            settings.cell, fleet, settings.data, settings.learning, run.seed, run.rounds, run.wireless
        )
        new_policy = is_new(policy.name, policy.options, fleet.devices, run.wireless)
        if new_world or new_policy:
            world = wireless_world(settings, own_data.get(place))
            if new_policy:
                next(play(world))
    for settings in several if here else ():  # data are fetched when all else is right
        if settings.run.learning == "full" and is_new(_place(settings.data), settings.learning.device):
            _check_training(settings)


def _place(choice: DataSettings) -> tuple[str, str, data.Reading]:
    """Where data are, and how they are read."""
    return choice.dataset, choice.directory, data.reading_of(choice)


def _check_training(settings: Settings) -> None:
    """What only a run that learns needs; torch is asked only where it alone can tell."""
    if find_spec("torch") is None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")
    if settings.data.dataset in data.KNOWN:
        data.load_data(settings.data)
    if settings.learning.device == "cuda":
        from pmafl.learning.method import find_device

        find_device("cuda")
