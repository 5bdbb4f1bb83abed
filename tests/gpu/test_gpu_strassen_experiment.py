"""The experiments on Strassen's algorithm on a GPU: every way is right, alone and after others; speed is printed."""

import pytest

from brrr.core.measurement import Value
from brrr_course.experiments import experiment
from tests.gpu.measuring import judged, on_gpu

STRASSEN, ERRORS = experiment("strassen"), experiment("strassen_errors")
REQUIRED = ("sgemm", "sgemm-strassen-1", "tf32", "bf16", "fp16", "auto-fp32", "torch-fp16x3")
"""What a GPU machine has for certain; kernels of other generations may be missing, and then say so."""


@pytest.mark.parametrize("n", [512, 1024, 1537, 2048, 3072, 4097])
def test_every_way_is_right_beside_all_others(n: int) -> None:
    judged(STRASSEN, on_gpu(STRASSEN, {"size": n}), {"size": n}, REQUIRED, "span_s")


@pytest.mark.parametrize("inputs", ["normal", "uniform", "integer", "badly scaled rows"])
@pytest.mark.parametrize("level", [0, 2])
def test_errors_are_measured_on_every_kind_of_inputs(level: int, inputs: str) -> None:
    point: dict[str, Value] = {"level": level, "inputs": inputs, "size": 1024}
    judged(ERRORS, on_gpu(ERRORS, point), point, REQUIRED, "span_s")
