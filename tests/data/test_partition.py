"""Splits are disjoint, exact in size, and say why when they are impossible."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmafl.data.known import KNOWN
from pmafl.data.partition import class_counts, natural, shards, split
from pmafl.errors import InputError

KINDS = ["shards", "iid", "dirichlet"]


def rng(seed=1):
    return np.random.default_rng(seed)


def labels(counts, seed=0):
    return rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))


TRAIN, TEST = labels([60, 50, 70, 40, 80]), labels([10, 20, 10, 15, 10], seed=1)


def assert_disjoint(parts, samples):
    together = np.concatenate(parts)
    assert len(np.unique(together)) == len(together)
    assert together.min() >= 0
    assert together.max() < samples


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
def test_the_papers_shards_deal_out_every_sample_and_at_most_two_classes_a_device(name):
    train_labels, test_labels = KNOWN[name].labels()
    result = split(train_labels, test_labels, 100, rng())
    assert_disjoint(result.train, len(train_labels))
    assert result.sizes.sum() == KNOWN[name].train_samples
    counts = class_counts(train_labels, result.train, 10)
    assert {1, 2} == set(np.count_nonzero(counts, axis=1))


def test_a_class_is_cut_into_equal_shards():
    counts = shards(np.bincount(TRAIN), 20, rng(), shards_per_device=1)
    assert (np.count_nonzero(counts, axis=0) == 4).all()
    for of_devices in counts.T:
        assert np.ptp(of_devices[of_devices > 0]) <= 1


def test_the_papers_shards_of_cifar10_are_250_samples_so_every_device_holds_500():
    assert set(split(*KNOWN["cifar10"].labels(), 100, rng()).sizes) == {500}


@pytest.mark.parametrize(("devices", "multiple"), [(7, 5), (101, 5), (1, 5)])
def test_shards_that_do_not_divide_over_the_classes_name_the_numbers_that_do(devices, multiple):
    with pytest.raises(InputError, match=f"multiple of {multiple}"):
        split(*KNOWN["mnist"].labels(), devices, rng())
    assert len(split(*KNOWN["mnist"].labels(), multiple, rng()).train) == multiple


def test_more_shards_than_samples_in_a_class_is_refused():
    with pytest.raises(InputError, match="smallest class has only 40"):
        split(TRAIN, TEST, 250, rng())


@pytest.mark.parametrize("kind", KINDS)
def test_requested_sizes_are_met_exactly(kind):
    sizes = np.array([3, 50, 1, 20, 33, 8, 2])
    result = split(TRAIN, TEST, 7, rng(), partition=kind, sizes=sizes)
    assert result.sizes.tolist() == sizes.tolist()
    assert_disjoint(result.train, len(TRAIN))


def test_sized_shards_hold_at_most_the_requested_number_of_classes():
    result = split(TRAIN, TEST, 8, rng(), sizes=np.full(8, 30), shards_per_device=3)
    assert (np.count_nonzero(class_counts(TRAIN, result.train, 5), axis=1) <= 3).all()


def test_shards_of_sizes_that_the_classes_cannot_give_are_refused_with_the_reason():
    with pytest.raises(InputError, match="no class has more than"):
        split(TRAIN, TEST, 2, rng(), sizes=np.array([150, 150]), shards_per_device=1)


@pytest.mark.parametrize("kind", ["iid", "dirichlet"])
def test_equal_sizes_are_the_whole_part_of_samples_by_devices(kind):
    assert set(split(TRAIN, TEST, 7, rng(), partition=kind).sizes) == {300 // 7}


@pytest.mark.parametrize("kind", KINDS)
def test_asking_for_more_samples_than_there_are_is_refused(kind):
    with pytest.raises(InputError, match="ask for 400 samples together, but the training set has 300"):
        split(TRAIN, TEST, 4, rng(), partition=kind, sizes=np.full(4, 100))


@pytest.mark.parametrize("kind", KINDS)
def test_more_devices_than_samples_is_refused(kind):
    with pytest.raises(InputError, match=r"fleet.devices = 305"):
        split(TRAIN, TEST, 305, rng(), partition=kind)


@given(
    devices=st.integers(1, 300),
    alpha=st.floats(5e-324, 1.7e308),
    seed=st.integers(0, 10),
)
def test_dirichlet_ends_for_any_number_of_devices_and_any_alpha(devices, alpha, seed):
    result = split(TRAIN, TEST, devices, rng(seed), partition="dirichlet", dirichlet_alpha=alpha)
    assert set(result.sizes) == {300 // devices}
    assert_disjoint(result.train, len(TRAIN))


def test_the_last_devices_of_dirichlet_are_as_mixed_as_the_first():
    train_labels, test_labels = KNOWN["cifar10"].labels()
    splits = [split(train_labels, test_labels, 100, rng(seed), partition="dirichlet") for seed in range(5)]
    largest = np.mean([class_counts(train_labels, s.train, 10).max(axis=1) / 500 for s in splits], axis=0)
    assert abs(largest[:20].mean() - largest[-20:].mean()) < 0.05


def test_a_small_alpha_is_uneven_and_a_large_one_is_even():
    train_labels, test_labels = KNOWN["mnist"].labels()

    def largest_share(alpha):
        parts = split(
            train_labels,
            test_labels,
            100,
            rng(),
            partition="dirichlet",
            sizes=np.full(100, 300),
            dirichlet_alpha=alpha,
        ).train
        return class_counts(train_labels, parts, 10).max(axis=1).mean() / 300

    assert largest_share(0.01) > 0.9
    assert largest_share(1000) < 0.2


def test_every_device_is_tested_on_all_test_samples_of_its_classes():
    result = split(TRAIN, TEST, 10, rng())
    for train, test in zip(result.train, result.test, strict=True):
        assert test.tolist() == np.flatnonzero(np.isin(TEST, np.unique(TRAIN[train]))).tolist()


def test_a_proportional_test_set_has_the_class_proportions_of_the_device():
    train_labels, test_labels = KNOWN["mnist"].labels()
    result = split(train_labels, test_labels, 100, rng(), partition="dirichlet", test_split="proportional")
    held = class_counts(train_labels, result.train, 10)
    tested = class_counts(test_labels, result.test, 10)
    assert ((tested > 0) == (held > 0)).all()
    assert (tested <= np.bincount(test_labels)).all()
    expected = held / held.sum(axis=1, keepdims=True) * tested.sum(axis=1, keepdims=True)
    assert np.abs(tested - expected).max() < 12  # rounding of up to ten classes
    assert all(len(np.unique(test)) == len(test) for test in result.test)


def test_devices_with_the_same_classes_share_one_array_of_test_indices():
    train_labels, test_labels = KNOWN["mnist"].labels()
    result = split(train_labels, test_labels, 10_000, rng())
    assert len({id(test) for test in result.test}) <= 55


@pytest.mark.parametrize("kind", KINDS)
def test_one_seed_gives_one_split_and_another_seed_another(kind):
    first, again, other = (split(TRAIN, TEST, 10, rng(seed), partition=kind) for seed in (3, 3, 4))
    assert all((a == b).all() for a, b in zip(first.train, again.train, strict=True))
    assert any(len(a) != len(b) or (a != b).any() for a, b in zip(first.train, other.train, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_depend_on_the_label_counts_alone(kind):
    shuffled = split(TRAIN, TEST, 10, rng(), partition=kind)
    ordered = split(np.sort(TRAIN), np.sort(TEST), 10, rng(), partition=kind)
    assert shuffled.sizes.tolist() == ordered.sizes.tolist()


def test_a_class_without_test_samples_is_named():
    with pytest.raises(InputError, match="class 4 has training samples but no test samples"):
        split(TRAIN, TEST[TEST < 4], 10, rng())


OWNERS = np.repeat(np.arange(6), [9, 4, 12, 5, 20, 10]), np.repeat(np.arange(6), [3, 1, 4, 2, 6, 3])

NAMES = ("ann", "bob", "cid", "dan", "eve", "fay")


def test_devices_have_the_names_of_their_clients():
    assert natural(OWNERS, 8, rng(), client_names=NAMES).client_names == (*NAMES, "ann", "bob")
    drawn = natural(OWNERS, 4, rng(), client_names=NAMES)
    assert drawn.client_names == tuple(NAMES[client] for client in drawn.client)
    assert split(TRAIN, TEST, 5, rng(), client_names=NAMES).client_names == ()


def test_as_many_devices_as_clients_are_the_clients():
    result = natural(OWNERS, 6, rng())
    assert result.sizes.tolist() == [9, 4, 12, 5, 20, 10]
    assert not result.note
    for device in range(6):
        assert (OWNERS[0][result.train[device]] == device).all()
        assert (OWNERS[1][result.test[device]] == device).all()


def test_of_more_clients_than_devices_some_are_drawn_and_it_is_said():
    result = natural(OWNERS, 4, rng())
    assert len(set(result.client.tolist())) == 4
    assert "6 clients, 4 devices: 4 clients drawn by run.seed, the others left out" in result.note
    for client, train, test in zip(result.client, result.train, result.test, strict=True):
        assert (OWNERS[0][train] == client).all()
        assert len(train) == (OWNERS[0] == client).sum()
        assert (OWNERS[1][test] == client).all()


def test_of_fewer_clients_each_has_several_devices_that_share_its_samples_and_it_is_said():
    result = natural(OWNERS, 15, rng())
    assert_disjoint(result.train, len(OWNERS[0]))
    assert sum(map(len, result.train)) == len(OWNERS[0])
    assert "6 clients, 15 devices" in result.note
    for device, (train, test) in enumerate(zip(result.train, result.test, strict=True)):
        assert (OWNERS[0][train] == device % 6).all()
        assert (OWNERS[1][test] == device % 6).all()
    with pytest.raises(InputError, match="client 'bob' has 4 training samples for 5 devices"):
        natural(OWNERS, 30, rng(), client_names=NAMES)


def test_natural_clients_may_be_asked_for_fewer_samples_but_not_for_more():
    assert natural(OWNERS, 6, rng(), np.full(6, 4)).sizes.tolist() == [4] * 6
    with pytest.raises(InputError, match="device 1 is to have 5 samples, but its client 'bob' has 4"):
        natural(OWNERS, 6, rng(), np.full(6, 5), NAMES)


def test_natural_clients_need_to_be_known():
    with pytest.raises(InputError, match="'natural': the data set does not say whose its samples are"):
        split(TRAIN, TEST, 5, rng(), partition="natural")


def test_the_sizes_of_natural_clients_need_no_files():
    known = KNOWN["watch"]
    train, test = known.labels()
    result = split(train, test, 20, rng(), partition="natural", owners=known.owners())
    assert (class_counts(train, result.train, 7) == known.client_counts[0]).all()
    assert (class_counts(test, result.test, 7) == known.client_counts[1]).all()
