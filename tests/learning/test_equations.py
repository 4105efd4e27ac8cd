"""Each algorithm against its paper's equations, written down again in double precision with autograd.

Three rounds on a network without kinks, each with other devices, so that what absent ones hold counts too.
Devices are weighted by their samples where a paper has a mean over devices.
"""

from collections import defaultdict
from copy import deepcopy

import pytest
import torch
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from pmafl.learning.algorithms import ALGORITHMS
from pmafl.streams import stream
from tests.learning.synthetic import learning, task, whole_model
from tests.rounding import FLOAT32

SEED, RATE, PASSES, DEVICES = 3, 0.1, 2, range(4)
ROUNDS = [[0, 1], [1, 2, 3], [0, 3]]
CLOSE = 10 * FLOAT32  # of what training changed: three rounds of some ten steps each


class Plain:
    """The same devices, samples and batches, and gradients by autograd; the package trains nothing here."""

    def __init__(self, made, batch_size):
        self.start = whole_model(made, made.start(), 0).double()
        self.split = made.method.model.split
        self.module = deepcopy(made.method.model.module).double()
        named = made.method.model.module.named_parameters()
        self.shapes = {name: p.shape for name, p in sorted(named, key=lambda one: one[1].storage_offset())}
        self.samples = [made.device_samples(k) for k in DEVICES]
        self.batch_size = batch_size

    def gradient(self, weights, k, rows):
        weights = weights.detach().requires_grad_()
        parts = torch.split(weights, [shape.numel() for shape in self.shapes.values()])
        named = {name: part.view(self.shapes[name]) for name, part in zip(self.shapes, parts, strict=True)}
        scores = functional_call(self.module, named, (self.samples[k].x[rows].double(),))
        return torch.autograd.grad(cross_entropy(scores, self.samples[k].y[rows]), weights)[0]

    def one_pass(self, k, rng):
        count = len(self.samples[k].y)
        if not self.batch_size:
            return [torch.arange(count)]
        return torch.from_numpy(rng.permutation(count)).split(self.batch_size)

    def batches(self, k, rng, passes=PASSES):
        for _ in range(passes):
            yield from self.one_pass(k, rng)

    def sgd(self, weights, k, rng, extra=lambda w: 0.0, part=slice(None), passes=PASSES):
        """Plain steps along the gradient and `extra`, in one part of the weights."""
        for rows in self.batches(k, rng, passes):
            step = RATE * (self.gradient(weights, k, rows) + extra(weights))
            weights = weights.clone()
            weights[part] -= step[part]
        return weights

    def mean(self, found):
        total = sum(len(self.samples[k].y) for k in found)
        return sum(len(self.samples[k].y) / total * value for k, value in found.items())

    def over_all(self, found):
        """Over all devices, absent ones as zeros."""
        return self.mean({k: found.get(k, torch.zeros_like(self.start)) for k in DEVICES})


def rounds():
    for t, scheduled in enumerate(ROUNDS):
        yield {k: stream(SEED, "batches", t, k) for k in scheduled}


def tuning(k):
    return stream(SEED, "tuning", k)


def fedavg(plain, **options):
    w = plain.start
    for rngs in rounds():
        w = plain.mean({k: plain.sgd(w, k, rng) for k, rng in rngs.items()})
    return [w] * 4


def fedprox(plain, proximal_weight):
    w = plain.start
    for rngs in rounds():
        pull = lambda v, w=w: proximal_weight * (v - w)  # noqa: E731
        w = plain.mean({k: plain.sgd(w, k, rng, pull) for k, rng in rngs.items()})
    return [w] * 4


def shared_and_own(plain, train, shared):
    """Every device has a whole model, and only one part of it comes from the mean."""
    w, own = plain.start.clone(), [plain.start.clone() for _ in DEVICES]
    for rngs in rounds():
        for k, rng in rngs.items():
            own[k][shared] = w[shared]
            own[k] = train(own[k], k, rng)
        w[shared] = plain.mean({k: own[k] for k in rngs})[shared]
    for model in own:
        model[shared] = w[shared]
    return own


def fedper(plain):
    return shared_and_own(plain, plain.sgd, slice(plain.split))


def lg_fedavg(plain):
    return shared_and_own(plain, plain.sgd, slice(plain.split, None))


def fedrep(plain, order="head-first"):
    parts = [slice(plain.split, None), slice(plain.split)]

    def train(w, k, rng):
        for part in parts if order == "head-first" else reversed(parts):
            w = plain.sgd(w, k, rng, part=part)
        return w

    return shared_and_own(plain, train, parts[1])


def fedbabu(plain, tuning_iterations):
    body = slice(plain.split)
    own = shared_and_own(plain, lambda w, k, rng: plain.sgd(w, k, rng, part=body), body)
    for model in own:
        assert torch.equal(model[plain.split :], plain.start[plain.split :])
    return [plain.sgd(own[k], k, tuning(k), passes=tuning_iterations) for k in DEVICES]


