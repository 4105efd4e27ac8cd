"""pmafl: federated learning over a wireless cell with battery-powered devices."""

__version__ = "0.1.0"
