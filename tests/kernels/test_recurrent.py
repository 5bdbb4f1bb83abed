"""Plans of persistent recurrent layers, their kernel compiled for two GPUs, and what PersistentRNN refuses anywhere."""

from pathlib import Path

import pytest
import torch
from hosted import by_nvcc, needs_nvcc

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.core.files import PACKAGE
from brrr.kernels.recurrent import PersistentRNN
from brrr.kernels.recurrent.plan import H200, Chip, RecurrentPlan, largest_hidden, plan, plans, shortlist

TURING = Chip(40, 65_536, tf32=False)
SIZES = [(8, 1), (256, 5), (768, 3), (1024, 64), (1152, 24), (1280, 96)]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("cell", ["rnn_tanh", "rnn_relu", "lstm"])
@pytest.mark.parametrize(("hidden", "batch"), SIZES)
def test_plans_hold_all_weights_and_all_samples_and_run_at_once(
    cell: str, hidden: int, batch: int, dtype: str, backward: bool
) -> None:
    for made in shortlist(cell, hidden, batch, dtype, backward=backward):
        assert made.group_blocks * made.units >= hidden > (made.group_blocks - 1) * made.units
        chunk = 16 if made.split else 32
        assert made.warps * made.chunks * chunk >= made.columns, "all columns"
        assert made.groups * made.group_batch >= batch > (made.groups - 1) * made.group_batch, (
            "no group without samples"
        )
        assert made.blocks <= H200.multiprocessors and made.shared_bytes <= H200.shared_bytes
        assert made.threads * made.weight_registers <= 65536, "registers of a multiprocessor"
        held = made.threads * made.weight_registers * 4 + made.shared_chunks * made.parts * made.threads * 16
        assert held >= made.rows * made.columns * made.element_bytes, "a block holds its share of the matrix"


def test_what_must_fit_does() -> None:
    assert largest_hidden("rnn_tanh", "float32") >= 1792 and largest_hidden("lstm", "float32") >= 1280
    assert min(largest_hidden("rnn_tanh", dtype) for dtype in ("float16", "bfloat16")) >= 2560
    assert largest_hidden("lstm", "float32", TURING) < 1024, "a small GPU holds less"


def test_what_does_not_fit_names_the_largest_that_does() -> None:
    most = largest_hidden("lstm", "float32")
    assert plan("lstm", most, 1).hidden == most
    with pytest.raises(ArgumentError, match=f"hidden_size is {most + 32}; expected at most {most}"):
        plan("lstm", most + 32, 1)
    with pytest.raises(ArgumentError, match="backward pass of a lstm in float16"):
        plan("lstm", 8192, 1, "float16", backward=True)


def test_a_steps_flop_are_without_padding_and_grow_with_the_samples() -> None:
    one, many = plan("lstm", 1024, 1), plan("lstm", 1024, 128)
    assert many.flop == 128 * one.flop and one.flop == 2 * 4 * 1024 * 1024
    assert many.blocks * many.rows * many.columns >= 4 * 1024 * 1024, "all weights are on the chip"


def test_a_gpu_without_tf32_gets_no_plan_that_needs_it() -> None:
    assert any(made.split for made in plans("rnn_tanh", 256, 32, "float32", H200))
    assert not any(made.split for made in plans("rnn_tanh", 256, 32, "float32", TURING))


def compiled(made: RecurrentPlan, arch: str, folder: Path, train: bool = False) -> str:
    options = (f"-arch={arch}", "-Werror", "all-warnings", *made.defines(train, 9 if train else 0))
    return by_nvcc(PACKAGE / "kernels/recurrent/recurrent.cu", folder, *options)[1]


@needs_nvcc
@pytest.mark.parametrize(("cell", "dtype", "backward"), [
    ("rnn_tanh", "float32", False), ("lstm", "float32", True),
    ("lstm", "bfloat16", False), ("rnn_relu", "float16", True),
])  # fmt: skip
def test_the_kernel_compiles_without_putting_weights_into_memory(
    cell: str, dtype: str, backward: bool, tmp_path: Path
) -> None:
    for batch in (1, 64):
        told = compiled(plan(cell, 1024, batch, dtype, backward=backward), "sm_90", tmp_path, train=not backward)
        spilled = int(told.split(" bytes spill stores")[0].split()[-1])
        assert spilled < 400, told


@pytest.mark.parametrize(("module", "told"), [
    (torch.nn.GRU(3, 4), "module is 'GRU'; expected a torch.nn.RNN or a torch.nn.LSTM"),
    (torch.nn.LSTM(3, 4, bidirectional=True), "bidirectional is True"),
    (torch.nn.LSTM(3, 4, proj_size=2), "proj_size is 2"),
])  # fmt: skip
def test_a_module_that_it_has_no_kernel_for_is_refused(module: torch.nn.Module, told: str) -> None:
    with pytest.raises(ArgumentError, match=told):
        PersistentRNN(module)  # type: ignore[arg-type]


def test_without_a_gpu_it_says_so() -> None:
    with pytest.raises(UnavailableError, match="x is on cpu, and the kernel runs on a GPU"):
        PersistentRNN(torch.nn.RNN(3, 4))(torch.zeros(2, 3, 3))
