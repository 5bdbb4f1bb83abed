"""What the claims on products of matrices ask of kernels' names; and what the predictor says of a sweep."""

import re
from collections.abc import Callable

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate
from brrr_course.experiments.judging import datasheet
from brrr_course.nouns.expression import Key, Table
from brrr_course.nouns.source import Evidence

SIZE = 2048


def _curve(evidence: Evidence, line: str, dtype: str, size: int = SIZE) -> dict[int, Estimate]:
    return {int(n): time for n, time in evidence.curve(line, "columns", size=size, dtype=dtype).items()}


def launched(evidence: Evidence, dtype: str, size: int = SIZE) -> dict[int, str]:
    """The first kernel of W x, as the profiler named it, by the number of columns."""
    known = evidence.source.known(evidence.experiment, "nn").items()
    found = {int(n): m.launched[0] for (n, at, kind), m in known if (at, kind) == (size, dtype) and m.launched}
    if not found:
        raise NotRecordedError(f"no kernel's name was recorded for {dtype} at M = K = {size}")
    return found


def tile(kernel: str) -> tuple[int, int] | None:
    """The tile of the result that a library's kernel tells in its name; None where it tells none.

    >>> tile("cutlass_80_simt_sgemm_128x64_8x5_nn_align1 16x8x1 of 128"), tile("gemv2T_kernel_val 1x1x1 of 128")
    ((128, 64), None)
    >>> tile("nvjet_sm90_tst_64x24_64x16_1x4_h_bz_NNT 4x22x1 of 384")
    (64, 24)
    """
    found = re.search(r"(\d+)x(\d+)", kernel.partition(" ")[0])
    return (int(found[1]), int(found[2])) if found else None


def blocks(kernel: str) -> int:
    """How many blocks a kernel was launched with.

    >>> blocks("nvjet_sss_128x64_64x5_2x1_v_bz_TNT 132x2x1 of 384")
    264
    """
    count = 1
    for each in kernel.split()[-3].split("x"):
        count *= int(each)
    return count


def tiles(evidence: Evidence, smallest: int, largest: int) -> Table:
    """By the number of columns, whether the first kernel's name tells a tile with both sides from one to another."""
    sides = {n: tile(kernel) or () for n, kernel in launched(evidence, "float32").items()}
    found: dict[Key, bool] = {
        (n,): bool(each) and all(smallest <= side <= largest for side in each) for n, each in sides.items()
    }
    return Table(("columns",), found)


def grids(evidence: Evidence) -> Table:
    """By the number of columns, how many blocks the first kernel was launched with."""
    return Table(("columns",), {(n,): blocks(kernel) for n, kernel in launched(evidence, "float32").items()})


# ---------------------------------------------------------------------------------------------------------------------
# The predictor against a sweep.


def foretold(
    evidence: Evidence, dtype: str, size: int = SIZE, some: Callable[[int], bool] = bool
) -> tuple[dict[int, float], dict[int, float]]:
    """Measured and predicted seconds of W x, by the number of columns; predicted for `some`, as a call takes long."""
    from brrr.roofline.shapes import product_time_s

    device, kind = datasheet(evidence).key, evidence.experiment.variant("nn")
    measured = {n: time.median for n, time in _curve(evidence, "nn", dtype, size).items()}
    predicted = {}
    for n in filter(some, measured):
        run = evidence.experiment.predicted_run(kind.name, {"columns": n, "size": size, "dtype": dtype})
        assert run is not None
        predicted[n] = product_time_s(run.cost.matmuls[0], device)
    return measured, predicted
