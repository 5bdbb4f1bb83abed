"""`capture`: a function of GPU tensors as one CUDA Graph, issued by a single call ever after.

>>> layer = capture(lambda x: torch.relu(x @ w), x)    # doctest: +SKIP
>>> y = layer(new_x)                                   # doctest: +SKIP

A graph replays the very same kernels on the very same memory. So its inputs and outputs are static: a call copies the
new inputs into the ones that were captured, and the next call overwrites the result of the last.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from brrr.core.callables import require_callable
from brrr.core.errors import ArgumentError, CaptureError, UnavailableError, first_line, whole
from brrr.core.heavy import torch
from brrr.gpu.device import cuda_problem

_REASONS = (
    (("synchronizing CUDA operation", "operation not permitted when stream is capturing", "StreamCapture"),
     "it waits for the GPU: .item(), .cpu(), print(tensor), a shape that depends on values, torch.cuda.synchronize()",
     "Keep the value on the GPU, and wait outside the function"),
    (("offset", "generator"),
     "it draws random numbers from a generator that the graph does not know",
     "Draw them outside, or register the generator with the graph"),
    (("out of memory",), "the GPU's memory does not suffice for it", "Free some, or use smaller inputs"),
)  # fmt: skip


class Captured:
    """A captured function. `inputs` and `output` are the static tensors; `replay()` runs it on what they hold.

    kept: the function itself, since the graph reads the tensors that it holds, and does not keep them.
    """

    def __init__(
        self, graph: torch.cuda.CUDAGraph, inputs: tuple[torch.Tensor, ...], output: Any, kept: object = None
    ) -> None:
        self.graph, self.inputs, self.output, self._kept = graph, inputs, output, kept

    def replay(self) -> Any:
        """Launch the graph once on torch's current stream, and return `output`, which the next replay overwrites."""
        self.graph.replay()
        return self.output

    def __call__(self, *inputs: torch.Tensor) -> Any:
        """Copy new inputs into the captured ones, replay, and return `output`.

        ArgumentError where their number, a shape or a dtype differs: a graph has fixed shapes.
        """
        _require_same(self.inputs, inputs)
        for static, new in zip(self.inputs, inputs, strict=True):
            if new is not static:
                static.data.copy_(new, non_blocking=True)
        return self.replay()


def capture(
    fn: Callable[..., Any], *inputs: torch.Tensor, warmup: int = 3, stream: torch.cuda.Stream | None = None
) -> Captured:
    """Capture ``fn(*inputs)`` as a CUDA graph, which launches all of its kernels at once.

    >>> x = torch.randn(64, 64, device="cuda")              # doctest: +SKIP
    >>> step = capture(lambda x: (x @ x).relu(), x)         # doctest: +SKIP
    >>> y = step(torch.randn(64, 64, device="cuda"))        # doctest: +SKIP

    Parameters
    ----------
    fn : callable
        The function. It may use ``torch.autograd.grad`` if its own forward pass built the graph.
    *inputs : torch.Tensor
        CUDA tensors of any type. They become the graph's static inputs; a call copies new ones into them.
    warmup : int
        How often `fn` is called first, on a side stream. In these calls libraries create handles and workspaces,
        compilers compile, and autograd allocates buffers, none of which is allowed during the capture.
    stream : torch.cuda.Stream, optional
        The side stream, if `fn` works only on a certain one. By default one that is kept for captures.

    Returns
    -------
    Captured
        Call it with new inputs of the same shapes and types; `replay()` runs it on the current ones. Each run
        overwrites the output of the last.

    Raises
    ------
    CaptureError
        If `fn` waits for the GPU, computes elsewhere, or launches nothing; the message says which. torch stays usable.
    ArgumentError
        If an input is no CUDA tensor.
    UnavailableError
        If there is no GPU. What `fn` itself raises passes through.

    References
    ----------
    "CUDA Graphs" in NVIDIA's CUDA C++ Programming Guide and in PyTorch's notes on CUDA semantics.
    """
    _check_arguments(fn, inputs, warmup)
    if problem := cuda_problem():
        raise UnavailableError(f"capture: a CUDA Graph needs an NVIDIA GPU; {problem}. The recordings show its lines")
    from brrr.timing.graph_times import side_stream

    stream = side_stream(torch.cuda.current_device()) if stream is None else stream
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warmup):
            fn(*inputs)
        _rehearse(fn, inputs)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            output = fn(*inputs)
    except RuntimeError as error:
        raise _refusal(fn, error) from error
    return Captured(graph, inputs, output, fn)


