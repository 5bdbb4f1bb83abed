"""Remedies that are safe to try: applied to a copy, checked against the result without, and measured beside it."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree

from brrr.core import units
from brrr.core.private import keep_compiled_code_private
from brrr.core.time_limit import Late, within
from brrr.diagnosis.live import step_of
from brrr.diagnosis.report import Diagnosis, Tried
from brrr.diagnosis.snapshot import found_in, snapshot
from brrr.gpu.precision import float32_products
from brrr.roofline.peaks import short
from brrr.timing import measure_together

TOLERANCES = {"exact": 1e-4, "tf32": 1e-2, "tensor cores": 5e-2, "lower precision": 5e-2}
"""Relative change of the result (Frobenius) up to which a remedy is taken; the last three change the arithmetic."""
ROUNDINGS = 8
"""Of the shortest type that the step computes in: so much may differ what rounds elsewhere, as once it is fused."""
EPS = {"tf32": 2.0**-10, "bf16": 2.0**-7, "fp16": 2.0**-10}
"""The relative distance of two neighbouring numbers of the types that products are computed in."""
OWN = 1.5
"""So many times as far as two runs of the step itself, with other random numbers, a remedy's result may lie."""
LONGEST_S = 60.0
"""What all trials together may take, if nobody says otherwise."""
NOT_SAFE = "not applied: it takes a change of the program"

Step = Callable[[], Any]
Results = list[torch.Tensor]


class NotApplied(Exception):
    """A remedy that cannot be applied here, with what would make it possible."""


def tried(
    found: Diagnosis, fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], backward: bool, device: str,
    budget_s: float, longest_s: float = LONGEST_S,
) -> tuple[Tried, ...]:  # fmt: skip
    """Each remedy that was named: measured where it is safe to apply, else with the reason why not.

    A remedy that fails, or whose result differs by more than its tolerance, is told, and nothing is raised. longest_s:
    of all together; what is not through by then, or when Ctrl-C ends it, says so. What has to be compiled comes last,
    so that it takes the time from no other.
    """
    plain, modules, back = step_of(fn, args, kwargs, backward), *snapshot((fn, args, kwargs))
    parameters = [each for module in modules.values() for each in module.parameters(recurse=False)]
    until, made, ended = time.monotonic() + longest_s, [], ""
    computed = {short(name) for each in found.operators for name in (each.products, each.name.rpartition(" ")[2])}
    rounds = ROUNDINGS * max(EPS.get(name, 0.0) for name in ("", *computed))
    exact: list[Results] = []
    gains = {each.name: each.gain for each in found.remedies}
    names = list(gains)
    for place, name in enumerate(sorted(names, key=lambda each: _APPLY.get(each) is _compiled)):
        if ended or name not in _APPLY:
            made.append(Tried(name, None, None, None, None, ended if name in _APPLY else NOT_SAFE))
            continue
        left_s = until - time.monotonic()
        bar = "#" * (place + 1) + "-" * (len(found.remedies) - place - 1)
        said = f"trying {name}, {units.seconds(max(0.0, left_s), 2)} left; Ctrl-C ends it"
        print(f"diagnose: [{bar}] {said}", file=sys.stderr)
        try:
            with within(left_s):
                for seed in range(len(exact), 2):  # one with other random numbers, and from the same state
                    exact.append(_seeded(plain, parameters, seed))
                    back()
                with _APPLY[name](fn, args, kwargs, backward, device) as other:
                    if name == "cuda graph":  # whose capture ran the step
                        back()
                    made.append(_one(name, plain, other, exact, rounds, parameters, device, min(budget_s, left_s / 4)))
        except KeyboardInterrupt as error:
            ended = f"not tried to the end: {f'{longest_s:g} s were over' if isinstance(error, Late) else 'cancelled'}"
            made.append(Tried(name, None, None, None, None, ended))
        except NotApplied as error:
            made.append(Tried(name, None, None, None, None, f"not applied: {error}"))
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else ""
            made.append(Tried(name, None, None, None, None, f"failed: {type(error).__name__}: {reason}"))
        finally:
            back()
    made = [replace(each, predicted=gains[each.name]) for each in made]
    return tuple(sorted(made, key=lambda each: names.index(each.name)))


def _one(
    name: str, plain: Step, other: Step, exact: Sequence[Results], rounds: float, parameters: Sequence[torch.Tensor],
    device: str, budget_s: float,
) -> Tried:  # fmt: skip
    began_s = time.monotonic()
    near = _seeded(other, parameters, 0)
    first_s = time.monotonic() - began_s
    changes, own = _differences(exact[0], near), _differences(*exact)
    if changes is None:
        return Tried(name, None, None, None, None, "refused: there is no result to compare")
    change, most = max(changes), max(own or [0.0])
    known = TOLERANCES.get(name, TOLERANCES["exact"])
    tolerance = max([known, rounds, *(ROUNDINGS * eps for eps in map(_eps, exact[0]))])
    itself = f"two runs of the step itself by {most:.1e}" if most > tolerance else ""
    if not all(one <= max(tolerance, OWN * its) for one, its in zip(changes, own or [0.0] * len(changes), strict=True)):
        said = f"refused: the result differs by {change:.1e}, more than {tolerance:.0e}"
        return Tried(name, None, None, None, change, f"{said}; {itself}" if itself else said)
    if name == "tensor cores" and not change:
        raise NotApplied("automatic mixed precision changes nothing here: it is for products of float32")
    before, after = measure_together([plain, other], device=device, budget_s=budget_s)
    if before.period_s is None or after.period_s is None:
        return Tried(name, None, None, None, change, "no period was measured")
    gain = before.period_s / after.period_s
    said = itself and f"It differs from {itself}."
    if _APPLY.get(name) is _compiled and gain.low > 1:
        steps = first_s / (before.period_s.median - after.period_s.median)
        said = f"The first step, which compiles, takes {units.seconds(first_s)}: it pays after {steps:,.0f}. {said}"
    return Tried(name, gain.median, gain.low, gain.high, change, said, before.period_s.median)


