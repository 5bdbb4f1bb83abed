"""Which bytes lie in the cache: by what was touched since they were, in the call and before it."""

from pathlib import Path
from typing import Any

import pytest
import torch

from brrr import array, cost, predict
from brrr.counting.cost import OperatorCost
from brrr.roofline.device_model import model_of
from brrr.roofline.figures import LATENCY_S, UNCACHED, level_rate, memory_s
from brrr_course.nouns.table import read
from tests.peaks_made_up import curve
from tests.refusals import refused

TIMERS = Path(__file__).resolve().parents[2] / "data" / "recordings" / "h200" / "timers.csv"
FLOAT = 4
KB = 1024 * FLOAT
"""Bytes of 1024 numbers."""


def moved(operators: tuple[OperatorCost, ...]) -> dict[str, Any]:
    """What is known to be recent, by the last operator of each name."""
    return {each.name.removeprefix("aten."): each.recent for each in operators if each.kind != "view"}


def test_a_result_is_recent_and_its_source_given_from_outside_is_not() -> None:
    found = cost(lambda x, y: (x.cos() + y).sum(), array(1024), array(1024))
    assert moved(found.operators) == {
        "cos": (), "add": ((KB, 2 * KB),), "sum": ((KB, 2 * KB),),
    }  # fmt: skip


def test_what_was_touched_in_between_is_counted() -> None:
    found = cost(lambda x, y: (x.cos(), y.sin(), x.exp()), array(1024), array(1024))
    assert moved(found.operators)["exp"] == ((KB, 2 * KB + 2 * KB),)  # sin moved 2 kB more; its own 2


def test_of_a_storage_only_the_part_that_was_touched_is_recent() -> None:
    def row(cache: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        cache[:1].copy_(new)
        return cache.cos()

    def inside(x: torch.Tensor) -> torch.Tensor:
        return x.cos()[256:512].exp()

    assert moved(cost(row, array((64, 1024)), array((1, 1024))).operators)["cos"] == ()
    assert moved(cost(inside, array(1024)).operators)["exp"] == ((KB / 4, KB / 2),)


def test_a_result_lies_where_one_of_its_size_was_given_back() -> None:
    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = x.cos()
        return x

    kept: list[torch.Tensor] = []

    def keeping(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            kept.append(x := x.cos())
        return kept.pop().add(sum(one.sum() for one in (kept.pop(), kept.pop())))

    *_, last = cost(chain, array(1024)).operators
    assert last.recent == ((KB, 2 * KB), (KB, 2 * KB))
    cosines = [each for each in cost(keeping, array(1024)).operators if each.name == "aten.cos"]
    assert cosines[-1].recent == ((KB, 2 * KB),)


def test_the_level_is_told_by_the_single_passes_edge() -> None:
    sustained = curve({1e6: 8e12, 60e6: 6e12, 900e6: 3e12})
    once = curve({1e6: 1e12, 30e6: 5e12, 60e6: 3e12, 900e6: 3e12})
    assert level_rate(sustained, 20e6, once) == level_rate(sustained, 20e6)
    assert level_rate(sustained, 60e6, once) == 3e12 < level_rate(sustained, 60e6)


def test_bytes_that_are_recent_come_from_the_cache_and_the_others_from_where_they_lie() -> None:
    model = model_of("h200")
    near, far = (memory_s(model, 8e6, 1e3, since) for since in (0.0, UNCACHED))
    half = memory_s(model, 8e6, 1e3, UNCACHED, recent=((4e6, 8e6),))
    assert half == pytest.approx((near + far) / 2, rel=0.01) and far > 1.7 * near
    assert memory_s(model, 8e6, 1e3, UNCACHED, recent=((9e6, 8e6),)) == near


def test_a_call_again_and_again_finds_its_inputs_and_a_cold_one_waits_for_the_memory() -> None:
    x = array((64, 1024))
    hot, cold = (predict(torch.relu, x, device="h200", cold=each).busy_s or 0.0 for each in (False, True))
    assert LATENCY_S < cold - hot < 1.3 * LATENCY_S
    large = array((2**14, 2**14))
    hot, cold = (predict(torch.relu, large, device="h200", cold=each).busy_s or 0.0 for each in (False, True))
    assert cold == hot


@pytest.mark.parametrize("how", ["hot", "cold"])
def test_a_recorded_relu_is_as_long_as_predicted(how: str) -> None:
    rows = [each for each in read(TIMERS) if each["variant"] == "measure" and each["cache"] == how]
    measured = {each["function"]: float(each["kernel_s"]) for each in rows}["relu-64x1024"]
    found = predict(torch.relu, array((64, 1024)), device="h200", cold=how == "cold").busy_s
    assert found == pytest.approx(measured, rel=0.1)


def layers(count: int) -> torch.nn.Module:
    made = [torch.nn.Linear(4096, 4096, bias=False, device="meta", dtype=torch.bfloat16) for _ in range(count)]
    return torch.nn.Sequential(*(each for linear in made for each in (linear, torch.nn.ReLU())))


@pytest.mark.parametrize("cold", [False, True])
def test_a_layers_weights_come_from_the_memory_and_what_neighbours_hand_on_from_the_cache(cold: bool) -> None:
    """Twelve layers of 33.5 MB do not fit into the cache; 16 rows of 8 kB do. A layer alone does, unless it is cold."""
    x = array((16, 4096), "bfloat16")
    with torch.no_grad():
        many, one = (predict(layers(count), x, device="h200", how="graph", cold=cold).operators for count in (12, 1))
    linear, relu = ([each for each in many if each.name == f"aten.{name}"] for name in ("mm", "relu"))
    read_s = 2 * 4096**2 / 4.8e12
    assert all(each.memory_s > read_s for each in linear)
    assert (one[0].memory_s > read_s) is cold or one[0].memory_s < 0.7 * linear[0].memory_s
    alone = predict(torch.relu, x, device="h200", how="graph").operators[0]
    assert relu[-1].device_s == pytest.approx(alone.device_s)


def test_what_nobody_counted_is_handed_on_between_neighbours() -> None:
    """A cost written down by hand tells only how many bytes each operator moves."""
    from brrr.networks.network import Network

    many = predict(Network(8, 16, 4096, "bfloat16").cost, device="h200", how="graph").operators
    alone = predict(torch.relu_, array((16, 4096), "bfloat16"), device="h200", how="graph").operators[0]
    assert [each for each in many if each.name == "aten.relu_"][-1].device_s == pytest.approx(alone.device_s, rel=0.3)


def test_only_a_gpus_cache_can_be_emptied() -> None:
    with refused("cold"):
        predict(torch.relu, array(8), device="cpu", cold=True)
