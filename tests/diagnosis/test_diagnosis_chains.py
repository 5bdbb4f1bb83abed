"""Chains that become one kernel: what a backward pass computes again, and launches that go through many layers."""

from collections.abc import Callable
from pathlib import Path

import pytest
from traces import Maker, diagnosis, gains, plain, predicted_us

from brrr.counting.cost import OperatorCost
from brrr.diagnosis.remedies import GENERAL, REWRITES
from brrr.kernels.recurrent.plan import plan, predicted_s
from brrr.networks.network import Network
from brrr.networks.network_time import megakernel_period
from brrr.roofline.lowering import spared

N = 2**25
LARGE, ROW = plain(N), plain(8, 64)


def forward(made: Maker, depth: int, name: str = "aten::hardswish") -> None:
    for _ in range(depth):
        made.work(name, LARGE, us=predicted_us(name, LARGE))


def backward(made: Maker, depth: int) -> None:
    for _ in range(depth):
        made.gradient(
            "aten::hardswish_backward", LARGE, LARGE, us=predicted_us("aten::hardswish_backward", LARGE, LARGE)
        )


def trained(made: Maker, depth: int = 8) -> None:
    forward(made, depth)
    backward(made, depth)


# --- rematerialisation ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [4, 8])
def test_what_a_backward_pass_reads_is_computed_again(depth: int, tmp_path: Path) -> None:
    """Of 5 arrays an activation that eager moves, five are left: x and y, then x, the gradient, and the result's."""
    first = diagnosis(tmp_path, lambda made: trained(made, depth)).remedies[0]
    assert first.name == "rematerialisation" and first.gain == pytest.approx(depth, rel=0.05)
    assert f"computes {4 * N * (depth - 1) / 1e6:.3g} MB a step again" in first.why


def test_it_takes_the_place_of_fusion_and_counts_once(tmp_path: Path) -> None:
    assert "fusion" not in gains(diagnosis(tmp_path, trained))
    alone = diagnosis(tmp_path, lambda made: forward(made, 8))
    assert "fusion" in gains(alone) and "rematerialisation" not in gains(alone)


def constants(made: Maker) -> None:
    """Neither needs what the forward pass had."""
    for _ in range(4):
        made.work("aten::neg", LARGE, us=predicted_us("aten::neg", LARGE))
    for _ in range(4):
        made.gradient("aten::neg", LARGE, us=predicted_us("aten::neg", LARGE))


def single(made: Maker) -> None:
    """What it saves is its input, which is there anyway."""
    trained(made, 1)


def optimised(made: Maker) -> None:
    """The chain behind the backward pass is the optimiser's."""
    trained(made, 1)
    forward(made, 4, "aten::neg")


def compiled(made: Maker) -> None:
    """Its compiler has chosen already."""
    for _ in range(4):
        name = "triton_poi_fused_add_cos_0"
        made.work(name, LARGE, LARGE, us=60.0, kernel=name)
    for _ in range(4):
        made.gradient(name, LARGE, LARGE, LARGE, us=90.0)


@pytest.mark.parametrize("step", [constants, single, optimised, compiled])
def test_where_nothing_is_spared_it_is_not_gains(step: Callable[[Maker], None], tmp_path: Path) -> None:
    assert "rematerialisation" not in gains(diagnosis(tmp_path, step))


def test_what_the_gradients_of_a_norm_read_twice_is_spared_once() -> None:
    """Of a dropout and a norm the mask: for the norm's input, computed again, the dropout's is read."""
    size = (1024, 4096)
    array, mask = 4.0 * 1024 * 4096, 1024.0 * 4096
    dropout = OperatorCost("aten.native_dropout", 2e6, array, array + mask, "float32", (size,), "random")
    norm = OperatorCost("aten.native_layer_norm", 8e6, array, array, "float32", (size,), "norm")
    back = OperatorCost("aten.native_layer_norm_backward", 8e6, 4 * array, array, "float32", (size, size), "norm")
    undropped = OperatorCost("aten.native_dropout_backward", 2e6, array + mask, array, "float32", (size, size))
    assert spared([dropout, norm], [back, undropped]) == mask


def test_dear_arithmetic_is_saved(tmp_path: Path) -> None:
    """Of many cosines the arithmetic done again takes longer than the bytes that it spares."""

    def cosines(made: Maker, depth: int) -> None:
        for _ in range(depth):
            made.work("aten::cos", LARGE, us=predicted_us("aten::cos", LARGE))
        for _ in range(depth):
            for name, tensors in (("aten::sin", [LARGE]), ("aten::neg", [LARGE]), ("aten::mul", [LARGE, LARGE])):
                made.gradient(name, *tensors, us=predicted_us(name, *tensors))

    def gain(depth: int) -> float:
        return diagnosis(tmp_path, lambda made: cosines(made, depth)).remedies[0].gain

    assert gain(32) < 2 * gain(4), "bytes alone would say eight times as much"


# --- a persistent kernel ----------------------------------------------------------------------------------------------

