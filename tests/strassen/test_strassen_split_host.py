"""`split_product.cu` run thread by thread on the CPU: right numbers at any shape, no deadlock, nothing too early."""

import ctypes
from pathlib import Path

import pytest
import torch
from hosted import by_nvcc, hosted, needs_gxx, needs_nvcc

from brrr.core.files import PACKAGE
from brrr.strassen.split.operands_kernel import Terms
from brrr.strassen.split.product_kernel import DEPTH, ROWS, Tiling, chosen, rounds, tile_grid
from tests.strassen_split_calls import TILINGS, together

KERNELS = PACKAGE / "strassen/split"


def host_run(
    tiling: Tiling,
    shape: tuple[int, int, int, int],
    blocks: int,
    folder: Path,
    source: Path,
    seed: int = 0,
    more: tuple[str, ...] = (),
) -> tuple[int, float]:
    """The emulation's verdict, and the worst error of an entry, relative to the lengths of its row and column."""
    batch, m, n, k = shape
    sizes = [torch.exp2(torch.randint(-40, 40, (batch, rows, 1)).float()) for rows in (m, n)]
    a, w = (torch.randn(batch, rows, k) * size for rows, size in zip((m, n), sizes, strict=True))
    left, right = (together(x) for x in (a, w))
    library = compiled(tiling, folder, source, more)
    room = torch.full((batch * m * n + 64,), float("nan"))
    out = room[: batch * m * n].view(batch, m, n)
    cut = tile_grid(tiling, left, right, out)
    boxes = ((left, ROWS), (right, tiling.columns // tiling.cluster))
    maps = (ctypes.c_longlong * 24)(*(x for terms, rows in boxes for x in described(terms, rows)))
    halves = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.float16).float()
    verdict = library.brrr_host_run(
        maps, *(ctypes.c_void_p(each.data_ptr()) for each in (room, left.exponents, right.exponents)),
        ctypes.byref(cut), ctypes.c_void_p(halves.data_ptr()), blocks * tiling.cluster, tiling.shared_bytes, seed,
    )  # fmt: skip
    lengths = a.double().norm(dim=2)[:, :, None] * w.double().norm(dim=2)[:, None, :]
    assert bool(room[batch * m * n :].isnan().all()), "it wrote behind the end"
    return int(verdict), float(((out - a.double() @ w.double().mT) / lengths).abs().nan_to_num(1.0).max())


def described(terms: Terms, box_rows: int) -> list[int]:
    """Both terms' maps, as `product_kernel.tensor_map` makes them."""
    batch, high, wide = terms.hi.shape
    both = (terms.hi, terms.lo)
    return [x for term in both for x in (term.data_ptr(), wide, batch * high, term.stride(1), DEPTH, box_rows)]


def compiled(tiling: Tiling, folder: Path, source: Path, more: tuple[str, ...]) -> ctypes.CDLL:
    library = folder / f"{source.stem}{abs(hash(tiling))}.so"
    folders = f"-I{source.parent}", f"-I{KERNELS}"
    return hosted("strassen_split_host.cpp", library, *folders, *tiling.defines(), *more)


@needs_gxx
@pytest.mark.parametrize("tiling", ["", "clusters", "128 columns, clusters"])
def test_right_in_any_order_of_threads(tiling: str, tmp_path: Path) -> None:
    for seed, (shape, blocks) in enumerate([((2, 140, 201, 330), 2), ((1, 1, 3, 5), 1), ((1, 130, 64, 64), 3)]):
        verdict, error = host_run(
            TILINGS[tiling], shape, blocks, tmp_path, PACKAGE / "strassen/split/split_product.cu", seed
        )
        assert (verdict, error < 5e-7) == (0, True), f"{shape}: verdict {verdict}, error {error}"


FEW_SLOTS = ("-USLOTS", "-DSLOTS=4")
MISTAKES = {
    "sums read before they are there": ("    multiply_wait<0>();\n", ""),
    "a round too early": ("ring.phase ^ 1);  // passes", "ring.phase);  // passes"),
    "a slot that nobody waits for": ("    barrier_wait(ring.full + 8 * lo, ring.phase);\n", ""),
    "one product twice": (
        "multiply_slots(d, left_lo, right_hi, false);", "multiply_slots(d, left_hi, right_lo, false);"
    ),
    "another swizzle": ("u64(1) << 62", "u64(2) << 62"),
}  # fmt: skip


@needs_gxx
def test_four_slots_are_enough(tmp_path: Path) -> None:
    source = PACKAGE / "strassen/split/split_product.cu"
    verdict, error = host_run(Tiling(columns=128), (1, 140, 120, 600), 1, tmp_path, source, more=FEW_SLOTS)
    assert verdict == 0 and error < 5e-7


@needs_gxx
@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_emulation_sees_mistakes(mistake: str, tmp_path: Path) -> None:
    """With as few slots as there may be, so that each is wanted again soon."""
    right, wrong = MISTAKES[mistake]
    text = (PACKAGE / "strassen/split/split_product.cu").read_text(encoding="utf-8")
    assert text.count(right) == 1
    source = tmp_path / "split_product.cu"
    source.write_text(text.replace(right, wrong), encoding="utf-8")
    verdict, error = host_run(Tiling(columns=128), (1, 140, 120, 600), 1, tmp_path, source, more=FEW_SLOTS)
    assert verdict or not error < 5e-7, "the mistake went unseen"


@needs_nvcc
@pytest.mark.parametrize("tiling", TILINGS)
def test_it_compiles_for_sm_90a_and_all_sums_stay_in_registers(tiling: str, tmp_path: Path) -> None:
    made = TILINGS[tiling]
    source, target = PACKAGE / "strassen/split/split_product.cu", "-gencode=arch=compute_90a,code=sm_90a"
    code, said = by_nvcc(source, tmp_path, target, *made.defines())
    assert "0 bytes spill stores, 0 bytes spill loads" in said and b"brrr_split_product" in code
    assert "C75" not in said, "the compiler waits for products by itself, or ignores setmaxnreg"
    assert made.shared_bytes <= 232448 and made.slots >= 4


@pytest.mark.parametrize("n", [1, 1000, 2048, 4096, 8192, 16384])
def test_the_chosen_tiling_leaves_few_multiprocessors_idle(n: int) -> None:
    best = min(rounds(each, 1, n, n) * each.columns for each in (Tiling(), Tiling(columns=128)))
    assert rounds(chosen(1, n, n), 1, n, n) * chosen(1, n, n).columns <= 1.05 * best


def test_a_round_is_a_tile_of_each_multiprocessor() -> None:
    assert [rounds(Tiling(columns=128), 1, 1408, columns) for columns in (1536, 1537)] == [1, 2]  # 11 x 12 = 132 tiles
    pairs = Tiling(columns=128, cluster=2)  # of blocks, one below the other
    assert [rounds(pairs, 1, 1408, columns) for columns in (1408, 1409)] == [1, 2]  # 6 x 11 = 66 pairs
    assert [rounds(pairs, 1, rows, 128, multiprocessors=3) for rows in (256, 257)] == [1, 2]
