"""The GPU lane: every test here needs a working CUDA device, and the lane fails where there is none."""

from collections.abc import Iterator

import pytest

from brrr.gpu.device import cuda_problem


@pytest.fixture(scope="session", autouse=True)
def cuda() -> None:
    """A lane that was asked for and finds no hardware fails; it does not skip."""
    problem = cuda_problem()
    if problem:
        pytest.fail(f"the GPU lane needs a CUDA device: {problem}", pytrace=False)


@pytest.fixture
def freed() -> Iterator[None]:
    """What torch keeps for later is given back behind the test: large ones follow each other."""
    import torch

    yield
    torch.cuda.empty_cache()
