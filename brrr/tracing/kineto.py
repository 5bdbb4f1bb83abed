"""What torch's profiler recorded, as plain values: the one place that knows its event classes.

The names asked of an event differ a little between versions of torch; what one lacks is worked out from the name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from brrr.tracing.model import Kind

Sort = Literal["operator", "runtime", "device", "annotation", "other"]

_RUNTIME = re.compile(r"(?:cuda|cu|hip)[A-Z]\w*")
_OPERATOR = re.compile(r"\w+::")
_SYNC = re.compile(r"(?:Context|Stream|Event) (?:Sync|Wait)")


@dataclass(frozen=True, slots=True)
class Raw:
    """One event of the profiler: times in nanoseconds since 1970, `resource` the stream of what the device did.

    `correlation` joins a runtime call with what it started on the device; `linked` names the operator around it.
    """

    name: str
    sort: Sort
    start_ns: int
    end_ns: int
    resource: int = 0
    device: int = 0
    correlation: int = 0
    linked: int = 0
    thread: int = 0


def raw_events(results: Any) -> list[Raw]:
    """All events of torch's `kineto_results`."""
    return [_raw(event) for event in results.events()]


def _raw(event: Any) -> Raw:
    start = event.start_ns()
    return Raw(
        name=event.name(),
        sort=_sort(event),
        start_ns=start,
        end_ns=start + event.duration_ns(),
        resource=event.device_resource_id(),
        device=event.device_index(),
        correlation=event.correlation_id(),
        linked=event.linked_correlation_id(),
        thread=event.start_thread_id(),
    )


def _sort(event: Any) -> Sort:
    """What kind of event this is: by the profiler's own word where there is one, else by its name."""
    name, activity = event.name(), _asked(event, "activity_type", "")
    if _asked(event, "is_user_annotation", False) or "user_annotation" in activity:
        return "annotation"  # a span of the user's, which the profiler draws on the device too: no work in itself
    if event.device_type().name != "CPU":
        return "other" if _SYNC.match(name) or "sync" in activity else "device"
    if activity in ("cuda_runtime", "cuda_driver") or _RUNTIME.fullmatch(name):
        return "runtime"
    return "operator" if activity in ("cpu_op", "") else "other"


def _asked(event: Any, method: str, default: Any) -> Any:
    found = getattr(event, method, None)
    return default if found is None else found()


def device_kind(name: str) -> Kind:
    """What the device did, by the profiler's name for it.

    >>> device_kind("Memcpy HtoD (Pageable -> Device)"), device_kind("Memset (Device)"), device_kind("gemm")
    ('copy in', 'memset', 'kernel')
    """
    if name.startswith("Memset"):
        return "memset"
    if not name.startswith("Memcpy"):
        return "kernel"
    return "copy in" if "HtoD" in name else "copy out" if "DtoH" in name else "copy"


def is_operator(name: str) -> bool:
    """Whether an event of the host is an operator of the dispatcher, and not a span that somebody named.

    >>> is_operator("aten::relu"), is_operator("my own part")
    (True, False)
    """
    return _OPERATOR.match(name) is not None


def short_name(name: str, most: int = 60) -> str:
    """A kernel's name without return type, namespaces, template arguments and parameters.

    >>> short_name("void at::native::vectorized_elementwise_kernel<4, at::native::relu>(int, float)")
    'vectorized_elementwise_kernel'
    """
    if name.startswith(("Memcpy", "Memset", "aten::")):
        return name.removeprefix("aten::")[:most]
    bare = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    bare = re.sub(r"^cutlass::Kernel2?<(.*?)[,>].*", r"\1", bare)  # here the argument is what tells
    return (re.split(r"[<(]", bare)[0].split("::")[-1].strip() or name)[:most]


def outermost(events: Iterable[Raw]) -> list[Raw]:
    """The events that lie in no other of the same thread: the operators called, without those that they call.

    >>> inner, outer = Raw("aten::b", "operator", 2, 3), Raw("aten::a", "operator", 1, 9)
    >>> [event.name for event in outermost([inner, outer])]
    ['aten::a']
    """
    found: list[Raw] = []
    until: dict[int, int] = {}
    for event in sorted(events, key=lambda e: (e.start_ns, -e.end_ns)):
        if event.end_ns > until.get(event.thread, -1):
            found.append(event)
            until[event.thread] = event.end_ns
    return found
