import pytest

from pmafl.learning.architecture import cnn, mlp
from pmafl.learning.workload import workload
from tests.learning.synthetic import learning, task


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


@pytest.mark.parametrize("model", ["mlp", "cnn", "tests.learning.user_models:nested"])
@pytest.mark.parametrize("algorithm", ["pma", "fedavg"])
def test_a_task_costs_what_was_announced(model, algorithm):
    made = task(model, algorithm=algorithm, shared_layers=1)
    shape = {"cnn": (3, 32, 32)}.get(model, (1, 28, 28))
    assert made.method.workload == workload(made_settings(model, algorithm), shape)


def made_settings(model, algorithm):
    return learning(model, algorithm=algorithm, shared_layers=1)
