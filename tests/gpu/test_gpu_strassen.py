"""matmul, StrassenMLP and the network's ways on a real GPU: right, within their memory, captured, on other streams."""

import copy
import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

from brrr.core.errors import UnavailableError
from brrr.strassen import IMPLEMENTATIONS, Implementation, fuse, matmul
from brrr.strassen.accuracy import predicted_error
from brrr.strassen.cost import workspace_bytes
from brrr.strassen.execution import prepared
from brrr.strassen.implementations import Problem
from tests.strassen_on_gpu import error, normal

ROOM = 4.0
"""So many times the predicted error may be seen; TF32 in float32's place, or a wrong sign, is far beyond."""

ON_GPU = [way for way in IMPLEMENTATIONS.values() if any(way.here(operand, "cuda") for operand in way.kind.operands)]
REQUIRED = ("sgemm", "tf32", "bf16", "fp16", "fp64")

pytestmark = pytest.mark.usefixtures("freed")


def run_or_skip(way: Implementation, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """A kernel of another generation may be missing; a library's product may not."""
    try:
        prepared(way, a, b, out)()
    except UnavailableError as missing:
        if way.inner in REQUIRED:
            raise
        pytest.skip(str(missing))


@pytest.mark.parametrize("way", ON_GPU, ids=lambda way: way.name)
def test_every_way_is_right_and_within_its_predicted_error(way: Implementation) -> None:
    for operand in way.kind.operands:
        dtype = getattr(torch, operand)
        for m, k, n in ((512, 1024, 256), (333, 720, 400)):
            a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
            out = torch.full((m, n), math.nan, device="cuda", dtype=dtype)
            run_or_skip(way, a, b, out)
            assert error(out, a, b) <= ROOM * predicted_error(way, k, operand), (operand, m, k, n)


MEMORY = [
    *((name, 4096, None) for name in ("sgemm-strassen-2", "sgemm-winograd-3", "fp16x3-strassen-2")),
    *(("bf16", 4097, limit) for limit in (None, 2**20)),
]
"""What is asked for by itself, or with less than its copies to aligned rows take."""


@pytest.mark.parametrize(("name", "n", "limit"), MEMORY)
def test_never_more_memory_than_stated(name: str, n: int, limit: int | None) -> None:
    way, operand = IMPLEMENTATIONS[name], "bfloat16" if name == "bf16" else "float32"
    a, b, out = (normal(n, n, dtype=getattr(torch, operand)) for _ in range(3))
    asked = workspace_bytes(Problem(way, n, n, n, operand)) if limit is None else limit
    options: dict[str, Any] = {"level": way.level, "form": way.form, "inner": way.inner, "workspace_bytes": asked}
    matmul(a, b, out=out, **options)  # libraries take their workspaces
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    matmul(a, b, out=out, **options)
    torch.cuda.synchronize()
    assert torch.cuda.max_memory_allocated() - before <= asked + 2**21
    assert error(out, a, b) <= ROOM * predicted_error(way, n, operand)


# --- networks ---------------------------------------------------------------------------------------------------------


def network(*sizes: int) -> nn.Sequential:
    modules: list[nn.Module] = []
    for k, n in pairwise(sizes):
        modules += [nn.Linear(k, n), nn.ReLU()]
    return nn.Sequential(*modules[:-1]).cuda()


OPTIONS = [
    {"level": 1, "inner": "sgemm", "form": "strassen"}, {"level": 2, "inner": "sgemm", "form": "winograd"},
    {"level": 0, "inner": "fp16x3"}, {"level": 1, "inner": "fp16x3"}, {"accuracy": 1e-5}, {},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_fused_network_is_the_network(options: dict[str, object]) -> None:
    model = network(512, 700, 1024, 300)
    fused, exact = fuse(copy.deepcopy(model), **options), copy.deepcopy(model).double()  # type: ignore[arg-type]
    with torch.no_grad():
        for rows in (1, 64, 333, 64):
            x = torch.randn(rows, 512, device="cuda")
            expected = exact(x.double())
            assert float((fused(x) - expected).norm() / expected.norm()) < 1e-5
        with torch.cuda.stream(torch.cuda.Stream()):
            x = torch.randn(64, 512, device="cuda")
            expected = exact(x.double())
            assert float((fused(x) - expected).norm() / expected.norm()) < 1e-5
            torch.cuda.current_stream().synchronize()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_gradients_are_torchs(options: dict[str, object]) -> None:
    model = network(256, 320, 128)
    fused, exact = fuse(copy.deepcopy(model), **options), copy.deepcopy(model).double()  # type: ignore[arg-type]
    x = torch.randn(100, 256, device="cuda")
    (fused(x) ** 2).mean().backward()
    (exact(x.double()) ** 2).mean().backward()
    for mine, theirs in zip(fused.parameters(), exact.parameters(), strict=True):
        assert mine.grad is not None and theirs.grad is not None
        assert float((mine.grad - theirs.grad).norm() / theirs.grad.norm()) < 1e-3
