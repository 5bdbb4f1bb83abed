"""A toy CUDA Graph on the CPU: a function's operators, recorded once and replayed on the very same memory.

It shows what a capture can hold, and refuses, with the same reasons, what a GPU would have to wait for. It makes
nothing faster: each operator is replayed by torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from brrr.errors import CaptureError

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
