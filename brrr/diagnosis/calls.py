"""The operators of a trace that did work, each with its cost, the time of its kernels, and the module it belongs to.

What the device did belongs to the operator in which it was launched: the innermost one whose cost is known. On a CPU
an operator's time is what it spends outside the operators that it calls.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from brrr.counting.cost import OperatorCost
from brrr.diagnosis.operator_cost import cost_of, kind_of
from brrr.tracing.events import LINKED, Event
from brrr.tracing.trace_file import Trace, left_over

MODULE = "brrr_module: "
"""How the spans begin that a live diagnosis puts around each module's forward."""
PASSING = ("view",)
"""Kinds without work of their own."""
DISPATCHED_NS = 20_000
"""What only calls others, and is seen to call none, does the work itself where it takes longer."""
Phase = Literal["forward", "backward", "again"]
ENGINE = "autograd::engine"
LAYOUT = " (layout)"
"""How the name of a call ends that puts the channels of another one's images last, or back."""


@dataclass
class OperatorRun:
    """One call of an operator: its cost, None where nobody knows; what the device (or the CPU) did for it.

    phase: "backward" of what autograd runs; "again" of a forward operator that it computes a second time. line: of the
    user's code.
    """

    operator: Event
    cost: OperatorCost | None
    module: str = ""
    work_ns: int = 0
    kernels: list[Event] = field(default_factory=list)
    phase: Phase = "forward"
    line: str = ""

    @property
    def name(self) -> str:
        """The operator's name as torch has it."""
        return self.operator.name.removeprefix("aten::")

    @property
    def blocks(self) -> int:
        """The thread blocks of its longest kernel; 0 where the trace does not tell."""
        longest = max(self.kernels, key=lambda each: each.end_ns - each.start_ns, default=None)
        return longest.blocks if longest is not None else 0


def turns(kernel: str) -> bool:
    """Whether a kernel of cuDNN's puts the channels of images last, or back."""
    return "nchwToNhwc" in kernel or "nhwcToNchw" in kernel


def calls_of(trace: Trace, start_ns: int, end_ns: int, gpu: bool) -> list[OperatorRun]:
    """The calls between two times that did work, in the order of their starts; kernels without an operator in one.

    What the device still had to do from before is no call's.
    """
    host = [each for each in trace.events if not each.on_device and start_ns <= each.start_ns < end_ns]
    if not gpu:
        return _by_own_time(host)
    made: dict[int, OperatorRun] = {}
    by_launch: dict[int, OperatorRun] = {}
    for event, around in nested(host):
        if event.sort == "runtime":
            owner = _owner(around)
            if owner is not None:
                one = OperatorRun(*owner, phase=phase(around))
                by_launch[event.correlation] = made.setdefault(id(owner[0]), one)
    old = set(map(id, left_over(trace.events, start_ns)))
    for each in trace.events:
        if each.on_device and each.sort not in LINKED and start_ns <= each.start_ns < end_ns and id(each) not in old:
            call = by_launch.get(each.correlation)
            if call is None:
                call = made.setdefault(id(each), OperatorRun(each, None))
            elif turns(each.name):
                apart = replace(call.operator, name=f"{call.name}{LAYOUT}")
                call = made.setdefault(-id(call.operator), OperatorRun(apart, None, call.module))
            call.kernels.append(each)
            call.work_ns += each.end_ns - each.start_ns
    return [call for call in made.values() if call.work_ns > 0]


def _by_own_time(host: Sequence[Event]) -> list[OperatorRun]:
    """On a CPU: the operators with work, each with the time that it does not spend in another one.

    One that has all its work done by another only passes it on, and is left out: `mean` calls `sum`. One whose cost
    nobody knows works too, unless it is known only to look at a tensor, or to call others.
    """
    made: dict[int, OperatorRun] = {}
    passing: set[int] = set()
    calling = {id(each) for event, around in nested(host) if event.sort == "operator" for each in around}
    for event, around in nested(host):
        if event.sort != "operator":
            continue
        cost = cost_of(event.name, event.inputs) if event.inputs is not None else None
        kind, length = cost.kind if cost is not None else kind_of(event.name), event.end_ns - event.start_ns
        if kind in PASSING or (kind == "composed" and (id(event) in calling or length < DISPATCHED_NS)):
            continue
        outer = next((made[id(each)] for each in reversed(around) if id(each) in made), None)
        known = outer.cost if outer is not None else None
        if known is not None and known.flop is not None and (cost is None or cost.flop is None):
            continue  # a library's own form of the operator around it, of which nobody knows the FLOP
        if outer is not None:
            outer.work_ns -= length
            if cost is not None and known is not None and _does_all_of(cost, known):
                passing.add(id(outer.operator))
        made[id(event)] = OperatorRun(event, cost, _module(around), length, phase=phase(around))
    return [call for key, call in made.items() if key not in passing and call.work_ns > 0]


def _does_all_of(inner: OperatorCost, outer: OperatorCost) -> bool:
    """Whether an operator's arithmetic, and most of its bytes, are those of one that it calls."""
    return (inner.flop or 0.0) >= 0.9 * (outer.flop or 0.0) and inner.bytes >= 0.4 * outer.bytes


def _owner(around: Sequence[Event]) -> tuple[Event, OperatorCost | None, str] | None:
    """The innermost operator with a cost of its own, else the innermost one; and the innermost module.

    Around a library's own form of an operator (`_convolution`), of which nobody knows the FLOP, stands one whose FLOP
    are known.
    """
    operators = [each for each in reversed(around) if each.sort == "operator"]
    found: tuple[Event, OperatorCost] | None = None
    for each in operators:
        cost = cost_of(each.name, each.inputs) if each.inputs is not None else None
        if cost is not None and cost.kind not in PASSING:
            if found is None or cost.flop is not None:
                found = each, cost
            if cost.flop is not None:
                break
    if found is not None:
        return *found, _module(around)
    return (operators[0], None, _module(around)) if operators else None


def phase(around: Sequence[Event]) -> Phase:
    """Of what stands around an event: autograd's engine, and forward operators in it, as checkpointing runs them."""
    names = [each.name for each in around]
    back = next((at for at, name in enumerate(names) if name.startswith(ENGINE)), None)
    if back is None:
        return "forward"
    return "again" if any(name in FORWARD for name in names[back:]) else "backward"


FORWARD = ("aten::linear", "aten::matmul", "aten::conv1d", "aten::conv2d", "aten::conv3d",
           "aten::scaled_dot_product_attention")  # fmt: skip
"""What a program calls going forward; gradients call the products inside of them directly."""


def _module(around: Sequence[Event]) -> str:
    """The innermost module around an event."""
    names = (each.name.removeprefix(MODULE) for each in reversed(around) if each.name.startswith(MODULE))
    return next(names, "")


def nested(events: Sequence[Event]) -> Iterable[tuple[Event, list[Event]]]:
    """Each event of the host with those around it on its thread, the outermost first."""
    stacks: dict[int, list[Event]] = {}
    for event in events:
        stack = stacks.setdefault(event.thread, [])
        while stack and stack[-1].end_ns <= event.start_ns:
            stack.pop()
        yield event, stack
        if event.sort in ("operator", "annotation"):
            stack.append(event)
