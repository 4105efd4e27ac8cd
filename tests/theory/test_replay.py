import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from pmafl.errors import InputError, NoAnswer
from pmafl.learning.task import LearningTask
from pmafl.theory.replay import measure, replay
from tests.learning.synthetic import dataset, learning, partition, task, whole_model

SCHEDULE = [[0, 1], [], [3], [0, 1, 2, 3], [2]]


def whole_model_losses(made, state):
    """Training loss of every device, straight from the module."""
    model, losses = made.method.model, []
    for device in range(len(made.samples)):
        model.load(whole_model(made, state, device))
        samples = made.device_samples(device)
        with torch.no_grad():
            losses.append(float(functional.cross_entropy(model.module(samples.x), samples.y)))
    return np.array(losses)


@pytest.mark.parametrize("algorithm", ["pma", "fedavg"])
def test_losses_are_the_sample_weighted_training_losses_of_all_devices(algorithm):
    made = task(algorithm=algorithm)
    found = measure(made, SCHEDULE, points=3, probed=1)
    assert found.rounds.tolist() == [0, 2, 5]
    states = dict(replay(made, SCHEDULE))
    for done, loss in zip(found.rounds, found.losses, strict=True):
        expected = np.average(whole_model_losses(made, states[int(done)]), weights=made.samples)
        assert loss == pytest.approx(expected, rel=1e-5)
    assert float(found.test_loss) == made.evaluate(states[5]).loss


def test_gradient_norms_are_those_of_the_shared_part():
    made = task()
    found = measure(made, SCHEDULE, points=2, probed=1)
    state = made.start()
    model, gradients = made.method.model, []
    for device in range(len(made.samples)):
        model.load(whole_model(made, state, device))
        samples = made.device_samples(device)
        model.train_only(shared=True, personal=True)
        loss = functional.cross_entropy(model(samples.x), samples.y)
        slopes = torch.autograd.grad(loss, model.shared)
        gradients.append(torch.cat([slope.reshape(-1) for slope in slopes]).double().numpy())
    mean = np.average(gradients, axis=0, weights=made.samples)
    assert found.device_norms_squared[0] == pytest.approx([g @ g for g in gradients], rel=1e-4)
    assert found.global_norms_squared[0] == pytest.approx(mean @ mean, rel=1e-4)


def softmax_regression(input_shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(input_shape)), classes))


def test_smoothness_of_a_model_without_kinks_is_that_of_its_exact_hessian():
    """Weights shared, biases personal; the Hessian is the mean of (diag(p) - p p') kron (x, 1)(x, 1)'."""
    data = dataset((1, 3, 3))
    chosen = learning("tests.theory.test_replay:softmax_regression", shared_prefix="1.weight")
    made = LearningTask(chosen, data, partition(data), seed=3)
    found = measure(made, SCHEDULE, points=2, probed=4)
    *_, (_, state) = replay(made, SCHEDULE)
    model = made.method.model
    for index, device in enumerate(found.probed_devices.astype(int)):
        samples = made.device_samples(device)
        model.load(whole_model(made, state, device))
        p = model(samples.x).softmax(dim=1).detach().double().numpy()
        x = samples.x.flatten(1).double().numpy()
        spread = np.einsum("ni,ij->nij", p, np.eye(10)) - np.einsum("ni,nj->nij", p, p)
        u = np.einsum("nij,na,nb->iajb", spread, x, x).reshape(90, 90) / len(x)
        cross = np.einsum("nij,na->iaj", spread, x).reshape(90, 10) / len(x)
        exact = [np.linalg.norm(block, 2) for block in (u, spread.mean(axis=0), cross, cross)]
        assert found.hessian_norms[-1, index] == pytest.approx(exact, rel=1e-2)
        assert np.all(found.step_norms[-1, index] <= np.array(exact) * 1.3)  # they move with the step


def test_measuring_twice_gives_the_same_numbers_to_the_bit():
    one, other = (measure(task(), SCHEDULE[:2], points=2, probed=1) for _ in range(2))
    assert one.to_dict() == other.to_dict()


def test_without_personal_parts_there_is_no_predictors_curvature():
    found = measure(task(algorithm="fedavg"), SCHEDULE[:1], points=2, probed=1)
    assert np.all(found.smoothness[:, :, 0] > 0)
    assert np.all(found.smoothness[:, :, 1:] == 0)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"algorithm": "local"}, "shares no parameters"),
        ({"model": "tests.learning.user_models:with_dropout", "shared_layers": 1}, "dropout"),
    ],
)
def test_runs_that_the_bound_is_not_about_are_refused(changes, reason):
    with pytest.raises(InputError, match=reason):
        measure(task(**changes), SCHEDULE, points=2, probed=1)


def test_a_run_that_diverged_has_no_bound():
    made = task(extractor_rate=1e12, predictor_rate=1e12, upload_bits_per_parameter=32)
    with pytest.raises(NoAnswer, match="diverged"):
        measure(made, SCHEDULE, points=2, probed=1)
