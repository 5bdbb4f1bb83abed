"""`cost`: count the FLOP and bytes of a callable without running it."""

from __future__ import annotations

import contextvars
import gc
import linecache
import logging
import os
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any, cast

import torch
from torch import nn
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree

from brrr.core.callables import require_callable, require_run
from brrr.core.errors import ArgumentError, BrrrError, TraceError, UnavailableError, first_line
from brrr.counting.cost import Cost
from brrr.counting.description import Description, device_around
from brrr.counting.ledger import OF_A_CACHE
from brrr.counting.mode import CostMode, only_strided
from brrr.counting.parts import as_written, replaced
from brrr.counting.state import as_before, reached
from brrr.counting.traffic import storage_key
from brrr.gpu import gpu_here, is_gpu, kind_of


def cost(fn: Callable[..., Any], *args: Any, backward: bool = False, run: bool = False, **kwargs: Any) -> Cost:
    """Count the FLOP and bytes of a torch callable without running it.

    >>> from brrr.counting.description import array
    >>> cost(lambda x: x * 2, array(2**26))
    67.1 MFLOP, 537 MB, 0.125 FLOP/B
    >>> print(cost(lambda x: x.cos().cos(), array(1000)).details())
    2 kFLOP, 8 kB, 0.25 FLOP/B
    Operator by operator it moves 16 kB, fused 8 kB; it takes 12 kB of memory.
    <BLANKLINE>
    calls  operator  kind       dtype    shapes   FLOP     read  written
    2      aten.cos  pointwise  float32  (1000,)  2 kFLOP  8 kB  8 kB

    Nothing is computed and no memory is allocated, so no GPU is needed.

    Parameters
    ----------
    fn : callable
        A function or a module. Tensors that it holds itself (parameters, closures) are inputs like the others; none of
        them is changed.
    *args, **kwargs
        What it is called with: descriptions (`brrr.array`), tensors, lists and dicts of these, and anything else. If
        `fn` itself takes a keyword `backward` or `run`, bind it with ``functools.partial``.
    backward : bool
        Also count the gradients: of every result that has one, for every input and parameter that requires one. The
        upstream gradient is one more input.
    run : bool
        Run it once on real tensors. Needed if it branches on values.

    Returns
    -------
    Cost
        FLOP, bytes, and the operators one by one. An operator without a known formula is named in `unknown`.

    Raises
    ------
    ArgumentError
        If `fn` is no callable or runs only later (a generator, a coroutine); for empty or quantised tensors, lazy
        modules, and `backward` where nothing requires a gradient.
    TraceError
        If it branches on values (then try ``run=True``), takes nested or sparse tensors, or stores tensors where they
        cannot be removed again.

    Notes
    -----
    How each kind of operator counts stands in `brrr.counting.conventions`. A function under torch.compile counts as it
    is written, operator by operator, and so do the bodies of torch's loops and branches. What the callable keeps
    (attributes, caches, gradients, an optimizer's state, random numbers) is put back afterwards, except with
    ``run=True``.
    """
    require_callable("cost", "fn", fn, "a callable", "Write cost(lambda x: x * 2, x), not cost(x * 2).")
    leaves, structure = _pytree.tree_flatten((args, kwargs))
    for place, leaf in enumerate(leaves):
        _check(place, leaf, run)
    fn = _written(fn)
    held = list(reached([*leaves, fn]))
    lazy = next(filter(nn.parameter.is_lazy, held), None)
    if lazy is not None:
        raise ArgumentError(
            "cost", "fn", type(lazy), "a module with its parameters", "Call it once before, on real data."
        )
    stage = None if run else _Fake(device_around(held))
    modes = [CostMode(stage.resident) if stage else CostMode()]
    with as_before([] if run else held):
        found = _counted(modes, fn, leaves, structure, backward, stage, held)
    if not run:
        _refuse_left(modes, fn)
    return found


def _counted(
    modes: list[CostMode], fn: Callable[..., Any], leaves: list[Any], structure: Any, backward: bool,
    stage: _Fake | None, held: Iterable[Any],
) -> Cost:  # fmt: skip
    packed = _pytree.tree_leaves(_pytree.tree_unflatten(leaves, structure), is_leaf=_is_packed)
    sizes = {id(each.batch_sizes) for each in packed if _is_packed(each)}  # whose values are known
    inputs = [leaf if stage is None or id(leaf) in sizes else stage.input(leaf) for leaf in leaves]
    try:
        with stage.surroundings() if stage else nullcontext(), as_written(), explained(fn, run=stage is None):
            given = _pytree.tree_unflatten(inputs, structure)
            found = _once(modes[0], fn, given, inputs, backward, held)
            if stage and modes[0].ledger.results():  # it kept something, so that its next call begins with more
                modes.append(CostMode(stage.resident))
                with suppress(Exception):  # what can be called only once has no other call
                    again = _once(modes[1], fn, given, inputs, backward, reached([given, fn]))
                    return replace(found, lives=again.lives)
            return found
    finally:
        for each in reversed(modes):  # the first knows what was there before any
            _without_fake_gradients(each)


