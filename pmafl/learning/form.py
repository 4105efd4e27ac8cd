"""What samples and targets are beyond their shapes: measurements or token ids, classes or values."""

from dataclasses import dataclass

from pmafl.data import Dataset, Known, Scaling
from pmafl.errors import InputError


@dataclass(frozen=True)
class Form:
    """The kind of a data set, as far as a network must know it.

    vocabulary: samples are whole numbers below this; 0 where they are anything else.
    tokens: they must reach the network as they are; without it they do if it has an embedding.
    target_std: targets are values with these deviations, one for each output; empty for classes.
    """

    vocabulary: int = 0
    tokens: bool = False
    target_std: tuple[float, ...] = ()


CLASSES_OF_MEASUREMENTS = Form()


def form_of(data: Dataset | Known, inputs: Scaling) -> Form:
    """The form of a data set under the setting ``data.inputs``."""
    vocabulary = data.vocabulary(inputs)
    if inputs == "tokens" and not vocabulary:
        raise InputError(
            f"data.inputs = 'tokens': data set {data.name!r} holds other numbers; they must be whole, at "
            f"least 0 and of an integer type"
        )
    return Form(vocabulary, inputs == "tokens", data.target_std)


def check_measurements(model: str, form: Form) -> None:
    """The paper's networks have no embedding."""
    if form.tokens:
        raise InputError(
            f"data.inputs = 'tokens': learning.model = {model!r} takes measurements, not token ids; use a "
            f"network with an embedding"
        )
