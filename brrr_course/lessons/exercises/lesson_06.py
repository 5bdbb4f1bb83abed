"""Exercise 06-capture: fix a network so that it can be captured in a CUDA Graph."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from brrr.core.errors import CaptureError
from brrr_course.lessons.marks import StudentError, Wrong, ask, exercise
from brrr_course.lessons.tensors import Watching, close, tensor

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


@exercise("06-capture")
def capture(network: Any) -> str:
    """Right on both inputs, captured without complaint, and right again when it is replayed on the other input."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    layers = _layers(device)
    inputs = [scale * torch.randn(8, HIDDEN, device=device) for scale in (LARGE, TINY)]
    for x in inputs:
        _look_at(ask(network, x.clone(), layers), x, layers)
    return _captured(network, layers, inputs)


def _captured(network: Callable[..., Any], layers: Layers, inputs: Sequence[torch.Tensor]) -> str:
    first, second = inputs
    static = first.clone()
    try:
        replay, orders = _capture(network, static, layers)
    except CaptureError as refused:
        reason = str(refused).removeprefix("capture: ").rstrip(".")
        raise Wrong(f"the result is right, but {reason}.", _hint(str(refused))) from None
    for x in (second, first):
        static.copy_(x)
        try:
            _look_at(replay(), x, layers)
        except Wrong as wrong:
            text = f"captured with one input and replayed on another, {wrong.text}"
            hint = "A graph takes the branch that it took when it was captured."
            raise Wrong(text, f"{hint} Compute both cases, or one formula that covers both: clamp, where.") from None
    return (
        f"{orders}, and replayed on new numbers the result is right. Whatever Python decides while it "
        "captures is decided for good; whatever the tensors decide is computed anew."
    )


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
        from brrr.running import graphs

        return graphs.capture(asked, x).replay, "it is one launch now"
    graph = ToyGraph(asked, x)
    return graph.replay, f"it is captured in the toy graph, {len(graph.nodes)} operators in one launch"


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


def _look_at(given: Any, x: torch.Tensor, layers: Layers) -> None:
    found = tensor(given, "Return the last layer's result, a tensor.")
    expected = careless(x.double(), [(w.double(), b.double()) for w, b in layers])
    if found.shape != expected.shape or found.device != x.device:
        raise Wrong(
            f"your result is {tuple(found.shape)} on {found.device}.", "It is as large as x, and on its device."
        )
    if not close(found, expected, RESULT_TOLERANCE):
        kind = "large" if float(x.square().mean().sqrt()) > 1 else "small"
        hint = "Is a layer scaled back only where its size is above 1?"
        raise Wrong(f"the result is wrong for an input of {kind} numbers.", hint)


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


def _refuse_waits(function: Any, args: Any) -> None:
    name = str(function).rsplit(".", 1)[0]
    masked = name == "aten.index" and any(each.dtype == torch.bool for each in _tensors(args[1]))
    why = WAITS.get("aten.nonzero" if masked else name)
    if why is not None:
        raise CaptureError(f"it cannot become a graph, for {why}")


def _tensors(result: Any) -> list[torch.Tensor]:
    return [each for each in tree_leaves(result) if isinstance(each, torch.Tensor)]


class ToyGraph:
    """A recorded function: `nodes` are its operators, `output` what it returned, which a replay overwrites.

    >>> x = torch.tensor([1.0, -2.0])
    >>> graph = ToyGraph(lambda x: torch.relu(x) + 1, x)
    >>> x.copy_(torch.tensor([5.0, 6.0])), graph.replay()
    (tensor([5., 6.]), tensor([6., 7.]))

    CaptureError, with the reason, for what a GPU's graph could not hold.
    """

    def __init__(self, function: Callable[..., Any], *inputs: torch.Tensor) -> None:
        self.nodes: list[Node] = []
        with torch.no_grad(), Watching(self._note, before=_refuse_waits):
            self.output = function(*inputs)

    def _note(self, function: Any, args: Any, kwargs: dict[str, Any], result: Any) -> None:
        self.nodes.append(Node(function, tuple(args), kwargs, tuple(_tensors(result))))

    def replay(self) -> Any:
        """Run the operators again, each on the same memory; returns `output`."""
        with torch.no_grad():
            for node in self.nodes:
                again = _tensors(node.function(*node.args, **node.kwargs))
                for static, new in zip(node.results, again, strict=True):
                    if static.data_ptr() != new.data_ptr():
                        static.copy_(new)
        return self.output
