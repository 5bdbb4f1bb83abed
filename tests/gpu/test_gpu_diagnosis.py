"""`diagnose` on a GPU: parts that add up, regimes beyond doubt, a remedy tried, and a model left as it was."""

import pytest
import torch
from torch import nn

from brrr import diagnose

pytestmark = [pytest.mark.gpu, pytest.mark.timing]  # its traces hold what other tests do beside it


def block(width: int = 512) -> nn.Module:
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, dropout=0.1, device="cuda")


def test_parts_add_up_and_the_model_is_as_it_was() -> None:
    model, x = block(), torch.randn(8, 128, 512, device="cuda")
    before = {name: each.clone() for name, each in model.state_dict().items()}
    state = torch.cuda.get_rng_state()
    found = diagnose(model, x, backward=True, device="cuda")
    assert sum(found.parts.values()) == pytest.approx(found.step_s, rel=0.03)
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    assert all(each.grad is None for each in model.parameters()) and model.training
    assert torch.equal(torch.cuda.get_rng_state(), state)
    assert {"addmm float32", "native_layer_norm float32"} <= {line.name for line in found.operators}


@pytest.mark.parametrize(
    ("regime", "size"), [("overhead", 16), ("compute", 8192)], ids=["a tiny product", "a large product"]
)
def test_a_product_small_or_large(regime: str, size: int) -> None:
    a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    assert diagnose(lambda: a @ a, device="cuda", budget_s=0.1).regime == regime


def test_a_copy_is_limited_by_memory_and_a_few_long_sums_leave_the_gpu_under_filled() -> None:
    x, rows = torch.randn(2**27, device="cuda"), torch.randn(4, 2**20, device="cuda")
    assert diagnose(lambda: x.clone(), device="cuda", budget_s=0.1).regime == "memory"
    assert diagnose(lambda: rows.cumsum(-1), device="cuda", budget_s=0.1).regime == "under-filled"


def test_a_graph_is_tried_and_its_result_checked() -> None:
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(16))).cuda().requires_grad_(False)
    found = diagnose(model, torch.randn(8, 64, device="cuda"), device="cuda", budget_s=0.1, try_remedies=True)
    tried = next(each for each in found.tried if each.name == "cuda graph")
    assert found.remedies[0].name == "cuda graph" and tried.gain is not None and tried.change == 0.0


def test_waiting_in_each_step_is_named_first() -> None:
    layer, x = nn.Linear(64, 64, device="cuda"), torch.randn(8, 64, device="cuda")
    found = diagnose(lambda: layer(x).sum().item(), device="cuda", budget_s=0.1)
    assert found.remedies[0].name == "no synchronisation" and "item" in found.remedies[0].why


def test_a_copy_of_a_batch_in_each_step_is_seen() -> None:
    layer, x = nn.Linear(1024, 1024, device="cuda"), torch.randn(4096, 1024)
    found = diagnose(lambda: layer(x.to("cuda")), device="cuda", budget_s=0.1)
    assert found.remedies[0].name == "pinned memory" and found.parts["overhead"] > 0


def test_anomaly_detection_is_measured_without_it_and_is_on_again() -> None:
    layer, x = nn.Linear(64, 64, device="cuda"), torch.randn(8, 64, device="cuda")
    switch = torch.set_anomaly_enabled

    def step() -> None:
        with torch.autograd.set_detect_anomaly(True):
            layer(x).sum().backward()

    found = diagnose(step, device="cuda", budget_s=0.1)
    assert found.remedies[0].name == "debugging off" and found.remedies[0].gain > 1.0
    assert torch.set_anomaly_enabled is switch and not torch.is_anomaly_enabled()


def test_a_chain_that_is_trained_has_its_activations_computed_again() -> None:
    x = torch.randn(2**26, device="cuda", requires_grad=True)

    def chain() -> torch.Tensor:
        y = x
        for _ in range(8):
            y = nn.functional.hardswish(y)
        return y

    found = diagnose(chain, backward=True, device="cuda", budget_s=0.1)
    assert "rematerialisation" in [each.name for each in found.remedies], found.details()


def test_layers_that_wait_for_each_other_have_a_persistent_kernel() -> None:
    stack = nn.Sequential(*(part for _ in range(32) for part in (nn.Linear(128, 128), nn.ReLU())))
    layer = nn.RNN(512, 512)
    for model, x in ((stack, torch.randn(8, 128, device="cuda")), (layer, torch.randn(256, 4, 512, device="cuda"))):
        found = diagnose(model.cuda().requires_grad_(False), x, device="cuda", budget_s=0.1)
        assert "persistent kernel" in [each.name for each in found.remedies], found.details()
