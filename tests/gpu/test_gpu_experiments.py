"""Points of experiments on a GPU: every way is right there and has its times; what is fast or slow is printed."""

from itertools import product

import pytest

from brrr.core.measurement import Point
from brrr_course.experiments import experiment
from brrr_course.experiments.attention import ALL, KINDS
from brrr_course.experiments.bits import ORDINARY, OUTLIERS
from brrr_course.experiments.compiled import PROGRAMS, SIZES
from brrr_course.experiments.gemm import TOLERANCES
from tests.gpu.measuring import timed

POINTS: list[tuple[str, Point]] = [
    ("matmul", {"size": 1024}), ("pseudo_linear_flaws", {"width": 160, "batch": 2048}),
    *(("adds", {"elements": elements}) for elements in (1, 2**20)),
    *(("host_cost", {"elements": elements, "operators": operators})
      for elements, operators in ((1024, 1), (1024, 16), (2**20, 1))),
    *(("run_ahead", {"elements": elements}) for elements in (1024, 2**22)),
    *(("scaling", {"batch": batch}) for batch in (1, 1024)),
    *(("unary", {"elements": elements, "dtype": dtype})
      for elements, dtype in product((1000, 2**20, 10_000_019), ("float32", "bfloat16"))),
    *(("working_set", {"nbytes": nbytes}) for nbytes in (2**16, 3 * 2**22, 2**28)),
    *(("strides", {"numbers": numbers, "offset": offset, "stride": stride})
      for numbers, offset, stride in product((1000, 1_000_003), (0, 3), (1, 3, 32))),
    *(("transfers", {"nbytes": nbytes}) for nbytes in (1, 1000, 1_000_003, 2**24)),
    *(("pseudo_linear", {"width": width, "batch": batch, "direction": direction})
      for (width, batch), direction in product(((64, 128), (256, 128), (1024, 2048), (6144, 128)),
                                               ("forward", "forward+backward"))),
    *(("cos_cos", {"elements": elements, "dtype": dtype})
      for elements, dtype in ((2**10, "float32"), (2**26, "bfloat16"))),
    *(("fusion", {"elements": elements, "dtype": dtype})
      for elements, dtype in ((2**10, "float32"), (2**24, "float32"), (2**26, "bfloat16"))),
    *(("sines", {"sines": sines, "elements": elements}) for sines, elements in ((1, 2**10), (32, 2**20))),
    *(("remat", {"activation": activation, "depth": depth, "elements": elements})
      for activation, depth, elements in (("cos", 2, 2**16), ("hardswish", 16, 2**21))),
    *(("compiled", {"program": program, "size": size}) for program, size in product(PROGRAMS, SIZES)),
    *(("attention", {"length": 2048, "kind": kind, "dtype": "bfloat16", "head": 128}) for kind in KINDS),
    *(("attention", {"length": length, "kind": ALL, "dtype": dtype, "head": head})
      for length, dtype, head in ((128, "bfloat16", 128), (512, "float32", 128), (512, "bfloat16", 64))),
    *(("bits", {"tokens": tokens, "width": 4096, "inputs": ORDINARY}) for tokens in (1, 16, 256)),
    ("bits", {"tokens": 256, "width": 4096, "inputs": OUTLIERS}),
    ("bits", {"tokens": 64, "width": 1024, "inputs": ORDINARY}),
    *(("gemm", {"columns": columns, "size": 2048, "dtype": dtype})
      for columns, dtype in product((1, 33, 64), TOLERANCES)),
    *(("repeat", {"repeat": repeat, "elements": elements, "dtype": dtype})
      for repeat, elements, dtype in ((33, 2**20, "bfloat16"), (512, 10_000_019, "float32"), (64, 2**26, "float16"))),
    ("gemm_many", {"count": 3, "size": 96, "dtype": "bfloat16"}), ("vocabulary", {"vocabulary": 321, "tokens": 65}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "point"), POINTS, ids=str)
@pytest.mark.usefixtures("freed")
def test_every_way_is_right_and_measured(name: str, point: Point) -> None:
    described = experiment(name)
    found = timed(described, point, budget_s=0.03, lacks=("PyCUDA", "has no kernel"))
    assert found
    for way, run in found.items():
        times = run.measurement
        if described.variant(way).timer == "measure":
            assert times.host_s is not None and times.period_s is not None, f"{way}: {times.details()}"
            assert "single-call" not in times.flags, f"{way}: compiling was taken for its time"
        print(f"{name} {way} {point}: {times}; busy {times.busy_s}; {times.kernels} kernels, error {run.error:.1e}")
