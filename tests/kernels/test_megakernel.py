"""The persistent megakernel: how it shares out a network, what it refuses, and that the kernel compiles."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hosted import by_nvcc, needs_nvcc
from hypothesis import given, settings
from hypothesis import strategies as st

from brrr.core.files import PACKAGE
from brrr.kernels.megakernel.device import NO_CLUSTERS, plan, predicted_s
from brrr.kernels.megakernel.megakernel import checked_network, packed
from brrr.kernels.megakernel.plan import H200, LARGEST_INPUT, MOST_WARPS, Gpu, NetworkShape, make_plan
from tests.refusals import refused

SMALL = Gpu(232448, {8: 16, 4: 32, 2: 66, 1: 132})
# ---- the plan ----


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 16), st.integers(1, 300), st.integers(1, 4096))
def test_a_plan_covers_the_network_and_fits(layers: int, batch: int, hidden: int) -> None:
    for gpu in (H200, SMALL):
        made = plan(NetworkShape(layers, batch, hidden), gpu)
        if made is None:
            assert hidden > 1536, "narrow networks always fit"
            continue
        assert made.clusters(batch) * made.rows >= batch > (made.clusters(batch) - 1) * made.rows
        assert made.width >= hidden and made.cluster * made.columns == made.width == made.chunks * made.depth
        assert made.depth % 32 == 0 and made.columns % (4 * made.tile_quads) == 0 and made.rows % made.tile_rows == 0
        assert (
            1 <= made.warps <= MOST_WARPS
            and made.tiles * made.tile_rows * made.tile_quads * 4 == made.rows * made.columns
        )
        assert made.slots >= 2 and made.slots % made.k_warps == 0, "each warp finds its chunks in the same slots"
        assert made.shared_bytes <= gpu.shared_bytes and made.slot_bytes % 16 == 0
        assert 4 * made.tile_rows * made.width <= LARGEST_INPUT and made.chunks % made.k_warps == 0
        assert made.needed_registers <= made.registers and (
            made.clusters(batch) * made.cluster <= gpu.active_clusters[1]
            if made.wide
            else made.cluster in gpu.active_clusters
        )


def test_a_network_that_does_not_fit_has_no_plan() -> None:
    assert plan(NetworkShape(8, 2, 100_000), H200) is None
    assert plan(NetworkShape(8, 2, 128), NO_CLUSTERS) is None


def test_clusters_take_turns_where_not_all_fit() -> None:
    made = make_plan(128, H200, 16, 8, 4, 1)
    assert made is not None
    once, twice = (predicted_s(made, NetworkShape(8, batch, 128), H200) for batch in (56, 64))
    assert made.clusters(64) == 8 and twice > 1.5 * once


def test_packed_weights_are_where_a_block_looks_for_them() -> None:
    made = make_plan(100, H200, 4, 2, 1, 1)
    assert made is not None and made.width == 128
    weights, biases = [torch.randn(100, 100) for _ in range(3)], [torch.randn(100) for _ in range(3)]
    flat, offsets = packed(weights, biases, made)
    flat = flat.flatten()
    for layer, block, chunk, column, k in [(0, 0, 0, 0, 0), (2, 1, 0, 7, 99), (1, 3, 0, 3, 5), (2, 3, 0, 31, 127)]:
        at = (
            ((layer * made.cluster + block) * made.chunks + chunk) * made.columns * made.depth + column * made.depth + k
        )
        row, from_k = block * made.columns + column, chunk * made.depth + k
        expected = weights[layer][row, from_k] if row < 100 and from_k < 100 else torch.tensor(0.0)
        assert flat[at] == expected
    assert torch.equal(offsets[1, :100], biases[1]) and not offsets[:, 100:].any()


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda: ([], [], 4), "weights"),
        (lambda: ([torch.zeros(4, 4)], [torch.zeros(4)], 0), "batch"),
        (lambda: ([torch.zeros(4, 4)], [torch.zeros(4)], True), "batch"),
        (lambda: ([torch.zeros(4, 4)], [], 4), "weights"),
        (lambda: ([torch.zeros(4, 5)], [torch.zeros(4)], 4), "weights[0]"),
        (lambda: ([torch.zeros(4, 4).double()], [torch.zeros(4)], 4), "weights[0]"),
        (lambda: ([torch.zeros(4, 4)], [torch.zeros(4)], 4), "weights[0]"),
    ],
)
def test_what_is_no_network_is_refused(
    make: Callable[[], tuple[list[torch.Tensor], list[torch.Tensor], int]], wrong: str
) -> None:
    with refused(wrong):
        checked_network(*make())


@needs_nvcc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(("batch", "hidden"), [(2, 128), (64, 512), (3, 1000), (2, 2048)])
def test_the_kernel_compiles_for_a_plan_without_spills(arch: str, batch: int, hidden: int, tmp_path: Path) -> None:
    made = plan(NetworkShape(8, batch, hidden), H200)
    assert made is not None
    source = PACKAGE / "kernels/megakernel/megakernel.cu"
    code, told = by_nvcc(source, tmp_path, f"-arch={arch}", "--Werror", "all-warnings", *made.defines())
    assert " 0 bytes spill stores" in told and b"brrr_mega_cluster" in code
