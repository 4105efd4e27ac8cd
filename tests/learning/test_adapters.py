"""The guide's transformer with adapters on a frozen backbone: its upload and cost beside the whole one's."""

import re
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from pmafl.learning.workload import workload
from tests.learning.synthetic import learning, task, whole_model

GUIDE = (Path(__file__).parents[2] / "docs" / "networks.md").read_text("utf-8")
(CODE,) = re.findall(r"```python\n(# my_transformer\.py\n.*?)```", GUIDE, flags=re.DOTALL)
NAME = "my_transformer:transformer"
SMALL = {"width": 16, "blocks": 1}
ADAPTERS = {"shared": ["*lora_*"], "algorithm": "pma"}


@pytest.fixture(autouse=True)
def beside_the_user(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_transformer.py").write_text(CODE)
    yield
    sys.modules.pop("my_transformer", None)


def costs(**changes):
    return workload(learning(NAME, **changes), (1, 28, 28))


def test_the_guides_numbers_are_those_that_are_charged():
    whole = costs(algorithm="fedavg")
    adapters = costs(model_options={"rank": 4}, **ADAPTERS)
    trained = [costs(algorithm="fedavg", operations_per_sample="training"),
               costs(model_options={"rank": 4}, operations_per_sample="training", **ADAPTERS)]  # fmt: skip
    for bits in (whole.upload_bits, adapters.upload_bits):
        assert f"{bits:,} bits" in GUIDE
    for cost in (whole, adapters, *trained):
        assert f"{cost.operations_per_sample:,.0f}" in GUIDE
    width, steps = 64, 28
    per_block = 2 * steps * steps * width + 12 * steps * width * width
    assert whole.operations_per_sample == steps * 28 * width + 2 * per_block + width * 10
    assert adapters.upload_bits == 16 * 2 * 4 * (4 * width + 2 * width + 5 * width + 5 * width)


def test_adapters_are_shared_the_head_is_personal_and_the_backbone_stays(tmp_path):
    whole = task(NAME, algorithm="fedavg", model_options=SMALL)
    backbone = {name: value.clone() for name, value in whole.method.model.module.state_dict().items()}
    save_file(backbone, tmp_path / "backbone.safetensors")
    options = SMALL | {"rank": 2, "backbone": str(tmp_path / "backbone.safetensors")}
    made = task(NAME, model_options=options, **ADAPTERS)
    model = made.method.model
    assert {name for name, p in model.module.named_parameters() if p.requires_grad} == {
        *(name for name, _ in model.module.named_parameters() if "lora_" in name), "head.weight", "head.bias",
    }  # fmt: skip
    x = torch.randn(3, 1, 28, 28)
    torch.testing.assert_close(model(x), whole.method.model(x))  # corrections start at nothing
    state = made.advance(made.advance(made.start(), [0, 1, 2], 0), [1, 3], 1)
    heads = [whole_model(made, state, device)[model.split :] for device in (0, 1)]
    assert not torch.equal(*heads)
    assert len(heads[0]) == 16 * 10 + 10
    for name, value in model.state_dict(whole_model(made, state, 0)).items():
        if "lora_" not in name and not name.startswith("head."):
            assert torch.equal(value, backbone[name]), name
    assert made.evaluate(state).loss < made.evaluate(made.start()).loss
