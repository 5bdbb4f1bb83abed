"""The persistent megakernel itself, run thread by thread on the CPU: right numbers, no deadlock, nothing too early."""

import ctypes
import dataclasses
import subprocess
from pathlib import Path

import pytest
import torch
from hosted import hosted, needs_gxx

from brrr.core.files import PACKAGE
from brrr.kernels.megakernel.megakernel import packed
from brrr.kernels.megakernel.plan import H200, MegakernelPlan, make_plan

KERNELS = PACKAGE / "kernels/megakernel"
CASES = [
    # layers, batch, hidden, cluster, rows, tile_rows, tile_quads, k_warps, slots, depth
    (1, 1, 1, 1, 1, 1, 1, 1, 2, 32),
    (4, 3, 32, 2, 2, 1, 1, 1, 2, 32),
    (3, 6, 100, 4, 4, 2, 1, 1, 2, 128),
    (4, 5, 67, 2, 8, 8, 2, 3, 3, 32),
    (5, 8, 64, 16, 8, 4, 1, 2, 4, 32),
    (3, 2, 96, 1, 2, 2, 4, 1, 2, 32),
    (3, 4, 256, 16, 4, 4, 1, 2, 2, 128),
    (3, 4, 256, 16, 4, 2, 2, 4, 4, 64),
    (9, 17, 33, 2, 16, 8, 1, 1, 3, 32),
    (2, 2, 384, 8, 2, 2, 4, 3, 3, 128),
    (3, 8, 128, 4, 8, 4, 4, 2, 6, 32),
    (6, 4, 128, 8, 4, 1, 4, 4, 32, 32),
]


MUTATED = (6, 8, 100, 4, 4, 2, 4, 2, 4, 32)
"""Two groups of rows, two warps a tile, a ring that is reused."""


def forced(case: tuple[int, ...]) -> MegakernelPlan:
    _, _, hidden, cluster, rows, tile_rows, tile_quads, k_warps, slots, depth = case
    made = make_plan(hidden, H200, cluster, rows, tile_rows, tile_quads)
    assert made is not None
    return dataclasses.replace(made, k_warps=k_warps, slots=slots, depth=depth)


COUNTER_LEFT = 9


def host_run(made: MegakernelPlan, layers: int, batch: int, folder: Path, seed: int) -> tuple[int, float]:
    """The verdict of a kernel compiled as plain C++ with a plan's constants, and its result's relative error."""
    library = folder / f"{abs(hash(made.defines()))}.so"
    folders = (f"-I{KERNELS}", f"-I{PACKAGE / 'kernels/megakernel'}")  # a spoilt source in front of the others
    kernel = hosted("megakernel_host.cpp", library, *folders, *made.defines())
    draw = torch.Generator().manual_seed(seed)
    hidden = made.hidden
    weights = [torch.randn(hidden, hidden, generator=draw) * (2 / hidden) ** 0.5 for _ in range(layers)]
    biases = [torch.randn(hidden, generator=draw) for _ in range(layers)]
    x, y = torch.randn(batch, hidden, generator=draw), torch.full((batch, hidden), float("nan"))
    kept = packed(weights, biases, made)
    pointers = [ctypes.c_void_p(each.data_ptr()) for each in (x, *kept, y)]
    run = kernel.brrr_host_run
    between = torch.full((made.clusters(batch), 2, made.rows * made.width), float("nan"))
    counters = torch.zeros(made.clusters(batch) * layers, dtype=torch.int32)
    shared = (ctypes.c_void_p(each.data_ptr()) for each in (between, counters))
    verdict = run(*pointers, batch, layers, made.clusters(batch), made.shared_bytes, ctypes.c_uint(seed), *shared)
    verdict = verdict or (COUNTER_LEFT if counters.any() else 0)  # the next launch begins with counters at zero
    expected = x.double()
    for weight, bias in zip(weights, biases, strict=True):
        expected = (expected @ weight.double().T + bias.double()).relu()
    return verdict, float((y - expected).norm() / expected.norm().clamp_min(1e-6))


@needs_gxx
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_kernel_thread_by_thread(case: tuple[int, ...], tmp_path: Path) -> None:
    """0: no deadlock, no address outside a block's memory, nothing used before it arrived; and the right numbers."""
    verdict, error = host_run(forced(case), case[0], case[1], tmp_path, seed=CASES.index(case))
    assert verdict == 0 and error < 1e-6


@needs_gxx
@pytest.mark.parametrize(
    "case",
    [(1, 2, 96, 6, 2, 1, 1, 2), (5, 3, 96, 6, 2, 1, 3, 3), (4, 4, 100, 4, 4, 2, 2, 4), (6, 1, 200, 7, 1, 2, 1, 9)],
)
def test_the_wide_kernel_thread_by_thread(case: tuple[int, ...], tmp_path: Path) -> None:
    layers, batch, hidden, cluster, rows, tile_quads, k_warps, slots = case
    made = make_plan(hidden, H200, cluster, rows, rows, tile_quads, wide=True)
    assert made is not None
    for seed in (1, 2):
        forced = dataclasses.replace(made, k_warps=k_warps, slots=slots, depth=32)
        verdict, error = host_run(forced, layers, batch, tmp_path, seed)
        assert verdict == 0 and error < 1e-6


@needs_gxx
def test_a_ring_that_does_not_suit_its_warps_does_not_compile(tmp_path: Path) -> None:
    made = dataclasses.replace(forced(MUTATED), slots=3)  # two warps a tile
    with pytest.raises(subprocess.CalledProcessError):
        host_run(made, 6, 8, tmp_path, 1)


@needs_gxx
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if (part == 0 && layer > 0)\n", "if (false)\n"),
        ("barrier_wait(barrier(FULL + slot), turn & 1)", "barrier_wait(barrier(FULL + slot), 1)"),
        ("meet(1 + tile, 32 * K_WARPS)", "__syncwarp()"),
        ("count_wait(counters + layer - 1, CLUSTER * TILES)", "(void)counters"),
        ("count_in(counters, layer, layers, lane)", "count_in(counters, layer, layers + 1, lane)"),
    ],
)
def test_a_kernel_that_does_not_wait_is_found_out(
    old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (KERNELS / "megakernel.cu").read_text(encoding="utf-8")
    assert old in source
    (tmp_path / "megakernel.cu").write_text(source.replace(old, new), encoding="utf-8")
    monkeypatch.setattr("test_megakernel_host.KERNELS", tmp_path)
    wide = make_plan(96, H200, 6, 2, 2, 1, wide=True)
    assert wide is not None
    made = dataclasses.replace(wide, slots=4, depth=32) if "count" in old else forced(MUTATED)
    outcomes = (host_run(made, 6, 2 if made.wide else 8, tmp_path, seed) for seed in range(4))
    assert any(verdict != 0 or not error < 1e-6 for verdict, error in outcomes)
