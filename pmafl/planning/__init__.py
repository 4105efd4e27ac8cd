"""Whether a fleet's batteries can bear federated learning, and with what settings, before any training."""

from pmafl.planning.answers import Answer, answer, unbeaten
from pmafl.planning.feasibility import REASONS, Feasibility, find_reasons
from pmafl.planning.forecasts import Forecast, Optimum, forecast, make_devices, optimise, worth
from pmafl.planning.goals import Goal, in_words, parse_goal
from pmafl.planning.learning import Curve, read_curve
from pmafl.planning.request import Choice, Request, read_request

__all__ = [
    "REASONS",
    "Answer",
    "Choice",
    "Curve",
    "Feasibility",
    "Forecast",
    "Goal",
    "Optimum",
    "Request",
    "answer",
    "find_reasons",
    "forecast",
    "in_words",
    "make_devices",
    "optimise",
    "parse_goal",
    "read_curve",
    "read_request",
    "unbeaten",
    "worth",
]
