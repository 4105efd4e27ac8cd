"""pmafl: federated learning over a wireless cell with battery-powered devices.

>>> import pmafl
>>> settings = pmafl.load_settings("mnist", {"run.learning": "none", "run.rounds": 2})
>>> [record.round for record in pmafl.simulate(settings)]
[0, 1]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pmafl.plots import plot_run as plot_run
    from pmafl.rounds import Record as Record
    from pmafl.rounds import simulate as simulate
    from pmafl.runs import create as create_run
    from pmafl.runs import execute as execute_run
    from pmafl.settings import Settings as Settings
    from pmafl.settings import load as load_settings

__version__ = "0.1.0"

# Loaded on first use: importing the package alone must be fast and must not import torch.
_HOMES = {
    "Record": ("pmafl.rounds", "Record"),
    "Settings": ("pmafl.settings", "Settings"),
    "create_run": ("pmafl.runs", "create"),
    "execute_run": ("pmafl.runs", "execute"),
    "load_settings": ("pmafl.settings", "load"),
    "plot_run": ("pmafl.plots", "plot_run"),
    "simulate": ("pmafl.rounds", "simulate"),
}
__all__ = [
    "Record",
    "Settings",
    "create_run",
    "execute_run",
    "load_settings",
    "plot_run",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'pmafl' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)
