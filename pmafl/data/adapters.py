"""Data sets of other libraries as named arrays: torch, Hugging Face `datasets`, `flwr-datasets`.

None of them is needed here: an object of theirs can only come from a process that has imported them, so they
are looked up among the modules that are loaded. A sequence of data sets, or one that is partitioned, has a
client per part.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from pmafl.data.dataset import Reading
from pmafl.errors import InputError
from pmafl.plugins import blaming

TARGETS = ("y", "label", "labels", "target")  # a column that is called so is what is to be predicted
INPUTS = ("x", "image", "img", "input_ids", "pixel_values", "features")  # of several, the one of these is x
NATURAL = ("partition_id_to_natural_id", "partition_id_to_natural_ids")  # who splits by client has one
PARTS = {"train": "", "test": "_test"}  # of a mapping of data sets, and how the arrays' names end


def as_arrays(given: object, reading: Reading, where: str) -> Mapping[Any, Any]:
    """A mapping of arrays, whatever `given` is."""
    if isinstance(given, Mapping):
        if not _is_of_parts(given):
            return given
        if not {"train"} <= given.keys() <= PARTS.keys():
            parts = ", ".join(str(name)[:40] for name in given)
            raise InputError(f"{where}: has the parts {parts}; must be train, or train and test")
        merged: dict[str, Any] = {}
        for part, ending in PARTS.items():
            if part in given:
                arrays = _of_one(given[part], reading, f"{where}, {part}")
                merged |= {f"{name}{ending}": values for name, values in arrays.items()}
        return merged
    return _of_one(given, reading, where)


def _is_of_parts(given: Mapping[Any, Any]) -> bool:
    return bool(given) and all(_is_dataset(part) or _is_list(part) for part in given.values())


def _of_one(given: object, reading: Reading, where: str) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    if hasattr(given, "load_partition"):  # flwr-datasets: a federated data set, or a partitioner
        with blaming(where):
            parts = _partitions(given, reading)
        return _of_clients(*parts, reading, where)
    if _is_list(given):
        return _of_clients(given, range(len(given)), reading, where)
    if _is_hugging_face(given):
        return _of_columns(given, reading, where)
    if _is_torch(given):
        return _of_samples(given, reading, where)
    raise InputError(
        f"{where}: needs arrays named x and y, a torch, Hugging Face or flwr data set, or a list of them; "
        f"got {type(given).__name__}"
    )


def _is_torch(given: object) -> bool:
    module = sys.modules.get("torch.utils.data")
    return module is not None and isinstance(given, module.Dataset)


def _is_hugging_face(given: object) -> bool:
    module = sys.modules.get("datasets")
    return module is not None and isinstance(given, getattr(module, "Dataset", ()))


def _is_dataset(given: object) -> bool:
    return _is_torch(given) or _is_hugging_face(given) or hasattr(given, "load_partition")


def _is_list(given: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(given, Sequence) and bool(given) and all(map(_is_dataset, given))


def _partitions(given: Any, reading: Reading) -> tuple[list[Any], Sequence[Any]]:
    """All parts of a flwr-datasets object, in order, and what their clients are called."""
    first = given.load_partition(0)  # some know their number only then
    partitioners = getattr(given, "partitioners", None)
    partitioner = partitioners["train"] if partitioners else given
    count = partitioner.num_partitions
    parts = [first, *(given.load_partition(number) for number in range(1, count))]
    names = getattr(partitioner, "partition_id_to_natural_id", None) or range(count)
    return [_without_client(part, partitioner, reading) for part in parts], [names[n] for n in range(count)]


def _without_client(part: Any, partitioner: Any, reading: Reading) -> Any:
    """A part without the column that says whose it is, by which a network would know the client.

    Other partitioners have a `partition_by` too, which may be the target or any feature: that stays.
    """
    if not any(hasattr(partitioner, name) for name in NATURAL):
        return part
    column = getattr(partitioner, "partition_by", None) or getattr(partitioner, "_partition_by", None)
    named = (reading.target, reading.client)  # these are no features anyway
    return part.remove_columns(column) if column in part.column_names and column not in named else part


def _of_clients(parts: Sequence[Any], clients: Sequence[Any], reading: Reading, where: str) -> dict[str, Any]:
    """The samples of all parts, each a client's."""
    found = [_of_one(part, reading, f"{where}, part {number}") for number, part in enumerate(parts)]
    names = [name for name in found[0] if name != reading.client]  # the part says whose it is
    for number, arrays in enumerate(found):
        if not arrays.keys() >= set(names):
            raise InputError(f"{where}, part {number}: has {', '.join(arrays)}; must have {', '.join(names)}")
    try:
        merged = {name: np.concatenate([arrays[name] for arrays in found]) for name in names}
    except ValueError as error:
        raise InputError(f"{where}: its parts do not fit together ({error})") from None
    samples = [len(arrays["x"]) for arrays in found]
    return merged | {reading.client: np.repeat(np.array(clients), samples)}


