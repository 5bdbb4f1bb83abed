"""Remedies that are safe to try: applied to a copy, checked against the result without, and measured beside it."""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree

from brrr.core.private import keep_compiled_code_private
from brrr.diagnosis.keeping import kept_as_it_was
from brrr.diagnosis.live import step_of
from brrr.diagnosis.report import Diagnosis, Tried
from brrr.gpu import GPU
from brrr.timing import measure_together

TOLERANCES = {"exact": 1e-4, "tensor cores": 5e-2, "lower precision": 5e-2}
"""Relative change of the result (Frobenius) up to which a remedy is taken; the last two change the arithmetic."""
NOT_SAFE = "not applied: it takes a change of the program"

Step = Callable[[], Any]


def tried(
    found: Diagnosis, fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], backward: bool, device: str,
    budget_s: float,
) -> tuple[Tried, ...]:  # fmt: skip
    """Each remedy that was named: measured where it is safe to apply, else with the reason why not.

    A remedy that fails, or whose result differs by more than its tolerance, is told, and nothing is raised.
    """
    made = []
    for remedy in found.remedies:
        apply = _APPLY.get(remedy.name)
        if apply is None:
            made.append(Tried(remedy.name, None, None, None, None, NOT_SAFE))
            continue
        with kept_as_it_was((fn, args, kwargs)):
            made.append(_one(remedy.name, apply, fn, args, kwargs, backward, device, budget_s))
    return tuple(made)


def _one(
    name: str, apply: Callable[..., Any], fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], backward: bool,
    device: str, budget_s: float,
) -> Tried:  # fmt: skip
    plain = step_of(fn, args, kwargs, backward)
    exact = _seeded(plain)
    if not exact:
        return Tried(name, None, None, None, None, "not applied: the step returns no tensor to compare")
    try:
        with apply(fn, args, kwargs, backward, device) as other:
            change = _difference(exact, _seeded(other))
            allowed = TOLERANCES.get(name, TOLERANCES["exact"])
            if change is None:
                return Tried(name, None, None, None, None, "refused: there is no result to compare")
            if not change <= allowed:
                said = f"refused: the result differs by {change:.1e}, more than {allowed:.0e}"
                return Tried(name, None, None, None, change, said)
            place: Any = GPU if device == GPU else "cpu"
            before, after = measure_together([plain, other], device=place, budget_s=budget_s)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else ""
        return Tried(name, None, None, None, None, f"failed: {type(error).__name__}: {reason}")
    if before.period_s is None or after.period_s is None:
        return Tried(name, None, None, None, change, "no period was measured")
    gain = before.period_s / after.period_s
    return Tried(name, gain.median, gain.low, gain.high, change)


def _seeded(step: Step) -> list[torch.Tensor]:
    """The results with the same random numbers each time."""
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if torch.cuda.is_available() else []):
        torch.manual_seed(0)
        found = step()
    return [each.detach().clone() for each in _pytree.tree_leaves(found) if isinstance(each, torch.Tensor)]


def _difference(ones: list[torch.Tensor], others: list[torch.Tensor]) -> float | None:
    """The largest relative difference (Frobenius) of two results; None where they cannot be compared."""
    if not ones or [each.shape for each in ones] != [each.shape for each in others]:
        return None
    found = 0.0
    for one, other in zip(ones, others, strict=True):
        exact, near = one.double(), other.double()
        size = float(exact.norm()) or 1.0
        apart = float((exact - near).norm()) / size
        found = max(found, apart if apart == apart else float("inf"))
    return found


@contextmanager
def _compiled(fn: Any, args: Any, kwargs: Any, backward: bool, device: str) -> Iterator[Step]:
    """torch.compile, as it comes; the module itself stays as it is."""
    keep_compiled_code_private()
    yield step_of(torch.compile(fn), args, kwargs, backward)


@contextmanager
def _captured(fn: Any, args: Any, kwargs: Any, backward: bool, device: str) -> Iterator[Step]:
    from brrr.running.graphs import capture

    yield capture(step_of(fn, args, kwargs, backward)).replay


@contextmanager
def _short(fn: Any, args: Any, kwargs: Any, backward: bool, device: str) -> Iterator[Step]:
    """Automatic mixed precision."""

    def inside(*inputs: Any, **named: Any) -> Any:
        with torch.autocast(device, dtype=torch.bfloat16):
            return fn(*inputs, **named)

    yield step_of(inside, args, kwargs, backward)


@contextmanager
def _channels_last(fn: Any, args: Any, kwargs: Any, backward: bool, device: str) -> Iterator[Step]:
    """A copy of the module, and the images, with the channels last."""
    if not isinstance(fn, nn.Module):
        raise TypeError("only a module can be put with its channels last")
    made: Any = copy.deepcopy(fn)
    turned = _pytree.tree_map_only(torch.Tensor, _turned, args)
    yield step_of(made.to(memory_format=torch.channels_last), turned, kwargs, backward)


def _turned(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


@contextmanager
def _contiguous(fn: Any, args: Any, kwargs: Any, backward: bool, device: str) -> Iterator[Step]:
    """The arguments without gaps."""
    yield step_of(fn, _pytree.tree_map_only(torch.Tensor, torch.Tensor.contiguous, args), kwargs, backward)


_APPLY: Mapping[str, Callable[..., Any]] = {
    "fusion": _compiled, "rematerialisation": _compiled, "cuda graph": _captured, "contiguous": _contiguous,
    "channels last": _channels_last, "tensor cores": _short, "lower precision": _short,
}  # fmt: skip
"""How a remedy is applied, by its name; the others need the program's author."""