def fine_tune(plain, tune):
    part = {"all": slice(None), "head": slice(plain.split, None)}[tune]
    w = fedavg(plain)[0]
    return [plain.sgd(w, k, tuning(k), part=part) for k in DEVICES]


def ditto(plain, weight):
    """Algorithm 1: v_k <- v_k - eta (grad F_k(v_k) + lambda (v_k - w_t))."""
    w, v = plain.start, [plain.start] * 4
    for t, rngs in enumerate(rounds()):
        for k in rngs:
            pull = lambda own, w=w: weight * (own - w)  # noqa: E731
            v[k] = plain.sgd(v[k], k, stream(SEED, "batches", t, k), pull)
        w = plain.mean({k: plain.sgd(w, k, rng) for k, rng in rngs.items()})
    return v


def apfl(plain, mixing, mixing_rate=0.0):
    """Algorithm 1, and alpha by one step of its equation (9) in the first step of a round."""
    w, v, alpha = plain.start, [plain.start] * 4, [mixing] * 4
    for rngs in rounds():
        found = {}
        for k, rng in rngs.items():
            w_k, v_k = w, v[k]
            for step, rows in enumerate(plain.batches(k, rng)):
                a = alpha[k]
                at_mixture = plain.gradient(a * v_k + (1 - a) * w_k, k, rows)
                if step == 0:
                    moved = a - mixing_rate * float(at_mixture @ (v_k - w_k))
                    alpha[k] = min(max(moved, 0.0), 1.0)
                w_k, v_k = w_k - RATE * plain.gradient(w_k, k, rows), v_k - RATE * a * at_mixture
            found[k], v[k] = w_k, v_k
        w = plain.mean(found)
    return [a * own + (1 - a) * w for a, own in zip(alpha, v, strict=True)]


def pfedme(plain, weight, steps, rate, server_rate):
    """Algorithm 1: theta by K gradient steps, w_k <- w_k - eta lambda (w_k - theta), beta on the server."""
    w, theta = plain.start, [plain.start] * 4
    for rngs in rounds():
        found = {}
        for k, rng in rngs.items():
            w_k = theta[k] = w
            for rows in plain.batches(k, rng):
                for _ in range(steps):
                    if plain.batch_size:
                        rng.permutation(len(rows))  # a batch of its own has an order too
                    inner = plain.gradient(theta[k], k, rows) + weight * (theta[k] - w_k)
                    theta[k] = theta[k] - RATE * inner
                w_k = w_k - rate * weight * (w_k - theta[k])
            found[k] = w_k
        w = (1 - server_rate) * w + server_rate * plain.mean(found)
    return theta


def per_fedavg(plain, rate):
    """Algorithm 1 with the first-order approximation: the Hessian's term left out."""
    w = plain.start
    for rngs in rounds():
        found = {}
        for k, rng in rngs.items():
            w_k = w
            for _ in range(PASSES):
                for one, other in zip(plain.one_pass(k, rng), plain.one_pass(k, rng), strict=True):
                    adapted = w_k - rate * plain.gradient(w_k, k, one)
                    w_k = w_k - RATE * plain.gradient(adapted, k, other)
            found[k] = w_k
        w = plain.mean(found)
    everything = [torch.arange(len(samples.y)) for samples in plain.samples]
    return [w - rate * plain.gradient(w, k, everything[k]) for k in DEVICES]


def scaffold(plain, server_rate=1.0):
    """Algorithm 1, option II."""
    x, c, c_of = plain.start, torch.zeros_like(plain.start), [torch.zeros_like(plain.start)] * 4
    for rngs in rounds():
        models, changes = {}, {}
        for k, rng in rngs.items():
            y, steps = x, 0
            for rows in plain.batches(k, rng):
                y, steps = y - RATE * (plain.gradient(y, k, rows) - c_of[k] + c), steps + 1
            control = c_of[k] - c + (x - y) / (steps * RATE)
            models[k], changes[k], c_of[k] = y, control - c_of[k], control
        x, c = x + server_rate * (plain.mean(models) - x), c + plain.over_all(changes)
    return [x] * 4


def feddyn(plain, weight):
    """Algorithm 1: the gradients that devices keep, h on the server, theta = mean - h / alpha."""
    theta, h = plain.start, torch.zeros_like(plain.start)
    kept = defaultdict(lambda: torch.zeros_like(plain.start))
    for rngs in rounds():
        found = {}
        for k, rng in rngs.items():
            terms = lambda v, k=k, theta=theta: weight * (v - theta) - kept[k]  # noqa: E731
            found[k] = plain.sgd(theta, k, rng, terms)
            kept[k] = kept[k] - weight * (found[k] - theta)
        h = h - weight * plain.over_all({k: found[k] - theta for k in found})
        theta = plain.mean(found) - h / weight
    return [theta] * 4


