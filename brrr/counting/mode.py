"""`CostMode`: counts every torch operator that runs inside it."""

import gc
import os
import sys
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from types import FrameType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from brrr.core.errors import TraceError
from brrr.counting.call import Call, call_of
from brrr.counting.conventions import counted, dtype_of
from brrr.counting.cost import Cost, OperatorCost
from brrr.counting.forms import form_of
from brrr.counting.ledger import Ledger
from brrr.counting.modules import Modules
from brrr.counting.parts import DESCRIBED, PARTS
from brrr.counting.traffic import amount, is_view, traffic_of
from brrr.gpu import is_cpu, is_gpu


class CostMode(TorchDispatchMode):
    """Count the FLOP and bytes of everything that torch runs inside a ``with`` block.

    >>> x = torch.ones(1000)
    >>> with CostMode() as counting:
    ...     y = x.exp() * 2
    >>> counting.cost(y)
    2 kFLOP, 8 kB, 0.25 FLOP/B

    `cost` is simpler where the work is one callable.

    Parameters
    ----------
    resident : callable, optional
        Maps a tensor to the one that stands for it in memory. By default itself.

    Notes
    -----
    It works below autograd: a ``backward()`` inside the block is counted, and a composite operator counts as those it
    is made of. Kernels that are launched past torch (PyCUDA, a bare Triton launch) are not seen.
    """

    supports_higher_order_operators = True

    def __init__(self, resident: Callable[[torch.Tensor], torch.Tensor] = lambda tensor: tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators: list[OperatorCost] = []
        self.leaves: dict[int, tuple[torch.Tensor, torch.Tensor | None]] = {}
        self.lines = Lines()
        self._resident = resident
        self.ledger = Ledger()
        self._modules = Modules()
        self._in_backward = False

    def cost(self, *results: Any) -> Cost:
        """The cost of what ran so far.

        `results` are the tensors that the work returned. Without any, everything that it made and that still exists
        counts as returned.
        """
        returned = [self._resident(t) for t in _pytree.tree_leaves(results) if isinstance(t, torch.Tensor)]
        written = self.ledger.returned_bytes(returned) if results else self.ledger.alive_bytes()
        eager = sum(each.bytes for each in self.operators)
        compulsory = amount(self.ledger.read) + amount(self.ledger.write) + written
        flop = sum(each.flop or 0.0 for each in self.operators)
        touched = float(self.ledger.working_set_bytes)
        return Cost(
            float(flop), float(min(compulsory, eager)), float(eager), touched, tuple(self.operators),
            len(self.leaves) if any(each.backward for each in self.operators) else 0, self.lines.count,
            self.ledger.lives(returned),
        )  # fmt: skip

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operator and count it; a composite operator is first decomposed into its parts."""
        kwargs = kwargs or {}
        only_strided(leaf for leaf in _pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor))
        if getattr(func, "namespace", "") == "prim":  # asks for a tensor's device or layout
            return func(*args, **kwargs)
        if func in PARTS:
            with self:
                return PARTS[func](*args, **kwargs)
        if _is_composite(func):
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        if (answer := prepared(func, args, kwargs)) is not None:
            return answer
        if _of_numbers(func, args, kwargs):
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        if not for_gradient():
            self._note_leaves(args, kwargs)
        if getattr(func, "_overloadpacket", None) is torch.ops.aten.lift_fresh:  # torch.tensor(...): Python's numbers
            out = func(*args, **kwargs)
            self.ledger.made([out])  # neither an input nor an operator's result
            return out
        args, kwargs = _pytree.tree_map_only(torch.Tensor, self._resident, (args, kwargs))
        described = isinstance(args[0] if args else None, FakeTensor)
        out = (DESCRIBED.get(func, func) if described else func)(*args, **kwargs)
        self._count(call_of(func, args, kwargs, out))
        return out

    def _note_leaves(self, args: Any, kwargs: Any) -> None:
        """Remember the parameters, with the gradient each has: `cost` asks for one by them."""
        for leaf in _pytree.tree_leaves((args, kwargs)):
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.is_leaf:
                self.leaves.setdefault(id(leaf), (leaf, None if isinstance(leaf.grad, FakeTensor) else leaf.grad))

    def given(self, tensors: Iterable[Any], part: str) -> None:
        """Note what tensors are for; anything else among them is passed over."""
        self.ledger.given((self._resident(each) for each in tensors if isinstance(each, torch.Tensor)), part)

    def _count(self, call: Call) -> None:
        taken = [tensor for _, tensor in call.each_argument()]
        if not taken and not call.outputs:
            return
        only_strided(call.outputs)
        self.ledger.given(taken)
        traffic = traffic_of(call)
        backward = for_gradient()
        if self._in_backward and not backward:
            self.given((leaf.grad for leaf, _ in self.leaves.values()), "gradients")
        self._in_backward = backward
        self.ledger.made(call.outputs, backward and not torch.is_grad_enabled())
        self.ledger.enter(traffic)
        kind, flop, matmuls = ("view", 0.0, ()) if is_view(call) else counted(call)
        read, written = amount(traffic.reads) + traffic.again_bytes, amount(traffic.writes)
        shapes = tuple(tuple(tensor.shape) for tensor in taken or call.outputs)
        recent = self.ledger.recent(traffic)
        about = dtype_of(call), shapes, kind, matmuls, form_of(call, kind), backward, recent, self._modules.now()
        self.operators.append(OperatorCost(call.full_name, flop, read, written, *about))


def for_gradient() -> bool:
    """Whether autograd runs now: a backward that the callable asks for itself counts, too."""
    return torch._C._current_autograd_node() is not None


_ITEM, _PICK = torch.ops.aten._local_scalar_dense.default, torch.ops.aten.select.int


def _of_numbers(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether it takes only numbers that the callable holds, as an optimizer its steps: they are read as before.

    Whole ones are also calculated with, as where an average asks whether it is the first.
    """
    given = [leaf for leaf in _pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    most = 1 if func is _PICK else 0  # as the first of the sizes of packed sequences
    held = all(not isinstance(each, FakeTensor) and is_cpu(each.device) and each.dim() <= most for each in given)
    whole = not any(each.is_floating_point() or each.is_complex() for each in given)
    changing = "device" in kwargs or getattr(getattr(func, "_schema", None), "is_mutable", True)
    return bool(given) and held and (func is _ITEM or (whole and not changing))


def _is_composite(func: Any) -> bool:
    """Whether an operator has no kernel of its own; autograd takes it apart, but not in inference mode."""
    if not isinstance(func, torch._ops.OpOverload):
        return False
    keys = torch._C.DispatchKey
    has = func.has_kernel_for_dispatch_key
    return has(keys.CompositeImplicitAutograd) and not (has(keys.CPU) or has(keys.CUDA))


def only_strided(tensors: Iterable[torch.Tensor]) -> None:
    """TraceError for a tensor whose elements do not lie in one storage, at strides."""
    for tensor in tensors:
        if tensor.layout is not torch.strided or tensor.is_nested:
            nested = " (nested)" * tensor.is_nested
            raise TraceError(f"cost: a tensor of layout {tensor.layout}{nested} has no bytes that can be counted here")


_TORCH = os.path.dirname(torch.__file__)
_BESIDE = (os.path.join(_TORCH, "_library"), os.path.join(_TORCH, "_subclasses"), weakref.__file__, __file__,
           "<frozen importlib")  # fmt: skip
"""What runs only because the tensors are descriptions or a mode looks at each operator, and imports, once a process."""
_PARTS = os.path.join(os.path.dirname(__file__), "parts.py")
_AROUND = (os.path.join(_TORCH, "_compile.py"), os.path.join(_TORCH, "_dynamo"), _PARTS)
_ASKED = (*_AROUND, os.path.join(_TORCH, "compiler"))
"""What torch puts around a mode, this package around attention, and torch, once something was compiled, around an
optimizer's step; and what that asks."""

_COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>")
"""Functions of their own in Python 3.11, whose line the caller's frame has counted."""


class Lines:
    """Counts the lines of Python that run inside it, on this thread, but for those behind an operator.

    What a program does beside its operators (modules that call each other, an optimizer that goes through its tensors)
    costs the host by their number. A debugger or a coverage tool is left alone: then none are counted.
    """

    def __init__(self) -> None:
        self.count = 0
        self._within = 0

    def __enter__(self) -> None:
        self._free = sys.gettrace() is None
        if self._free:
            gc.callbacks[:] = [self._collects, *gc.callbacks, self._collected]
            sys.settrace(self._called)

    def __exit__(self, *error: object) -> None:
        if self._free:
            sys.settrace(None)
            gc.callbacks.remove(self._collects)
            gc.callbacks.remove(self._collected)

    def _collects(self, phase: str, info: object) -> None:
        """What the garbage collector's finalizers run, and others' callbacks, is no part of the program."""
        self._within += phase == "start"

    def _collected(self, phase: str, info: object) -> None:
        self._within -= phase == "stop"

    def _called(self, frame: FrameType, event: str, value: object) -> Any:
        if self._within:
            return None
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if name == "__torch_dispatch__" or file.startswith(_BESIDE):
            self._within += 1
            frame.f_trace_lines = False
            return self._left
        caller = frame.f_back.f_code.co_filename if frame.f_back else ""
        around = file.startswith(_AROUND) or (file.startswith(_ASKED) and caller.startswith(_AROUND))
        return None if around else partial(self._ran, {0: -1, frame.f_lineno * (name in _COMPREHENSIONS): -1})

    def _left(self, frame: FrameType, event: str, value: object) -> Any:
        self._within -= event == "return"
        return self._left

    def _ran(self, seen: dict[int, int], frame: FrameType, event: str, value: object) -> Any:
        """A line counts once, however often this Python comes back to it within a statement; a loop begins anew."""
        if event == "line":
            if frame.f_lasti <= seen[0]:
                seen.clear()
            self.count += frame.f_lineno not in seen
            seen.update({0: frame.f_lasti, frame.f_lineno: 0})
        return frame.f_trace


# ---------------------------------------------------------------------------------------------------------------------
# What torch asks before it calls a recurrent layer of cuDNN, answered where a tensor is only described.

_SET = torch.ops.aten.set_.source_Storage
_DROPOUT_STATE = torch.ops.aten._cudnn_init_dropout_state.default
_DRAW = torch.ops.aten.random_.default


def prepared(func: Any, args: Any, kwargs: Any) -> Any:
    """The answer to one of cuDNN's preparations; None for any other operator. None of them moves a layer's data.

    Torch looks whether the weights lie in one storage, by an empty tensor that it sets to the first weight's: a fake
    tensor cannot take a real storage, and stays empty, which means that they do not; then each weight is read from
    where it lies. The state of dropout is kept for the whole process: it has to be real, for the layers that run later.
    Its seed, one whole number drawn from all there are, is 0 here, for nothing counts by a seed.
    """
    if func is _DRAW and isinstance(args[0], FakeTensor) and not args[0].dim() and args[0].dtype is torch.int64:
        args[0].brrr_is_seed = True  # type: ignore[attr-defined]
        return args[0]
    if func is _ITEM and hasattr(args[0], "brrr_is_seed"):
        return 0
    if func is _SET and isinstance(args[0], FakeTensor) and is_gpu(args[1].device):
        return args[0]
    if func is _DROPOUT_STATE:
        with unset_fake_temporarily():
            state: torch.Tensor = func(*args, **kwargs)
        return state
    return None