WEIGHTS = ((64, 64), (1, 64), "float32")


def stack(made: Maker, layers: int = 64, dtype: str = "float32", activation: str = "aten::relu") -> None:
    row, weights = plain(8, 64, dtype=dtype), (*WEIGHTS[:2], dtype)
    for _ in range(layers):
        numbers = ("", "", "", "1", "1")
        made.work("aten::addmm", plain(64, dtype=dtype), row, weights, numbers=numbers, us=2.5, blocks=8)
        made.work(activation, row, us=1.5, blocks=1)


def test_many_small_layers_are_one_launch(tmp_path: Path) -> None:
    found = diagnosis(tmp_path, stack)
    predicted, assumed = megakernel_period(Network(64, 8, 64), "h200")
    remedy = next(each for each in found.remedies if each.name == "persistent kernel")
    assert remedy.gain == pytest.approx(found.step_s / predicted, rel=0.05) and not assumed
    assert remedy.why.startswith("128 kernels a step wait for each other") and "64 layers of 64, batch 8" in remedy.why
    assert next(iter(gains(found))) == "cuda graph", "which changes less, comes first whatever the gain"
    assert not set(GENERAL) & set(REWRITES)


def test_what_stands_around_the_layers_stays(tmp_path: Path) -> None:
    def among_others(made: Maker) -> None:
        stack(made, 32)
        for _ in range(64):
            made.work("aten::relu", plain(64), us=1.5, blocks=1)

    found = diagnosis(tmp_path, among_others)
    gain = next(each.gain for each in found.remedies if each.name == "persistent kernel")
    assert 1.5 < gain < 2.0, "half of the host's time is another's"


OTHERS: dict[str, Callable[[Maker], None]] = {
    "a short type": lambda made: stack(made, dtype="bfloat16"),
    "another activation": lambda made: stack(made, activation="aten::tanh"),
    "one layer": lambda made: made.work("aten::addmm", plain(64), ROW, WEIGHTS, numbers=("", "", "", "1", "1"), us=2.5),
    "a training step": lambda made: (stack(made), made.gradient("aten::neg", ROW, us=1.5))[0],  # type: ignore[func-returns-value]
}


@pytest.mark.parametrize("case", OTHERS)
def test_what_the_kernel_cannot_do_is_not_promised(case: str, tmp_path: Path) -> None:
    assert "persistent kernel" not in gains(diagnosis(tmp_path, OTHERS[case]))


def recurrent(made: Maker, mode: int = 1, first: bool = False, both_ways: bool = False) -> None:
    """256 steps of 512 by cuDNN, four kernels a step, as the profiler describes the call."""
    x = plain(4, 256, 512) if first else plain(256, 4, 512)
    made.work("aten::_cudnn_rnn", x, us=2.0, host_us=6.0, blocks=16)
    made.events[-3]["args"] = {
        "Input Dims": [list(x[0]), [[512, 512]] * 4, [], [], [1, 4, 512], *[[]] * 11],
        "Input Strides": [list(x[1]), [[512, 1]] * 4, [], [], [2048, 512, 1], *[[]] * 11],
        "Input type": ["float", "TensorList", "Scalar", "", "float", "", *["Scalar"] * 8, "ScalarList", ""],
        "Concrete Inputs": [
            "", "", "4", "", "", "", str(mode), "512", "0", "1", str(first), "0.", "False", str(both_ways), "[]", "",
        ],
    }  # fmt: skip
    operator = made.events[-3]
    for number in range(1023):
        made._add("cuda_runtime", "cudaLaunchKernel", made.now, 2.0, correlation=made.number + 1 + number)
        made.host(3.0)
        start = max(made.free, made.now)
        about = {"grid": [16, 1, 1], "block": [256, 1, 1], "device": 0, "stream": 7}
        made._add("kernel", "RNN_blockPersist", start, 2.0, correlation=made.number + 1 + number, **about)
        made.free = start + 2.0
    made.number += 1023
    operator["dur"] = made.now - operator["ts"]


@pytest.mark.parametrize("first", [False, True])
def test_a_recurrent_layer_is_one_launch(first: bool, tmp_path: Path) -> None:
    found = diagnosis(tmp_path, lambda made: recurrent(made, first=first), steps=2)
    remedy = next(each for each in found.remedies if each.name == "persistent kernel")
    steps_s = predicted_s(plan("rnn_tanh", 512, 4), 256)
    assert 0.95 * found.step_s / steps_s > remedy.gain > 0.5 * found.step_s / steps_s, "the inputs' product is added"
    assert "256 steps of rnn_tanh 512, batch 4, float32" in remedy.why and "PersistentRNN" in remedy.why


def test_a_cell_without_a_kernel_is_left_out(tmp_path: Path) -> None:
    for step in (lambda made: recurrent(made, mode=3), lambda made: recurrent(made, both_ways=True)):
        assert "persistent kernel" not in gains(diagnosis(tmp_path, step, steps=2))
