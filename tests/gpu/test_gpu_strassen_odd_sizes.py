"""Odd sizes on a real GPU: cores with thin products, and copies to aligned rows, against float64."""

import math

import pytest
import torch

from brrr.core.errors import UnavailableError
from brrr.running.graphs import capture
from brrr.strassen import IMPLEMENTATIONS, Implementation, explain, matmul
from brrr.strassen.accuracy import predicted_error
from brrr.strassen.execution import cut_steps, pass_steps, prepare_right, prepared, run_all
from brrr.strassen.odd_sizes import Copied, copied
from brrr.strassen.operands import Arena, Right
from brrr.strassen.problem import Problem, Sizes
from brrr.strassen.workspace import workspace_bytes
from tests.gpu.measuring import aside
from tests.strassen_on_gpu import error, normal

ROOM = 4.0
LEVELED = [
    way for way in IMPLEMENTATIONS.values() if way.form == "strassen" and way.here(way.kind.operands[-1], "cuda")
]
SHORT = ("bf16", "fp16", "tf32")
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


@pytest.mark.parametrize("sizes", [(1537, 1024, 2049), (1031, 1601, 1153), (4097, 4097, 4097)])
@pytest.mark.parametrize("name", RUN)
def test_a_way_as_it_is_run(name: str, sizes: Sizes) -> None:
    (m, n, k), way = sizes, IMPLEMENTATIONS[name]
    a, b, out = normal(m, k), normal(k, n), spoilt(m, n)
    for right in (b, b.t().contiguous().t()):
        prepared(way, a, right, out.fill_(math.nan))()
        assert error(out, a, b) <= ROOM * predicted_error(way, k)


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


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("sizes", [(333, 391, 641), (333, 392, 641), (333, 391, 640)])
@pytest.mark.parametrize("inner", SHORT)
def test_copies_to_aligned_rows(inner: str, sizes: Sizes, turned: bool) -> None:
    (m, n, k), way = sizes, IMPLEMENTATIONS[inner]
    for operand in way.kind.operands:
        dtype = getattr(torch, operand)
        a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
        right = Right.of(b.t().contiguous().t() if turned else b)
        found = Copied(True, True, True) if way.dtype != operand else Copied(bool(k % 8), True, bool(n % 8))
        arena, out = Arena(3 * 4 * (m + 8) * (n + 8) + 3 * 4 * (k + 8) * (m + n + 16), "cuda"), spoilt(m, n, dtype)
        arena.memory.fill_(255)  # NaN: what lies behind the rows must not count
        made = pass_steps(Problem(way, m, n, k, operand), a, right, out, arena, found)
        run_all(made)
        assert error(out, a, b) <= ROOM * predicted_error(way, k, operand)


@pytest.mark.parametrize("accuracy", ["bf16", "tf32", "fp16", None])
@pytest.mark.parametrize("sizes", [(2047, 2048, 2047), (1601, 2053, 1999), (4097, 4097, 4097)])
def test_matmul_at_odd_sizes(sizes: Sizes, accuracy: str | None) -> None:
    m, n, k = sizes
    for dtype in (torch.float32, torch.bfloat16):
        if accuracy != "bf16" and dtype == torch.bfloat16:
            continue
        a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
        made = explain(a, b, accuracy=accuracy)
        assert error(matmul(a, b, accuracy=accuracy), a, b) <= 2 * made.predicted_error


def test_never_more_memory_than_stated_at_odd_sizes() -> None:
    n = 4097
    a, b = normal(n, n, dtype=torch.bfloat16), normal(n, n, dtype=torch.bfloat16)
    out = torch.empty_like(a)
    problem = Problem(IMPLEMENTATIONS["bf16"], n, n, n, "bfloat16")
    assert copied(problem).any
    for limit in (workspace_bytes(problem), 2**20):
        matmul(a, b, out=out, level=0, workspace_bytes=limit)  # libraries take their workspaces
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        matmul(a, b, out=out, level=0, workspace_bytes=limit)
        torch.cuda.synchronize()
        assert torch.cuda.max_memory_allocated() - before <= limit + 2**21
        assert error(out, a, b) <= ROOM * predicted_error(IMPLEMENTATIONS["bf16"], n, "bfloat16")


# --- again and again at the same addresses ----------------------------------------------------------------------------


def test_the_same_addresses_are_right_for_new_numbers_and_no_memory_is_held() -> None:
    for options in ({"inner": "fp16x3", "level": 0}, {"inner": "sgemm", "level": 1}, {"inner": "bf16", "level": 0}, {}):
        a, b, out = normal(1025, 1000), normal(1000, 1031), spoilt(1025, 1031)
        for _ in range(3):
            a.normal_()
            b.normal_()
            matmul(a, b, out=out.fill_(math.nan), **options)  # type: ignore[arg-type]
            assert error(out, a, b) < 1e-2 if options.get("inner") == "bf16" else error(out, a, b) < 1e-5
        before = torch.cuda.memory_allocated()
        size = a.nbytes + b.nbytes + out.nbytes
        del a, b, out
        assert torch.cuda.memory_allocated() <= before - size


def test_on_two_streams_and_in_a_graph() -> None:
    a, b, out = normal(512, 512), normal(512, 512), spoilt(512, 512)
    streams = [torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.default_stream()]
    for stream in streams * 2:
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            matmul(a.normal_(), b, out=out.fill_(math.nan), inner="fp16x3")
            torch.cuda.synchronize()
        assert error(out, a, b) < 1e-5
    with torch.cuda.stream(streams[0]):
        held = capture(lambda: matmul(a, b, out=out, inner="fp16x3"), stream=streams[0])
    a.normal_()
    out.fill_(math.nan)
    held.replay()
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


def test_backward_runs_in_a_thread_of_its_own() -> None:
    """Kernels that backward is the first to need must load there."""
    a, b = normal(257, 263).requires_grad_(), normal(263, 269).requires_grad_()
    matmul(a, b, inner="sgemm", level=1, form="winograd").sum().backward()
    assert a.grad is not None and b.grad is not None
    assert error(a.grad, torch.ones(257, 269, device="cuda"), b.detach().t()) < 1e-5
