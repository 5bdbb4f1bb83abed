"""Many small products and a vocabulary's size: costs by hand, workloads."""

from dataclasses import replace

import pytest
import torch

from brrr.core.errors import BrrrError
from brrr.core.measurement import Point
from brrr.counting.cost import Matmul
from brrr_course.experiments import experiment
from brrr_course.nouns.experiment import Experiment, Workload

MANY, WORDY = experiment("gemm_many"), experiment("vocabulary")
THREE: Point = {"count": 3, "size": 8, "dtype": "float32"}
FEW_WORDS: Point = {"vocabulary": 17, "tokens": 5}


# ---- the grid and the costs ----


def test_one_call_is_predicted_as_one_product() -> None:
    assert {each.name for each in MANY.variants if MANY.predicted_run(each.name, THREE)} == {"combined", "batched"}
    large, batched = (MANY.predicted_run(name, THREE) for name in ("combined", "batched"))
    assert large is not None and batched is not None
    assert large.cost.matmuls == (Matmul(24, 64, 8),) and batched.cost.matmuls == (Matmul(8, 64, 8, 3),)
    cost = MANY.cost_at("combined", THREE)
    assert cost is not None
    assert large.cost.bytes == batched.cost.bytes == cost.bytes and large.cost.flop == batched.cost.flop == cost.flop


def test_a_step_of_the_last_layer_is_three_products() -> None:
    one, three = (WORDY.cost_at(name, FEW_WORDS) for name in ("forward", "step"))
    assert one is not None and three is not None and one.matmuls == three.matmuls[:1]
    assert [(each.m, each.n, each.k, each.transposed) for each in three.matmuls] == [
        (5, 17, 768, (False, True)), (5, 768, 17, (False, False)), (17, 768, 5, (True, False))]  # fmt: skip
    run = WORDY.predicted_run("step", FEW_WORDS)
    assert run is not None and run.cost.matmuls == three.matmuls


# ---- workloads ----


def on_cpu(described: Experiment, name: str, point: Point) -> Workload:
    """A GPU's way with its tensors on the CPU."""
    made: Workload = described.made(replace(described.variant(name), device="cpu"), point)
    return made


@pytest.mark.parametrize(("name", "products"), [("forward", 1), ("step", 3)])
def test_the_last_layer_is_right_and_each_product_is_checked(
    monkeypatch: pytest.MonkeyPatch, name: str, products: int
) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    work = on_cpu(WORDY, name, FEW_WORDS)
    found = work.run()
    assert [tuple(each.shape) for each in found] == [(5, 17), (5, 768), (17, 768)][:products]
    assert 0 < work.verified(found) <= 1e-2
    for place in range(products):
        wrong = [each * 1.02 if at == place else each for at, each in enumerate(found)]
        with pytest.raises(BrrrError, match="relative error"):
            work.verified(wrong)
