"""What calling what torch.compile made costs the host, and each further kernel of it, on the reference's GPU."""

from collections.abc import Callable

import torch

from brrr.core.measurement import Estimate
from brrr.core.private import keep_compiled_code_private
from brrr.gpu import CUDA
from brrr.roofline.calibrate import part
from brrr.roofline.calibrate.host_cost import LIMIT, PRODUCT_SIDE, SIDE, at_usual_speed
from brrr.roofline.calibrate.part import Findings
from brrr.roofline.peak import Peak


def _one_kernel(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) + 1.0


def _several_kernels(x: torch.Tensor) -> torch.Tensor:
    """Sums along rows and columns by turns, which no compiler puts into one kernel."""
    for dim in (1, 0, 1, 0):
        x = torch.softmax(x, dim)
    return x


def measure_compiled(found: Findings, device: str = CUDA) -> None:
    """The host's cost of calling what torch.compile made, in `host.compiled`, and of each further kernel of it.

    The second is `host.compiled-kernel`; it becomes a note where the compiler made one kernel of all, or they cost
    nothing.
    """
    one, _ = _compiled_cost(_one_kernel, SIDE, device, found)
    found.measured["host.compiled"] = Peak.time(one, operator="torch.compile of relu(x) + 1", elements=SIDE * SIDE)
    more, kernels = _compiled_cost(_several_kernels, PRODUCT_SIDE, device, found)  # sums over 8 would become one kernel
    if kernels < 2 or more.median <= one.median:
        found.note(f"host.compiled-kernel: left out: {kernels} kernels cost no more than one")
        return
    cost = Estimate.of([(more.median - one.median) / (kernels - 1)])
    what = f"torch.compile of 4 softmaxes by turns along rows and columns, {kernels} kernels, less one"
    found.measured["host.compiled-kernel"] = Peak.time(cost, operator=what, elements=PRODUCT_SIDE**2)


def _compiled_cost(
    function: Callable[[torch.Tensor], torch.Tensor], side: int, device: str, found: Findings
) -> tuple[Estimate, int]:
    """The host's cost of a compiled function, checked first, and how many kernels were generated for it."""
    from torch._inductor import metrics

    keep_compiled_code_private()
    metrics.reset()
    x, compiled = torch.rand(side, side, device=device), torch.compile(function)
    with torch.no_grad():
        part.close(compiled(x), function(x.double()), LIMIT, f"a compiled {function.__name__}")
        (cost,) = at_usual_speed([lambda: compiled(x)], device, found)
    return cost, metrics.generated_kernel_count
