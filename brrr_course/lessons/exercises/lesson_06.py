"""Exercise 06-divide: from which hidden size on does the GPU, not the host, set the pace?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from brrr.core.errors import CaptureError
from brrr_course.lessons.checking import Exercise, Mark, StudentError, ask, not_above_zero

HOST_S, BYTES_PER_S, ITEMSIZE = 20e-6, 4.2e12, 4
"""What the exercise states."""
CLOSE = 0.03


def divide(host_s: float) -> float:
    """The hidden size whose weights take as long to read as the host needs for a layer.

    >>> round(divide(20e-6)), round(divide(5e-6))
    (4583, 2291)
    """
    return math.sqrt(host_s * BYTES_PER_S / ITEMSIZE)


def grade_divide(hidden: Any, quarter: Any) -> Mark:
    """The hidden size with 20 us a layer, and with a quarter of them."""
    if mark := not_above_zero(hidden=hidden, quarter=quarter):
        return mark
    if not math.isclose(hidden, divide(HOST_S), rel_tol=CLOSE):
        squared = math.isclose(hidden, divide(HOST_S) ** 2, rel_tol=CLOSE)
        bytewise = math.isclose(hidden, divide(HOST_S) * 2, rel_tol=CLOSE)
        hint = "That many weights there are: hidden x hidden." if squared else "A float32 has four bytes." if bytewise \
            else "hidden x hidden x 4 bytes over the bandwidth is the host's time."  # fmt: skip
        return Mark("wrong", f"`hidden` is {hidden:g}.", hint)
    if not math.isclose(quarter, divide(HOST_S / 4), rel_tol=CLOSE):
        return Mark("wrong", f"`quarter` is {quarter:g}.", "The weights grow with the square of the hidden size.")
    return Mark(
        "right", "a host four times as fast moves the divide to half the width; so does a GPU a quarter as fast."
    )


DIVIDE_EXERCISE = Exercise("06-divide", grade_divide)


# ---------------------------------------------------------------------------------------------------------------------
# Exercise 06-capture: mend a network so that it can be captured in a CUDA Graph.

Layers = Sequence[tuple[torch.Tensor, torch.Tensor]]
LAYERS, HIDDEN = 4, 64
LARGE, TINY = 30.0, 0.01
"""Scales of two inputs: of the one, the first layer must be scaled back, of the other none."""
RESULT_TOLERANCE = 1e-4


def careless(x: torch.Tensor, layers: Layers) -> torch.Tensor:
    """Right, but it asks for a number after each layer, and waits for it.

    >>> careless(torch.full((1, 1), 8.0), [(torch.ones(1, 1), torch.zeros(1))])
    tensor([[1.]])
    """
    for w, b in layers:
        x = torch.relu(x @ w.t() + b)
        size = x.square().mean().sqrt().item()
        if size > 1:
            x = x / size
    return x


def grade_capture(network: Any) -> Mark:
    """Right on both inputs, captured without complaint, and right again when it is replayed on the other input."""
    if not callable(network):
        return Mark("wrong", f"{network!r} is not a function.", 'Pass it itself: check("06-capture", network=network).')
    device = "cuda" if torch.cuda.is_available() else "cpu"
    layers = _layers(device)
    inputs = [scale * torch.randn(8, HIDDEN, device=device) for scale in (LARGE, TINY)]
    for x in inputs:
        if mistake := _network_mistake(ask(network, x.clone(), layers), x, layers):
            return Mark("wrong", *mistake)
    return _captured(network, layers, inputs)


CAPTURE_EXERCISE = Exercise("06-capture", grade_capture)


def _captured(network: Callable[..., Any], layers: Layers, inputs: Sequence[torch.Tensor]) -> Mark:
    first, second = inputs
    static = first.clone()
    try:
        replay, orders = _capture(network, static, layers)
    except CaptureError as refused:
        return Mark("wrong", f"the result is right, but {_reason(refused)}.", _hint(str(refused)))
    for x in (second, first):
        static.copy_(x)
        if mistake := _network_mistake(replay(), x, layers):
            text = f"captured with one input and replayed on another, {mistake[0]}"
            return Mark("wrong", text, "A graph takes the branch that it took when it was captured. Compute both "
                        "cases, or one formula that holds in both: clamp, where.")  # fmt: skip
    return Mark("right", f"{orders}, and replayed on new numbers the result is right. Whatever Python decides while it "
                "captures is decided for good; whatever the tensors decide is computed anew.")  # fmt: skip


def _capture(network: Callable[..., Any], x: torch.Tensor, layers: Layers) -> tuple[Callable[[], Any], str]:
    """What replays the captured network, and in words what it holds."""

    def asked(given: torch.Tensor) -> Any:
        try:
            return ask(network, given, layers)
        except StudentError as raised:  # what the capture itself complains of passes through
            if isinstance(raised.__cause__, CaptureError | RuntimeError):
                raise raised.__cause__ from None
            raise

    if x.is_cuda:
        from brrr.running.graphs import capture

        return capture(asked, x).replay, "it is one order for the GPU now"
    graph = ToyGraph(asked, x)
    return graph.replay, f"it is captured in the toy graph, {len(graph.nodes)} operators in one order"


def _reason(refused: CaptureError) -> str:
    text = str(refused)
    return text.removeprefix("capture: ").rstrip(".")


def _hint(text: str) -> str:
    if any(sign in text for sign in (".item()", "waits", "number to Python")):
        return (
            "Leave the number on the GPU: without .item() it is a tensor, and an `if` cannot ask it. What does "
            "size.clamp(min=1) give in both cases?"
        )
    if "torch.tensor" in text or "pageable" in text:
        return "A plain number of Python's may stand in a formula as it is."
    return "A graph holds work of the GPU only, with shapes that are known beforehand."


def _layers(device: str) -> Layers:
    """Fresh random layers that keep the size of what goes through them."""
    scale = (2 / HIDDEN) ** 0.5
    return [
        (scale * torch.randn(HIDDEN, HIDDEN, device=device), 1e-4 * torch.randn(HIDDEN, device=device))
        for _ in range(LAYERS)
    ]


def _network_mistake(found: Any, x: torch.Tensor, layers: Layers) -> tuple[str, str] | None:
    """What is wrong with a result, and a hint; None if it is right."""
    if not isinstance(found, torch.Tensor):
        return f"your function returned {type(found).__name__}.", "Return the last layer's result, a tensor."
    expected = careless(x.double(), [(w.double(), b.double()) for w, b in layers])
    if found.shape != expected.shape or found.device != x.device:
        return f"your result is {tuple(found.shape)} on {found.device}.", "It is as large as x, and on its device."
    error = float((found.double() - expected).norm() / expected.norm())
    if error <= RESULT_TOLERANCE:
        return None
    size = float(x.square().mean().sqrt())
    kind = "large" if size > 1 else "small"
    hint = "Is a layer scaled back only where its size is above 1?"
    return f"the result is wrong for an input of {kind} numbers.", hint


# ---------------------------------------------------------------------------------------------------------------------
# A toy CUDA Graph on the CPU: a function's operators, recorded once and replayed on the very same memory.

WAITS = {
    "aten._local_scalar_dense": "it brings a number to Python: .item(), float(...), bool(...), an if on a tensor",
    "aten.equal": "it brings an answer to Python: torch.equal",
    "aten.nonzero": "the shape of a result depends on values: a mask as an index, nonzero()",
    "aten.masked_select": "the shape of a result depends on values: masked_select()",
    "aten._unique2": "the shape of a result depends on values: unique()",
    "aten.lift_fresh": "it makes a tensor out of Python's numbers, which must be carried over: torch.tensor(...)",
}
"""What no graph can hold, by the operator that gives it away."""


@dataclass(frozen=True)
class Node:
    """One recorded operator with the tensors that it works on."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: tuple[torch.Tensor, ...]


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.nodes: list[Node] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(function).rsplit(".", 1)[0]
        masked = name == "aten.index" and any(each.dtype == torch.bool for each in _tensors(args[1]))
        why = WAITS.get("aten.nonzero" if masked else name)
        if why is not None:
            raise CaptureError(f"it cannot become a graph, for {why}")
        result = function(*args, **(kwargs or {}))
        self.nodes.append(Node(function, tuple(args), dict(kwargs or {}), tuple(_tensors(result))))
        return result


def _tensors(result: Any) -> Iterator[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, Sequence) and not isinstance(result, str):
        for each in result:
            yield from _tensors(each)


class ToyGraph:
    """A recorded function: `nodes` are its operators, `output` what it returned, which a replay overwrites.

    >>> x = torch.tensor([1.0, -2.0])
    >>> graph = ToyGraph(lambda x: torch.relu(x) + 1, x)
    >>> x.copy_(torch.tensor([5.0, 6.0])), graph.replay()
    (tensor([5., 6.]), tensor([6., 7.]))

    CaptureError, with the reason, for what a GPU's graph could not hold.
    """

    def __init__(self, function: Callable[..., Any], *inputs: torch.Tensor) -> None:
        recorder = _Recorder()
        with torch.no_grad(), recorder:
            self.output = function(*inputs)
        self.nodes = recorder.nodes

    def replay(self) -> Any:
        """Run the operators again, each on the same memory; returns `output`."""
        with torch.no_grad():
            for node in self.nodes:
                again = _tensors(node.function(*node.args, **node.kwargs))
                for static, new in zip(node.results, again, strict=True):
                    if static.data_ptr() != new.data_ptr():
                        static.copy_(new)
        return self.output
