"""Odd sizes on a real GPU: cores with thin products, and copies to aligned rows, against float64."""

import math

import pytest
import torch

from brrr.core.errors import UnavailableError
from brrr.running.graphs import capture
from brrr.strassen import IMPLEMENTATIONS, Implementation, matmul
from brrr.strassen.accuracy import predicted_error
from brrr.strassen.cost import workspace_bytes
from brrr.strassen.execution import cut_steps, prepare_right, prepared
from brrr.strassen.implementations import Problem
from brrr.strassen.launcher import run_all
from brrr.strassen.operands import Arena, Right
from tests.gpu.measuring import aside
from tests.strassen_on_gpu import error, normal

ROOM = 4.0
LEVELED = [
    way for way in IMPLEMENTATIONS.values() if way.form == "strassen" and way.here(way.kind.operands[-1], "cuda")
]
RUN = ("sgemm-strassen-2-prepared", "sgemm-winograd-3", "sgemm-strassen-1", "fp16x3-strassen-2")

pytestmark = pytest.mark.usefixtures("freed")


def spoilt(m: int, n: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full((m, n), math.nan, device="cuda", dtype=dtype)


@pytest.mark.parametrize(
    ("way", "turned"),
    [(way, turned) for way in LEVELED for turned in (False, True) if way.level < 2 or not turned],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_every_way_beside_a_core(way: Implementation, turned: bool) -> None:
    """The core that is given, whether it pays or not; rows of operands and result start anywhere."""
    operand = way.kind.operands[-1]
    dtype = getattr(torch, operand)
    core, (m, n, k) = (512, 384, 640), (513, 391, 641)
    a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
    right = Right.of(b.t().contiguous().t() if turned else b)
    if way.prepared:
        made = prepare_right(right.cut(*core[1:]), way)
        right = Right(right.source, right.transposed, way, made.factors, made.made_transposed, core[1:])
    wide = spoilt(m, n + 1, dtype)
    try:
        arena = Arena(workspace_bytes(Problem(way, m, n, k, operand)), "cuda")
        run_all(cut_steps(way, core, a, right, wide[:, :n], arena))
    except UnavailableError as missing:
        pytest.skip(str(missing))
    assert error(wide[:, :n], a, b) <= ROOM * predicted_error(way, k, operand)
    assert wide[:, n:].isnan().all()


@pytest.mark.usefixtures("own_precision")
def test_tf32_switched_on_by_the_caller_does_not_reach_the_thin_products() -> None:
    a, b = normal(1025, 1025), normal(1025, 1025)
    torch.backends.cuda.matmul.allow_tf32 = True
    found = matmul(a, b, level=2, form="strassen", inner="sgemm")
    assert torch.backends.cuda.matmul.allow_tf32
    expected = a.double() @ b.double()
    for part in ((slice(1025), 1024), (1024, slice(1025)), (slice(1024), slice(1024))):
        assert float((found[part] - expected[part]).norm() / expected[part].norm()) < 1e-5


@pytest.mark.parametrize("n", [512, 1025])
@pytest.mark.parametrize("name", [*RUN, "sgemm-strassen-1-prepared", "fp16x3-strassen-1", "bf16-winograd-1"])
def test_a_captured_way_replays_on_new_numbers(name: str, n: int) -> None:
    """Whole blocks, or a core and its rest."""
    way, a, b, out = IMPLEMENTATIONS[name], normal(n, n), normal(n, n), spoilt(n, n)
    with aside() as stream:
        run = prepared(way, a, b, out)
        run()
    held = capture(lambda: (run(), out)[1], stream=stream)
    a.copy_(normal(n, n))
    out.fill_(math.nan)
    held.replay()
    torch.cuda.synchronize()
    assert error(out, a, b) <= ROOM * predicted_error(way, n)


# --- again and again at the same addresses ----------------------------------------------------------------------------


def test_on_two_streams() -> None:
    a, b, out = normal(512, 512), normal(512, 512), spoilt(512, 512)
    streams = [torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.default_stream()]
    for stream in streams * 2:
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            matmul(a.normal_(), b, out=out.fill_(math.nan), inner="fp16x3")
            torch.cuda.synchronize()
        assert error(out, a, b) < 1e-5


def test_what_a_prepared_run_knows_by_address_stays() -> None:
    """The right side's factors were freed with it: a graph emptied torch's cache, and its launches met nothing."""
    way, a, b, out = (
        IMPLEMENTATIONS["sgemm-strassen-1-prepared"],
        normal(1024, 1024),
        normal(1024, 1024),
        spoilt(1024, 1024),
    )
    run = prepared(way, a, b, out)
    torch.cuda.empty_cache()
    spoil = [spoilt(1024, 1024) for _ in range(8)]
    run()
    assert error(out, a, b) <= ROOM * predicted_error(way, 1024) and len(spoil) == 8