def _rehearse(fn: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    """Find out what would break the capture while nothing can break: a capture refused half-way spoils torch's own.

    First a run in which torch reports its own waiting calls, with the line that made them; then a capture that torch's
    memory manager does not know of, whose graph is thrown away.
    """
    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():  # torch says once that it misses some: the capture below refuses those
        warnings.filterwarnings("ignore", message="Synchronization debug mode")
        torch.cuda.set_sync_debug_mode("error")
    try:
        fn(*inputs)
    except RuntimeError as error:
        if "synchronizing CUDA operation" in str(error):
            raise _refusal(fn, error) from error
        raise
    finally:
        torch.cuda.set_sync_debug_mode(mode)
    try:
        nodes = _nodes_of(lambda: fn(*inputs))
    except RuntimeError as error:
        if "offset" in str(error).lower() or "generator" in str(error).lower():
            return  # torch's own capture knows how to advance its generator
        raise _refusal(fn, error) from error
    if not nodes:
        raise CaptureError(
            f"capture: {_name(fn)} launched nothing on the GPU, so there is nothing to replay. Are its tensors on the "
            "CPU? Move them with .cuda() and pass them as inputs"
        )


def _nodes_of(call: Callable[[], Any]) -> int:
    """How many kernels and copies a capture of the call on torch's current stream holds; the graph is thrown away."""
    from cuda.bindings import driver

    from brrr.gpu.nvrtc import check
    from brrr.timing.graph_times import raw_capture

    stream = torch.cuda.current_stream()
    stream.synchronize()
    with raw_capture(stream) as ended:
        call()
    (graph,) = ended
    _, count = check(driver.cuGraphGetNodes(graph, 0), "a graph's nodes")
    driver.cuGraphDestroy(graph)
    return int(count)


def _refusal(fn: Callable[..., Any], error: Exception) -> CaptureError:
    said = first_line(error)
    for signs, why, hint in _REASONS:
        if any(sign.lower() in str(error).lower() for sign in signs):
            return CaptureError(f"capture: {_name(fn)} cannot become a CUDA Graph, for {why}. {hint} ({said})")
    return CaptureError(
        f"capture: {_name(fn)} cannot become a CUDA Graph: {said}. A graph holds work of the GPU only: no waiting, no "
        "copy to or from pageable memory, no work on a stream that does not come back to this one"
    )


def _check_arguments(fn: object, inputs: tuple[Any, ...], warmup: object) -> None:
    require_callable("capture", "fn", fn, "a function of the inputs")
    whole("capture", "warmup", warmup)
    for place, each in enumerate(inputs):
        if getattr(each, "is_cuda", None) is not True:
            what = f"a tensor on {each.device}" if hasattr(each, "device") else type(each).__name__
            raise ArgumentError("capture", f"inputs[{place}]", what, "a CUDA tensor", "Move it with .cuda()")


def _require_same(static: tuple[torch.Tensor, ...], new: tuple[torch.Tensor, ...]) -> None:
    if len(static) != len(new):
        raise ArgumentError("Captured", "inputs", f"{len(new)} tensors", f"{len(static)}, as captured")
    for place, (old, each) in enumerate(zip(static, new, strict=True)):
        if (old.shape, old.dtype) != (each.shape, each.dtype):
            got, want = (f"{tuple(t.shape)} {t.dtype}" for t in (each, old))
            raise ArgumentError("Captured", f"inputs[{place}]", got, want, "Capture again for other shapes")


def _name(fn: Any) -> str:
    return getattr(fn, "__name__", type(fn).__name__)