def _eps(result: torch.Tensor) -> float:
    """The relative distance of two neighbouring numbers of its type; 0 where it has whole numbers."""
    return torch.finfo(result.dtype).eps if result.dtype.is_floating_point else 0.0


def _seeded(step: Step, parameters: Sequence[torch.Tensor], seed: int) -> Results:
    """The results with these random numbers; of a step that returns none, the parameters that it leaves."""
    torch.manual_seed(seed)
    found = [each for each in _pytree.tree_leaves(step()) if isinstance(each, torch.Tensor)]
    return [each.detach().clone() for each in found or parameters]


def _differences(ones: Results, others: Results) -> list[float] | None:
    """The relative difference (Frobenius) of each two results; None where they cannot be compared."""
    if not ones or [each.shape for each in ones] != [each.shape for each in others]:
        return None
    found = []
    for one, other in zip(ones, others, strict=True):
        exact, near = one.double(), other.double()
        apart = float((exact - near).norm()) / (float(exact.norm()) or 1.0)
        found.append(apart if apart == apart else float("inf"))
    return found


@contextmanager
def _compiled(fn: Any, args: Any, kwargs: Any, backward: bool, device: str) -> Iterator[Step]:
    """torch.compile, as it comes; the module itself stays as it is."""
    keep_compiled_code_private()
    yield step_of(torch.compile(fn), args, kwargs, backward)


@contextmanager
def _captured(fn: Any, args: Any, kwargs: Any, backward: bool, device: str) -> Iterator[Step]:
    from brrr.running.graphs import capture

    for each in found_in((fn, args, kwargs)).optimisers:
        if any(group.get("capturable") is False for group in each.param_groups):
            name = type(each).__name__
            raise NotApplied(f"no graph holds the optimiser as it is: make it {name}(..., capturable=True)")
    yield capture(step_of(fn, args, kwargs, backward)).replay


@contextmanager
def _short(fn: Any, args: Any, kwargs: Any, backward: bool, device: str) -> Iterator[Step]:
    """Automatic mixed precision."""

    def inside(*inputs: Any, **named: Any) -> Any:
        with torch.autocast(device, dtype=torch.bfloat16):
            return fn(*inputs, **named)

    yield step_of(inside, args, kwargs, backward)


@contextmanager
def _in_tf32(fn: Any, args: Any, kwargs: Any, backward: bool, device: str) -> Iterator[Step]:
    yield float32_products(tf32=True)(step_of(fn, args, kwargs, backward))


def _swapped(change: Callable[[torch.Tensor], torch.Tensor], what: str) -> Callable[..., Any]:
    """A remedy that puts the tensors of the step into another form, wherever it holds them, and back."""

    @contextmanager
    def apply(fn: Any, args: Any, kwargs: Any, backward: bool, device: str) -> Iterator[Step]:
        held = found_in((fn, args, kwargs))
        each_once = {id(each): each for root in held.roots for each in (*root.parameters(), *root.buffers())}
        others = [each for each in held.tensors if each.dim()]  # moments, too, but no count of an optimiser's steps
        every = [*each_once.values(), *others]
        before = [(each, each.data, each.grad) for each in every if each.is_floating_point() and each.is_leaf]
        after = [change(data) for _, data, _ in before]
        if all(new is data for new, (_, data, _) in zip(after, before, strict=True)):
            raise NotApplied(f"no {what} found in the step: pass the module and its inputs, diagnose(model, x)")
        try:
            for (each, _, _), new in zip(before, after, strict=True):
                each.grad, each.data = None, new
            yield step_of(fn, args, kwargs, backward)
        finally:
            for each, data, gradient in before:
                each.grad = None
                each.data = data
                each.grad = gradient

    return apply


def _turned(tensor: torch.Tensor) -> torch.Tensor:
    """Channels last, where it has any."""
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


def _halved(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.bfloat16() if tensor.element_size() > 2 else tensor


_APPLY: Mapping[str, Callable[..., Any]] = {
    "fusion": _compiled, "rematerialisation": _compiled, "cuda graph": _captured, "tensor cores": _short,
    "tf32": _in_tf32, "channels last": _swapped(_turned, "images channel by channel were"),
    "contiguous": _swapped(torch.Tensor.contiguous, "tensors with gaps were"),
    "lower precision": _swapped(_halved, "numbers of more than 16 bits were"),
}  # fmt: skip
"""How a remedy is applied, by its name; the others need the program's author."""
