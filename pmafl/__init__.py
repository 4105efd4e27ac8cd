"""pmafl: federated learning over a wireless cell with battery-powered devices.

>>> import pmafl
>>> settings = pmafl.load_settings("mnist", {"run.learning": "none", "run.rounds": 2})
>>> [record.round for record in pmafl.simulate(settings)]
[0, 1]
"""

import importlib as _importlib  # with an underscore: it is not what the package offers
import typing as _typing

if _typing.TYPE_CHECKING:
    from pmafl import callbacks as callbacks
    from pmafl import errors as errors
    from pmafl import learning as learning
    from pmafl import scheduling as scheduling
    from pmafl import wireless as wireless
    from pmafl.plots import plot_run as plot_run
    from pmafl.rounds import Record as Record
    from pmafl.rounds import simulate as simulate
    from pmafl.runs import Run as Run
    from pmafl.runs import create as create_run
    from pmafl.runs import execute as execute_run
    from pmafl.runs import open_run as open_run
    from pmafl.settings import Settings as Settings
    from pmafl.settings import load as load_settings

    __version__: str

# Loaded on first use: importing the package alone must be fast and must not import torch.
_HOMES = {
    "Record": ("pmafl.rounds", "Record"),
    "Run": ("pmafl.runs", "Run"),
    "Settings": ("pmafl.settings", "Settings"),
    "create_run": ("pmafl.runs", "create"),
    "execute_run": ("pmafl.runs", "execute"),
    "load_settings": ("pmafl.settings", "load"),
    "open_run": ("pmafl.runs", "open_run"),
    "plot_run": ("pmafl.plots", "plot_run"),
    "simulate": ("pmafl.rounds", "simulate"),
}
_ROOMS = ("callbacks", "errors", "learning", "scheduling", "wireless")
__all__ = [
    "Record",
    "Run",
    "Settings",
    "callbacks",
    "create_run",
    "errors",
    "execute_run",
    "learning",
    "load_settings",
    "open_run",
    "plot_run",
    "scheduling",
    "simulate",
    "wireless",
]


def __getattr__(name: str) -> _typing.Any:
    if name == "__version__":
        return _installed_version()
    if name in _ROOMS:
        return _importlib.import_module(f"pmafl.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'pmafl' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(_importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _installed_version() -> str:
    """As `pyproject.toml` had it at the installation."""
    metadata = _importlib.import_module("importlib.metadata")
    try:
        return str(metadata.version("pmafl"))
    except metadata.PackageNotFoundError:  # a copy of the source, or the app that Flower carried to a device
        return "0+uninstalled"
