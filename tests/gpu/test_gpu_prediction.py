"""The `prediction` experiment on a GPU: every variant of some cases, kernels in batches, torch's own estimator."""

from random import Random

import pytest
import torch

from brrr.core.errors import BrrrError
from brrr.timing import measure
from brrr_course.sources.timers import measure_point
from tools.prediction.cases import case, cases, intervened, to_compile
from tools.prediction.experiment import EXPERIMENT as PREDICTION
from tools.prediction.work import kernel_times

ON_CUDA = [variant.name for variant in PREDICTION.variants if variant.device == "cuda"]
SOME = [each.name for each in Random(0).sample(cases(), 8)] + sorted(intervened())[:3] + sorted(to_compile())[:1]


@pytest.mark.parametrize("name", dict.fromkeys(SOME))
def test_every_variant_of_a_case_is_right_and_measured(name: str) -> None:
    point = {"case": name}
    wanted = [variant for variant in ON_CUDA if PREDICTION.has(variant, point)]
    found = measure_point(PREDICTION, wanted, point, budget_s=0.03)
    assert {variant: str(ran) for variant, ran in found.items() if isinstance(ran, BrrrError)} == {}
    for variant, ran in found.items():
        assert not isinstance(ran, BrrrError)
        m = ran.measurement
        assert (m.estimated_s is not None, m.period_s is not None) == (variant == "torch", variant != "torch")
        assert (m.busy_s is not None) == (variant in ("eager", "other-bytes", "other-flop")), variant


def test_precision_of_products_is_left_as_it_was() -> None:
    before = torch.backends.cuda.matmul.fp32_precision
    name = next(each.name for each in cases() if each.dtype == "tf32" and each.nbytes < 1e7)
    found = measure_point(PREDICTION, ["eager"], {"case": name}, budget_s=0.03)["eager"]
    assert not isinstance(found, BrrrError), found
    assert torch.backends.cuda.matmul.fp32_precision == before


def test_a_batch_sees_the_kernels_that_the_timer_sees() -> None:
    from tools.prediction.work import call_of, inputs_of

    for each in [case(name) for name in SOME if case(name).nbytes < 1e7 and case(name).dtype != "tf32"][:5]:
        alone = measure(call_of(each, inputs_of(each, "cuda")), device="cuda", budget_s=0.03)
        assert {len(call) for call in kernel_times(each)} == {alone.kernels}, each.name
