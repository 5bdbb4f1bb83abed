"""The megakernel by itself: `python -m brrr.kernels.megakernel`."""

from collections.abc import Iterator
from functools import partial

import torch

from brrr.kernels.alone import CudaFile, Example, alone
from brrr.kernels.megakernel.device import GRID_SOURCE
from brrr.kernels.megakernel.megakernel import Megakernel


def examples(device: str) -> Iterator[Example]:
    """Eight layers of 256 and of 1024 on few rows; the roofline takes the weights to come from the memory."""
    for batch, hidden in ((16, 256), (2, 1024)):
        weights = [torch.randn(hidden, hidden, device=device) * (2 / hidden) ** 0.5 for _ in range(8)]
        biases, x = [torch.randn(hidden, device=device) for _ in range(8)], torch.randn(batch, hidden, device=device)
        expected = x.double()
        for w, b in zip(weights, biases, strict=True):
            expected = (expected @ w.double().t() + b.double()).relu()
        flop, nbytes = 16.0 * batch * hidden**2, 8.0 * weights[0].nbytes + 2 * x.nbytes
        run = partial(Megakernel(weights, biases, batch), x)
        yield Example(f"8 layers of {hidden}, batch {batch}", flop, nbytes, run, expected)


alone(examples, CudaFile(GRID_SOURCE))
