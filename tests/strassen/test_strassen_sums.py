"""The sums of blocks without a GPU: by torch, compiled, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hosted import by_nvcc, needs_nvcc

from brrr.core.errors import ArgumentError
from brrr.gpu.nvrtc import source_text
from brrr.strassen import Implementation
from brrr.strassen.algebra import reference
from brrr.strassen.algebra.blocks import buffer_shape, products_shape
from brrr.strassen.algebra.forms import FORMS
from brrr.strassen.passes.jobs import Job
from brrr.strassen.passes.launch import SOURCE
from brrr.strassen.passes.sums import post_add_step
from tests import strassen_sums_calls as calls

SHAPES = [(1, 1), (17, 33), (64, 128), (3, 70)]


# --- by torch ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("form", FORMS)
def test_on_the_cpu_it_is_the_reference(form: str, level: int) -> None:
    for m, n in SHAPES:
        x, k = torch.randn(m, n), 20
        assert torch.equal(calls.pre_add(x, "left", form, level), reference.pre_add(x, "left", form, level))
        a, w, bias = torch.randn(m, k), torch.randn(n, k), torch.randn(n)
        left, right = (calls.pre_add(a, "left", form, level), calls.pre_add(w, "right", form, level, transposed=True))
        y = calls.post_add(left @ right.transpose(1, 2), form, level, (m, n), bias=bias, relu=True)
        torch.testing.assert_close(y, (a @ w.t() + bias).relu(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("level", "then"), [(1, 1), (3, 3), (1, 3), (3, 1)])
def test_a_step_is_post_add_and_pre_add(level: int, then: int) -> None:
    for shape in SHAPES:
        products, bias, keep = torch.randn(products_shape(*shape, level)), torch.randn(shape[1]), torch.empty(shape)
        y = calls.post_add(products, "strassen", level, shape, bias=bias, relu=True)
        factors = calls.pre_add(y, "left", "winograd", then)
        options: dict[str, Any] = {"bias": bias, "next_form": "winograd", "next_level": then}
        assert torch.equal(calls.step(products, "strassen", level, shape, keep=keep, **options), factors)
        assert torch.equal(keep, y)
        assert torch.equal(calls.step(products, "strassen", level, shape, **options), factors)


# --- CUDA C++ ---------------------------------------------------------------------------------------------------------


def jobs() -> dict[str, Job]:
    """Each tuning's kernels, as they are launched, on whole blocks and on any matrix."""
    found = {}
    form = FORMS["winograd"]
    tables: dict[str, Any] = {
        "spread": tuple(map(tuple, form.left.tolist())),
        "collect": tuple(map(tuple, form.result.tolist())),
    }
    kinds = [(kind, level) for kind in ("pre_add", "post_add", "step") for level in range(4) if kind != "step" or level]
    for kind, level in kinds:
        for each in ("float32", "bfloat16", "float16"):
            job = Job(
                level, source="matrix" if kind == "pre_add" else "products", to_matrix=kind == "post_add",
                terms=int(kind != "post_add"), bias=each if kind != "pre_add" else None, relu=kind != "pre_add",
                in_type=each, matrix_type=each, out_type=each, edge=1, **tables,
            )  # fmt: skip
            found[f"{kind}-{level}-{each}"] = job
    for level in range(4):
        found[f"split-{level}"] = Job(level, source="matrix", terms=2, edge=1, **tables)
        found[f"narrowed-{level}"] = Job(level, source="matrix", terms=1, out_type="bfloat16", edge=1, **tables)
        found[f"widened-{level}"] = Job(level, to_matrix=True, matrix_type="bfloat16", edge=1, **tables)
    return found


JOBS = jobs()


def compiled(job: Job, arch: str, folder: Path) -> str:
    """What the assembler says of registers."""
    source = folder / "job.cu"
    source.write_text(job.text(job.tuning()) + source_text(SOURCE), encoding="utf-8")
    return by_nvcc(source, folder, f"-arch={arch}", "--Werror", "all-warnings")[1]


TIGHT = [name for name in JOBS if not name.endswith("-float16") and name.split("-")[1] in "23"]
"""Levels with many registers; float16 takes as many as bfloat16."""


@needs_nvcc
@pytest.mark.parametrize("name", [name for name in TIGHT if not name.endswith("float32")])
def test_every_kernel_compiles_for_turing(name: str, tmp_path: Path) -> None:
    assert "registers" in compiled(JOBS[name], "sm_75", tmp_path)


def test_a_job_that_differs_has_another_text() -> None:
    texts = {job.text(job.tuning()) for job in JOBS.values()}
    assert len(texts) == len(JOBS)


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_bias_with_gaps_is_refused() -> None:
    with pytest.raises(ArgumentError, match="bias is"):
        post_add_step(
            torch.ones(7, 2, 8), Implementation("sgemm", 1, "strassen"), torch.ones(4, 16), bias=torch.ones(32)[::2]
        )


def test_nothing_in_nothing_out() -> None:
    assert calls.pre_add(torch.ones(0, 16), "left", "strassen", 1).shape == buffer_shape(0, 16, "left", 1)
    assert calls.post_add(torch.ones(7, 0, 8), "strassen", 1, (0, 16)).shape == (0, 16)
    assert not calls.pre_add(torch.ones(3, 0), "left", "winograd", 2).numel()
    made = calls.split_pre_add(torch.ones(3, 0), "left", "winograd", 2)
    assert made.exponents.shape == (49, 1)