def _of_columns(given: Any, reading: Reading, where: str) -> dict[str, Any]:
    """The columns of a Hugging Face data set; class names are kept as words."""
    columns = list(given.column_names)
    target, inputs = _choose(columns, reading, where)
    if not len(given):
        raise InputError(f"{where}: has no samples")
    client = [reading.client] if reading.client in columns else []
    with blaming(where):
        table = given.with_format("numpy")
        x = [table[name][:] for name in inputs]  # a column is only read when it is sliced
        y, *owners = (np.asarray(table[name][:]) for name in (target, *client))
    names = getattr(given.features[target], "names", None)
    if names:
        if np.min(y) < 0:
            raise InputError(f"{where}: has samples without a label (-1 in {target!r}); drop them")
        y = np.array(names)[y]
    return {"x": _stacked(x, where), reading.target or "y": y, **dict(zip(client, owners, strict=True))}


def _of_samples(given: Any, reading: Reading, where: str) -> dict[str, Any]:
    """The samples of a torch data set: pairs of x and y, or mappings by name."""
    with blaming(where):
        samples = [given[index] for index in range(len(given))] if hasattr(given, "__len__") else list(given)
    rows = [row if isinstance(row, Mapping) else _pair(row, where) for row in samples]
    if not rows:
        raise InputError(f"{where}: has no samples")
    target, inputs = _choose(list(rows[0]), reading, where)
    found = {
        "x": _stacked([_column(rows, name, where) for name in inputs], where),
        reading.target or "y": _column(rows, target, where),
    }
    if reading.client in rows[0]:
        found[reading.client] = _column(rows, reading.client, where)
    return found


def _pair(row: Any, where: str) -> dict[str, Any]:
    if not isinstance(row, Sequence) or len(row) != 2:
        raise InputError(
            f"{where}: a sample is a {type(row).__name__}; must be a pair of x and y, or a mapping by name"
        )
    return {"x": row[0], "y": row[1]}


def _choose(columns: list[Any], reading: Reading, where: str) -> tuple[str, list[str]]:
    """The column that is to be predicted, and the columns that x is made of."""
    target = reading.target if reading.target in columns else reading.usual_target(TARGETS, columns)
    if not target or (reading.target and target != reading.target):
        raise InputError(
            f"{where}: has no column {reading.target or 'label'!r} (data.target names it); it has "
            f"{', '.join(str(name)[:40] for name in columns[:8])}"
        )
    if reading.client != Reading.client and reading.client not in columns:
        raise InputError(f"{where}: has no column {reading.client!r}, as data.client says")
    others = [name for name in columns if name not in (target, reading.client)]
    if not others:
        raise InputError(f"{where}: has no column beside {target!r}; there is nothing to learn from")
    named = [name for name in others if name in INPUTS]
    return target, named[:1] if len(others) > 1 and named else others


def _column(rows: list[Mapping[Any, Any]], name: str, where: str) -> NDArray[Any]:
    if any(name not in row for row in rows):
        raise InputError(f"{where}: not every sample has {name!r}")
    with blaming(f"{where}: {name!r} of its samples"):
        values = [array_of(row[name]) for row in rows]
    if len(shapes := {value.shape for value in values}) > 1:
        first, second, *_ = sorted(shapes)
        raise InputError(
            f"{where}: samples have shapes {first} and {second}; must be alike (pad or crop them)"
        )
    return np.stack(values)


def array_of(value: Any) -> NDArray[Any]:
    """Anything as an array; numpy does not take tensors with a gradient, on a GPU or in bfloat16."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return np.asarray(value)
    value = value.detach().cpu()
    as_floats = value.is_floating_point() and value.dtype != torch.float64
    return np.asarray(value.float() if as_floats else value)


def _stacked(columns: list[Any], where: str) -> NDArray[Any]:
    """One column as it is, several as the features of a table."""
    try:
        arrays = [np.asarray(column) for column in columns]
    except ValueError:  # of several shapes
        arrays = []
    if not arrays or any(array.dtype.kind not in "buif" for array in arrays):
        raise InputError(
            f"{where}: samples are not numbers of one shape; leave only such columns, or make arrays of them"
        )
    if len(arrays) == 1:
        return arrays[0][:, None] if arrays[0].ndim == 1 else arrays[0]
    if any(array.ndim != 1 for array in arrays):
        raise InputError(f"{where}: has several columns for x, not all of them single numbers; leave one")
    return np.stack(arrays, axis=1)