def _once(
    counting: CostMode, fn: Callable[..., Any], given: Any, inputs: list[Any], backward: bool, held: Iterable[Any]
) -> Cost:
    counting.given(inputs, "inputs")
    kept = list[FakeTensor]()
    for each in held:
        if isinstance(each, FakeTensor):
            kept.append(each)
        elif isinstance(each, torch.optim.Optimizer):
            counting.given(_pytree.tree_leaves(list(each.state.values())), "optimiser")
        elif isinstance(each, nn.Parameter):
            counting.given([each], "parameters")
            counting.given([each.grad], "gradients")
        elif isinstance(each, nn.Module):
            counting.given(each.buffers(), "other")
    for each in kept:
        counting.given([each], "cache" if each.dim() >= OF_A_CACHE else "other")
    del held, kept, each  # which would keep from dying what the call replaces
    results = _forward(counting, fn, given, backward)
    gradients = _backward(counting, inputs, results) if backward else ()
    counting.given([*gradients, *(leaf.grad for leaf, _ in counting.leaves.values())], "gradients")
    return counting.cost(results, gradients)


def _is_packed(leaf: Any) -> bool:
    return isinstance(leaf, nn.utils.rnn.PackedSequence)


def _written(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function or module behind a torch.compile'd one."""
    original = getattr(fn, "_torchdynamo_orig_callable", None) or getattr(fn, "_orig_mod", None)
    return fn if original is None else cast(Callable[..., Any], original)


def _refuse_left(modes: list[CostMode], fn: Any) -> None:
    """TraceError where something of the count is still held, in a place that `as_before` does not know."""
    for each in modes:
        each.leaves.clear()
    if not any(each.ledger.results() for each in modes):
        return
    gc.collect()
    left = {key for each in modes for key in each.ledger.results()}
    found = [each for each in gc.get_objects() if type(each) is FakeTensor and storage_key(each) in left]
    if found:
        by = sorted({type(each).__name__ for each in gc.get_referrers(*found) if each is not found} - {"frame"})
        where = f"keeps descriptions of tensors where they cannot be taken back ({', '.join(by) or 'beyond Python'})"
        raise TraceError(f"cost: {_name(fn)} {where}. Make that anew; count with run=True, which runs it once")


def _name(fn: Any) -> str:
    return getattr(fn, "__name__", type(fn).__name__)


def _forward(counting: CostMode, fn: Callable[..., Any], args: Any, backward: bool) -> Any:
    with torch.set_grad_enabled(backward or torch.is_grad_enabled()), counting, counting.lines:
        given, named = args
        found = contextvars.copy_context().run(fn, *given, **named)
    require_run("cost", "fn", fn, found)
    return found


def _without_fake_gradients(counting: CostMode) -> None:
    """Give real parameters back the gradient they had, where the callable called `backward()` itself."""
    for leaf, gradient in counting.leaves.values():
        if isinstance(leaf.grad, FakeTensor) and not isinstance(leaf, FakeTensor):
            leaf.grad = gradient


def _backward(counting: CostMode, inputs: list[Any], results: Any) -> Any:
    """The gradients of all results, for all inputs and for the parameters that were seen."""
    outputs = [t for t in _tensors(_pytree.tree_leaves(results)) if t.requires_grad]
    seen = {key: leaf for key, (leaf, _) in counting.leaves.items()}
    wanted = {id(t): t for t in _tensors(inputs) if t.requires_grad} | seen
    if not outputs or not wanted:
        hint = "Describe an input with array(..., requires_grad=True), or pass a module with parameters."
        raise ArgumentError("cost", "backward", True, "a callable with a result that requires a gradient", hint)
    upstream = [torch.ones_like(out) for out in outputs]
    before = {key: leaf.grad for key, leaf in wanted.items()}
    with counting:
        found = torch.autograd.grad(outputs, list(wanted.values()), upstream, allow_unused=True)
    left = [leaf.grad for key, leaf in wanted.items() if leaf.grad is not before[key]]  # by a re-entrant checkpoint
    return *found, *left


def _tensors(leaves: Iterable[Any]) -> list[torch.Tensor]:
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _check(place: int, leaf: Any, run: bool) -> None:
    """Refuse arguments that have no cost, or none that can be counted."""
    call, name = "cost", f"argument {place + 1}"
    if isinstance(leaf, torch.Tensor):
        only_strided([leaf])
        if leaf.is_quantized:
            raise ArgumentError(call, name, leaf.dtype, "a tensor that is not quantised", "dequantize() makes one.")
        if not leaf.numel():
            raise ArgumentError(call, name, tuple(leaf.shape), "a tensor with at least one element")
    if isinstance(leaf, Description) and run:
        raise ArgumentError(call, name, leaf, "a real tensor, because run=True computes", "torch.randn makes one.")
    if type(leaf).__module__ == "numpy":
        raise ArgumentError(call, name, type(leaf), "a torch tensor or brrr.array(...)", "torch.from_numpy makes one.")


class _Fake:
    """Where a callable runs on fake tensors: shapes, types and storages, without memory.

    The same real tensor gets the same fake one each time, so that views of one storage stay views of one storage. Torch
    remembers it no longer than it lives; a parameter that the backward reads too has to live until then.
    """

    def __init__(self, device: torch.device) -> None:
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._mode._allow_unsafe_data_ptr_access = False  # a kernel launched on a fake address would crash
        cached = self._mode._cached_dispatch_impl

        def dispatched(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            packed = any(isinstance(each, torch.ScriptObject) for each in args)  # a weight that cannot be compared
            return (self._mode._dispatch_impl if packed else cached)(func, types, args, kwargs)

        self._mode._cached_dispatch_impl = dispatched  # type: ignore[method-assign]
        self._device = device
        self._kept: dict[int, torch.Tensor] = {}
        self._meta: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def input(self, leaf: Any) -> Any:
        """A fake tensor for a description or a tensor, with a gradient of its own; anything else as it is."""
        if isinstance(leaf, Description):
            return self._described(leaf)
        if not isinstance(leaf, torch.Tensor):
            return leaf
        with self._mode:
            return self.resident(leaf).detach().requires_grad_(leaf.requires_grad)

    def resident(self, tensor: torch.Tensor) -> torch.Tensor:
        if isinstance(tensor, FakeTensor):
            return tensor
        if tensor.is_meta:  # whose operators torch chooses for no device, as attention that is none of its kernels
            key = id(tensor)
            if key not in self._meta:
                self._meta[key] = tensor, FakeTensor(self._mode, tensor.detach(), self._device)
            return self._meta[key][1]
        fake = self._mode.from_tensor(tensor)
        self._kept[id(fake)] = fake
        return fake

    @contextmanager
    def surroundings(self) -> Iterator[None]:
        """The fake mode; an operator that fails is reported by its exception alone, not in torch's log too.

        A recurrent layer on a CPU is one operator of oneDNN, which tells nothing; without it, its products are seen.
        """
        logger = logging.getLogger("torch._subclasses.fake_tensor")
        with replaced(logger, "disabled", True), replaced(torch.backends.mkldnn, "enabled", False), self._mode:
            yield

    def _described(self, leaf: Description) -> torch.Tensor:
        dtype, device = getattr(torch, leaf.dtype), self._device if leaf.device is None else _present(leaf.device)
        with self._mode:
            return torch.empty(leaf.shape, dtype=dtype, device=device, requires_grad=leaf.requires_grad)


def _present(device: str) -> torch.device:
    """A device that is there: autograd ends the process where it meets a fake tensor on one that is not."""
    try:
        found = torch.device(device)
    except RuntimeError:
        raise ArgumentError("array", "device", device, "'cpu', or an accelerator that torch knows") from None
    if is_gpu(found) and kind_of(found) != gpu_here():
        raise UnavailableError(f"cost: device={device!r}, but there is no GPU here; leave it out to count on the CPU")
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Why a callable could not be counted, at which line, and what to do about it.

_NEEDS_VALUES = (fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException)
_UNSUPPORTED = (
    fake_tensor.UnsupportedFakeTensorException, fake_tensor.UnsupportedOperatorException, NotImplementedError,
)  # fmt: skip
_VALUES_TEXT = (".numpy() is not supported", "data pointer", "fake tensor", "faketensor", "meta tensor", "shape_env")
_OURS = (os.path.dirname(torch.__file__), os.path.dirname(__file__))


@contextmanager
def explained(fn: Any, run: bool) -> Iterator[None]:
    """Turn what only a trace raises into a TraceError; an error of the callable's own passes unchanged."""
    try:
        yield
    except BrrrError:
        raise
    except Exception as error:
        reason = None if run else _reason(error)
        if reason is None:
            raise
        advice = "Pass real tensors and run=True, which runs it once; or count the part before that line"
        raise TraceError(f"cost: {_name(fn)} cannot be traced: {_line(error)} {reason}. {advice}") from error


def _reason(error: Exception) -> str | None:
    """What about a description stopped the trace; None for an error that real tensors would raise too."""
    if isinstance(error, _NEEDS_VALUES):
        return f"needs a value, which a description does not have ({error})"
    if isinstance(error, _UNSUPPORTED):
        return f"uses what works on real tensors only ({first_line(error)[:160]})"
    text = str(error).lower()
    if any(part in text for part in _VALUES_TEXT):
        return f"needs the data itself, which a description does not have ({first_line(error)[:160]})"
    return None


def _line(error: Exception) -> str:
    """The innermost line that is neither torch's nor this package's, with its text where it can be read."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(_OURS):
            text = frame.line or linecache.getline(frame.filename, frame.lineno or 0).strip()
            return f"{os.path.basename(frame.filename)}:{frame.lineno} `{text}`" if text else f"line {frame.lineno}"
    return "it"
