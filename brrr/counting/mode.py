"""`CostMode`: counts every torch operator that runs inside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from brrr.counting.call import Call, call_of
from brrr.counting.conventions import counted, dtype_of
from brrr.counting.cost import Cost, OperatorCost
from brrr.counting.cudnn import prepared
from brrr.counting.forms import form_of
from brrr.counting.ledger import Ledger
from brrr.counting.traffic import amount, is_view, traffic_of
from brrr.errors import TraceError


class CostMode(TorchDispatchMode):
    """Counts FLOP and bytes of whatever torch runs inside it, on real tensors as on fake ones.

    >>> x = torch.ones(1000)
    >>> with CostMode() as counting:
    ...     y = x.exp() * 2
    >>> counting.cost(y)
    2 kFLOP, 8 kB, 0.25 FLOP/B

    It sits under autograd: a `backward()` inside it is counted, a composite operator as the ones it is made of.
    Kernels launched past torch (PyCUDA, a bare Triton launch) are not seen.
    """

    supports_higher_order_operators = True

    def __init__(self, resident: Callable[[torch.Tensor], torch.Tensor] = lambda tensor: tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators: list[OperatorCost] = []
        self.leaves: dict[int, tuple[torch.Tensor, torch.Tensor | None]] = {}
        self._resident = resident
        self._ledger = Ledger()

    def cost(self, *results: Any) -> Cost:
        """What ran until now; `results` are what it returned: without them, all that it made and is still alive."""
        returned = [self._resident(t) for t in _pytree.tree_leaves(results) if isinstance(t, torch.Tensor)]
        written = self._ledger.returned_bytes(returned) if results else self._ledger.alive_bytes()
        eager = sum(each.bytes for each in self.operators)
        compulsory = amount(self._ledger.read) + amount(self._ledger.write) + written
        flop = sum(each.flop or 0.0 for each in self.operators)
        touched = float(self._ledger.working_set_bytes)
        return Cost(float(flop), float(min(compulsory, eager)), float(eager), touched, tuple(self.operators))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operator and count it; one that is a composite still is taken apart first."""
        kwargs = kwargs or {}
        if getattr(func, "namespace", "") == "prim":  # asks for a tensor's device or layout
            return func(*args, **kwargs)
        if _is_composite(func):
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        if (answer := prepared(func, args, kwargs)) is not None:
            return answer
        self._note_leaves(args, kwargs)
        if getattr(func, "_overloadpacket", None) is torch.ops.aten.lift_fresh:  # torch.tensor(...): Python's numbers
            out = func(*args, **kwargs)
            self._ledger.constant(out)
            return out
        args, kwargs = _pytree.tree_map_only(torch.Tensor, self._resident, (args, kwargs))
        out = func(*args, **kwargs)
        self._count(call_of(func, args, kwargs, out))
        return out

    def _note_leaves(self, args: Any, kwargs: Any) -> None:
        """Remember the parameters, with the gradient each has: `cost` asks for one by them."""
        for leaf in _pytree.tree_leaves((args, kwargs)):
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.is_leaf:
                self.leaves.setdefault(id(leaf), (leaf, leaf.grad))

    def _count(self, call: Call) -> None:
        taken = [tensor for _, tensor in call.each_argument()]
        if not taken and not call.outputs:
            return
        _only_strided([*taken, *call.outputs])
        self._ledger.given(taken)
        traffic = traffic_of(call)
        self._ledger.made(call.outputs)
        self._ledger.enter(traffic)
        kind, flop, matmuls = ("view", 0.0, ()) if is_view(call) else counted(call)
        read, written = amount(traffic.reads) + traffic.again_bytes, amount(traffic.writes)
        shapes = tuple(tuple(tensor.shape) for tensor in taken or call.outputs)
        form = form_of(call, kind)
        entry = OperatorCost(call.full_name, flop, read, written, dtype_of(call), shapes, kind, matmuls, form)
        self.operators.append(entry)


def _is_composite(func: Any) -> bool:
    """Whether an operator has no kernel of its own; autograd takes it apart, but not in inference mode."""
    if not isinstance(func, torch._ops.OpOverload):
        return False
    keys = torch._C.DispatchKey
    has = func.has_kernel_for_dispatch_key
    return has(keys.CompositeImplicitAutograd) and not (has(keys.CPU) or has(keys.CUDA))


def _only_strided(tensors: Iterable[torch.Tensor]) -> None:
    for tensor in tensors:
        if tensor.layout is not torch.strided:
            raise TraceError(f"cost: a tensor of layout {tensor.layout} has no bytes that can be counted here")
