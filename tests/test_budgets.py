import numpy as np
import pytest
from rich.console import Console

from pmafl import budgets, comparison, runs
from pmafl.display import summary_table, warn
from pmafl.settings import load

SMALL = {
    "run.learning": "none",
    "run.rounds": 25,
    "fleet.devices": 10,
    "fleet.samples": 600,
    "cell.bandwidth_hz": 5e6,
    "policy.tradeoff": 0.1,
}
COUNTS = {"uniform": {"count": 2}}


def run(directory, **changes):
    """The summary of a small run, and what is said of its budgets."""
    overrides = SMALL | {key.replace("__", "."): value for key, value in changes.items()}
    settings = load("mnist", overrides)
    runs.create(directory, settings)
    summary = runs.execute(directory)
    return summary, budgets.in_words([summary], settings.policy)


@pytest.mark.parametrize("policy", ["set-expansion", "dual", "exhaustive", "ocean"])
def test_what_is_advised_keeps_the_budgets(policy, tmp_path):
    summary, said = run(tmp_path / "broken", policy__name=policy)
    assert summary["devices_over_budget"] == 10
    assert (
        f"10 of 10 devices spent more than their budget, the worst {summary['max_share_of_budget']:.4g}"
        in said
    )
    assert 'policy.name = "steady" or policy.hard_budget = true keeps them' in said
    for name, change in {"hard": {"policy__hard_budget": True, "policy__name": policy},
                         "steady": {"policy__name": "steady"}}.items():  # fmt: skip
        kept, silence = run(tmp_path / name, **change)
        assert kept["devices_over_budget"] == 0
        assert kept["max_share_of_budget"] <= 1 + budgets.ROUNDING
        assert silence == ""
    assert "a smaller policy.tradeoff than 0.1 breaks them by less" in said
    less, _ = run(tmp_path / "less", policy__name=policy, policy__tradeoff=0.001)
    assert less["max_share_of_budget"] < summary["max_share_of_budget"]


@pytest.mark.parametrize("policy", ["rs-wel", "uniform"])
def test_a_policy_without_budgets_is_told_of_steady_alone(policy, tmp_path):
    summary, said = run(tmp_path / "run", policy__name=policy, policy__options=COUNTS.get(policy, {}))
    assert summary["devices_over_budget"] > 0
    assert said.endswith('; policy.name = "steady" keeps them')


def test_a_smaller_tradeoff_is_not_named_where_the_first_round_alone_breaks_the_budgets(tmp_path):
    summary, said = run(tmp_path / "run", policy__name="ocean", policy__tradeoff=1e-9)
    assert summary["devices_over_budget"] > 0
    assert summary["max_over_budget_j"] < summary["max_round_energy_j"]
    assert "hard_budget" in said
    assert "tradeoff" not in said


def test_each_device_is_held_against_its_own_budget():
    records = [{"compute_energy_j": [1.0, 6.0], "upload_energy_j": [1.0, 2.0]}, {"compute_energy_j": [2.0],
                "upload_energy_j": [0.5]}]  # fmt: skip
    found = budgets.measure(np.array([4.5, 8.0, 0.0]), np.array([1.0, 8.0, 1.0]), records, wireless=True)
    assert found == {
        "devices_over_budget": 1,
        "max_share_of_budget": 2.25,
        "max_over_budget_j": 2.5,
        "max_round_energy_j": 8.0,
    }


def test_spending_all_of_a_budget_does_not_break_it():
    record = {"compute_energy_j": [0.1], "upload_energy_j": [0.2]}
    assert budgets.measure(np.array([0.1 + 0.2]), np.array([0.3]), [record], True)["devices_over_budget"] == 0


def test_without_the_wireless_side_nothing_is_said(tmp_path, tiny):
    settings = load("mnist", tiny | {"run.wireless": "none", "policy.name": "all", "run.rounds": 1})
    runs.create(tmp_path / "run", settings)
    summary = runs.execute(tmp_path / "run")
    assert summary["devices_over_budget"] is None
    assert budgets.in_words([summary], settings.policy) == ""


def test_runs_of_an_older_version_are_shown_without_a_word_on_budgets(tmp_path):
    summary, _ = run(tmp_path / "run", policy__name="dual")
    older = {key: value for key, value in summary.items() if "budget" not in key or key == "budget_j"}
    assert budgets.in_words([older], load("mnist").policy) == ""
    assert summary_table(older).row_count == summary_table(summary).row_count


def test_a_comparison_has_a_line_for_each_variation_that_breaks_budgets(tmp_path):
    vary = {"policy.name": ["dual", "steady", "rs-wel"]}
    jobs = comparison.grid("mnist", SMALL, vary, [1, 2], tmp_path)
    comparison.run_locally(jobs, 1, lambda done, total: None)
    console = Console(record=True, width=80)
    warn(console, comparison.broken_budgets(jobs))
    dual, rs_wel = console.export_text().splitlines()
    assert dual.startswith("policy=dual: energy budgets were broken: in 2 of 2 runs up to 10 of 10 devices")
    assert "hard_budget" in dual
    assert rs_wel.startswith("policy=rs-wel: energy budgets were broken")
    assert "hard_budget" not in rs_wel
