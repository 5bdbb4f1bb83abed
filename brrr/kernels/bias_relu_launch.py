"""Bias and ReLU in place on whatever stream is torch's current one: by PyCUDA where it may, else by cuda-bindings.

>>> prepared_here("bias_relu", y, b)()    # doctest: +SKIP

PyCUDA takes torch's default stream and `shared_stream`'s only; on any other one, such as that on which torch captures a
CUDA Graph, cuda-bindings launches the same code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from brrr.errors import UnavailableError
from brrr.kernels.bias_relu import ARGUMENTS, SOURCE, Operation, check, in_words, launch_of, prepared

if TYPE_CHECKING:
    import torch


def prepared_here(operation: Operation, y: torch.Tensor, b: torch.Tensor | None = None) -> Callable[[], None]:
    """As `bias_relu.prepared`, on any stream: that which is current now. UnavailableError without either library."""
    try:
        return prepared(operation, y, b)
    except UnavailableError:
        return by_bindings(operation, y, b)


def by_bindings(operation: Operation, y: torch.Tensor, b: torch.Tensor | None = None) -> Callable[[], None]:
    """By cuda-bindings, on torch's current stream as it is now; UnavailableError without them."""
    check(operation, y, b)
    rows, width = y.shape
    if not y.numel():
        return lambda: None
    addresses = y.data_ptr(), 0 if b is None else b.data_ptr()
    words = int(in_words(width, y.element_size(), *addresses))
    return _launch(f"brrr_{operation}_{str(y.dtype).removeprefix('torch.')}", (*addresses, rows, width, words), y)


def _launch(name: str, arguments: tuple[int, ...], y: torch.Tensor) -> Callable[[], None]:
    try:
        from brrr.kernels.megakernel_gpu import raw_stream
        from brrr.kernels.nvrtc import I32, I64, PTR
        from brrr.kernels.prepared import PreparedLaunch

        function = _function(name, int(y.device.index))
    except ImportError as error:
        raise UnavailableError(f"bias_relu: cuda-bindings is not here ({error}); `pip install cuda-python`") from None
    types = {"P": PTR, "q": I64, "i": I32}
    typed = [types[letter](value) for letter, value in zip(ARGUMENTS, arguments, strict=True)]
    (across, down), block = launch_of(*y.shape)
    launch = PreparedLaunch(function, (across, down, 1), block, typed)
    return partial(launch, raw_stream(y.device.index))


@lru_cache(maxsize=64)
def _function(name: str, device_index: int) -> Any:
    import torch
    from cuda.bindings import driver

    from brrr.kernels.kept_code import kept_for
    from brrr.kernels.nvrtc import check as checked

    torch.zeros(1, device=f"cuda:{device_index}")  # makes torch's primary context current in this thread
    module = checked(driver.cuModuleLoadData(kept_for(SOURCE, device_index)), f"loading {SOURCE}")
    return checked(driver.cuModuleGetFunction(module, name.encode()), name)
