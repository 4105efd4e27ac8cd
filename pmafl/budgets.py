"""Whether devices kept their energy budgets in a run: measured for its summary, and said in words."""

from collections.abc import Mapping, Sequence
from typing import Any

from pmafl.rounds import energy_of
from pmafl.settings import PolicySettings
from pmafl.wireless import Array

ROUNDING = 1e-6  # of a budget: sums over the rounds of a run that spends all of it may end above
# Those that weigh energy by the queues, and so by V, and that heed a cap on what a device may still spend.
QUEUE_POLICIES = ("set-expansion", "dual", "exhaustive", "ocean")


def measure(
    spent_j: Array, budget_j: Array, records: Sequence[Mapping[str, Any]], wireless: bool
) -> dict[str, float | int | None]:
    """The part of a summary that tells of budgets, each device held against its own.

    Args:
        spent_j: by each device in the whole run.
        budget_j: of each device for a round.
        records: the rounds.
        wireless: whether energy was counted at all; None everywhere if not.
    """
    names = ("devices_over_budget", "max_share_of_budget", "max_over_budget_j", "max_round_energy_j")
    if not wireless:
        return dict.fromkeys(names)
    total_j = budget_j * len(records)
    largest_j = max((float(energy_of(r).max(initial=0.0)) for r in records), default=0.0)
    values = (
        int((spent_j > (1 + ROUNDING) * total_j).sum()),
        float((spent_j / total_j).max()),
        max(float((spent_j - total_j).max()), 0.0),
        largest_j,
    )
    return dict(zip(names, values, strict=True))


def in_words(summaries: Sequence[Mapping[str, Any]], policy: PolicySettings) -> str:
    """How far runs of one policy broke their devices' budgets, and what keeps them; nothing if all held."""
    broken = [summary for summary in summaries if summary.get("devices_over_budget")]
    if not broken:
        return ""
    runs = f"in {len(broken)} of {len(summaries)} runs " if len(summaries) > 1 else ""
    most = max(broken, key=lambda summary: summary["devices_over_budget"])
    count = ("up to " if len(broken) > 1 else "") + f"{most['devices_over_budget']} of {most['devices']}"
    worst = max(summary["max_share_of_budget"] for summary in broken)
    advice = _advice(broken, policy)
    return (
        f"energy budgets were broken: {runs}{count} devices spent more than their budget, "
        f"the worst {worst:.4g} times as much" + (f"; {advice}" if advice else "")
    )


def _advice(broken: Sequence[Mapping[str, Any]], policy: PolicySettings) -> str:
    """What would keep the budgets; nothing for a policy that plans within them, whose devices report more."""
    heeds_caps = policy.name in QUEUE_POLICIES
    if policy.name == "steady" or (heeds_caps and policy.hard_budget):
        return ""
    if not heeds_caps:
        return 'policy.name = "steady" keeps them'
    advice = 'policy.name = "steady" or policy.hard_budget = true keeps them'
    # However small V is, a device with an empty queue may be scheduled, and ends that far above its budget.
    if any(summary["max_over_budget_j"] > summary["max_round_energy_j"] for summary in broken):
        advice += f", a smaller policy.tradeoff than {policy.tradeoff:g} breaks them by less"
    return advice
