import pytest

from pmafl.learning.architecture import cnn, mlp
from pmafl.learning.workload import workload
from tests.learning.synthetic import SMALLEST, learning, task


def test_the_upload_is_the_shared_part():
    assert workload(learning(algorithm="pma")).upload_bits == 16 * 533_248
    assert workload(learning(algorithm="fedrep")).upload_bits == 16 * 533_248
    assert workload(learning(algorithm="fedavg")).upload_bits == 16 * 550_346
    assert workload(learning(algorithm="local")).upload_bits == 0


def test_operations_are_counted_unless_given():
    assert workload(learning("mlp")).operations_per_sample == 550_346
    assert (
        workload(learning("mlp", operations_per_sample="count")).operations_per_sample == mlp().multiply_adds
    )
    assert workload(learning("cnn")).operations_per_sample == cnn().multiply_adds


def test_fedrep_is_charged_for_the_work_it_does():
    assert workload(learning(algorithm="fedrep")).charged_iterations == 10
    assert workload(learning(algorithm="fedrep", options={"work": "equal"})).charged_iterations == 5
    assert workload(learning(algorithm="pma")).charged_iterations == 5


COSTS = {  # passes in a round, models up, models down, passes before a test
    "ditto": (10, 1, 1, 0),
    "apfl": (10, 1, 1, 0),
    "pfedme": (25, 1, 1, 0),
    "per-fedavg": (10, 1, 1, 1),
    "scaffold": (5, 2, 2, 0),
    "feddyn": (5, 1, 1, 0),
    "fedavgm": (5, 1, 1, 0),
    "fedadam": (5, 1, 1, 0),
    "fine-tune": (5, 1, 1, 5),
    "fedprox": (5, 1, 1, 0),
    "local": (5, 0, 0, 0),
}


@pytest.mark.parametrize("name", COSTS)
def test_an_algorithm_costs_its_iterations_and_what_travels(name):
    iterations, up, down, tuning = COSTS[name]
    found = workload(learning(algorithm=name))
    assert found.charged_iterations == iterations
    assert found.upload_bits == 16 * up * 550_346
    assert found.download_bits == 32 * down * 550_346
    assert found.tuning_iterations == tuning


def test_what_is_not_shared_does_not_travel():
    """The paper's split: 533,248 of 550,346 parameters below it."""
    for name, parameters in (("fedper", 533_248), ("fedbabu", 533_248), ("lg-fedavg", 17_098)):
        found = workload(learning(algorithm=name))
        assert (found.upload_bits, found.download_bits) == (16 * parameters, 32 * parameters)
    assert workload(learning(algorithm="fedbabu", options={"tuning_iterations": 2})).tuning_iterations == 2


def test_options_change_what_is_charged():
    def charged(name, **options):
        return workload(learning(algorithm=name, options=options)).charged_iterations

    assert charged("ditto", personal_iterations=2) == 7
    assert charged("pfedme", steps=2) == 10
    assert charged("per-fedavg", rate=0.0) == 5


@pytest.mark.parametrize("model", ["mlp", "cnn", "tests.learning.user_models:nested"])
@pytest.mark.parametrize("algorithm", ["pma", "fedavg"])
def test_a_task_costs_what_was_announced(model, algorithm):
    made = task(model, algorithm=algorithm, shared_layers=1)
    shape = SMALLEST.get(model, (1, 28, 28))
    assert made.method.workload == workload(made_settings(model, algorithm), shape)


def made_settings(model, algorithm):
    return learning(model, algorithm=algorithm, shared_layers=1)