def fedavgm(plain, momentum, rate):
    w, v = plain.start, torch.zeros_like(plain.start)
    for rngs in rounds():
        v = momentum * v + plain.mean({k: plain.sgd(w, k, rng) for k, rng in rngs.items()}) - w
        w = w + rate * v
    return [w] * 4


def fedadam(plain, rate, momentum, second_momentum, adaptivity):
    """Algorithm 2, FedAdam, with v_{-1} = tau^2."""
    x, m, v = plain.start, torch.zeros_like(plain.start), torch.full_like(plain.start, adaptivity**2)
    for rngs in rounds():
        delta = plain.mean({k: plain.sgd(x, k, rng) - x for k, rng in rngs.items()})
        m = momentum * m + (1 - momentum) * delta
        v = second_momentum * v + (1 - second_momentum) * delta**2
        x = x + rate * m / (torch.sqrt(v) + adaptivity)
    return [x] * 4


def local(plain):
    return shared_and_own(plain, plain.sgd, slice(0))


CASES = [
    ("fedavg", fedavg, {}),
    ("fedprox", fedprox, {"proximal_weight": 0.5}),
    ("local", local, {}),
    ("pma", fedper, {}),
    ("fedper", fedper, {}),
    ("fedrep", fedrep, {}),
    ("fedrep", fedrep, {"order": "extractor-first"}),
    ("lg-fedavg", lg_fedavg, {}),
    ("fedbn", fedper, {}),  # with another split: its extractor is all but the normalisation
    ("fedbabu", fedbabu, {"tuning_iterations": 3}),
    ("fine-tune", fine_tune, {"tune": "all"}),
    ("fine-tune", fine_tune, {"tune": "head"}),
    ("ditto", ditto, {"weight": 0.5}),
    ("apfl", apfl, {"mixing": 0.3}),
    ("apfl", apfl, {"mixing": 0.6, "mixing_rate": 0.5}),
    ("pfedme", pfedme, {"weight": 2.0, "steps": 3, "rate": 0.2, "server_rate": 0.7}),
    ("per-fedavg", per_fedavg, {"rate": 0.2}),
    ("scaffold", scaffold, {}),
    ("scaffold", scaffold, {"server_rate": 0.5}),
    ("feddyn", feddyn, {"weight": 0.3}),
    ("fedavgm", fedavgm, {"momentum": 0.7, "rate": 0.8}),
    (
        "fedadam",
        fedadam,
        {"rate": 0.02, "momentum": 0.6, "second_momentum": 0.9, "adaptivity": 0.01},
    ),
]


@pytest.mark.parametrize("batch_size", [0, 7])
@pytest.mark.parametrize(
    ("name", "equations", "options"), CASES, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_three_rounds_are_those_of_the_papers_equations(name, equations, options, batch_size):
    made = task(
        "tests.learning.user_models:smooth" + ("_and_normalised" if name == "fedbn" else ""),
        seed=SEED,
        algorithm=name,
        options=options,
        shared_layers=1,
        batch_size=batch_size,
        momentum=0.0,
        iterations=PASSES,
        extractor_rate=RATE,
        predictor_rate=RATE,
        upload_bits_per_parameter=32,
    )
    state = made.start()
    for t, scheduled in enumerate(ROUNDS):
        state = made.advance(state, scheduled, t)
    plain = Plain(made, batch_size)
    expected = equations(plain, **options)
    for k in DEVICES:
        found = made.tested(state, k).double()
        assert (found - expected[k]).norm() <= CLOSE * (expected[k] - plain.start).norm()


def test_every_algorithm_is_held_to_its_equations():
    assert {name for name, _, _ in CASES} == set(ALGORITHMS)


def test_rates_that_differ_keep_scaffolds_control_a_mean_gradient():
    """With two rates and momentum, it is the mean of gradients in which early ones count for more."""
    made = task(
        "tests.learning.user_models:smooth",
        algorithm="scaffold",
        shared_layers=1,
        iterations=3,
        extractor_rate=0.1,
        predictor_rate=0.03,
        upload_bits_per_parameter=32,
    )
    assert learning().momentum == 0.9
    engine, weights, samples = made.method.engine, made.method.model.flat.clone(), made.device_samples(0)
    rates = torch.full_like(weights, 0.1)
    rates[made.method.model.split :] = 0.03
    gradients, momentum, at = [], 0.0, weights
    for _ in range(3):
        gradients.append(engine.gradient(at, samples)[1])
        momentum = 0.9 * momentum + gradients[-1]
        at = at - rates * momentum
    count = [1 + 0.9 + 0.81, 1 + 0.9, 1]
    expected = sum(c * g for c, g in zip(count, gradients, strict=True)) / sum(count)
    control = made.train(made.start(), 0, 0).memory["control"]
    assert (control - expected).norm() < 1e-4 * expected.norm()
