"""Which measured figures count for an operator: the host's cost of its call, and the rate of the memory that it uses.

Of host costs it is that of its own call where there is one, else that of its class. Of memory, a datasheet knows one
level, at its full rate. On measured peaks two curves tell: the rate of a single pass (`copy-once` and the like), whose
start and end weigh on small sets, and the sustained rate of the level that holds the working set of the whole call.
The slower of the two counts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from brrr.counting.cost import ITEMSIZE, OperatorCost, Recent
from brrr.gpu import is_cpu
from brrr.roofline.device_model import REFERENCE_CALL, DeviceModel
from brrr.roofline.lowering import TOLD, name_on_gpu
from brrr.roofline.peak import Curve
from brrr.roofline.peaks import Peaks

WHOLE = "whole"
"""The kind of a cost that does not tell its operators."""

CLASS: Mapping[str, str] = TOLD["host_class"]
"""Which measured class counts for which kind of operator."""

OWN: Mapping[str, str] = TOLD["host_own"]
"""Operators whose own host cost is measured; a bound of relu is a number, which Python hands over at a price."""


def own_name(each: OperatorCost) -> str:
    """The name, behind `host.`, of an operator's own figure: forward one for short types, for which libraries do more.

    A convolution has one for each kind of kernel.

    >>> own_name(OperatorCost("aten.index_add_", 0, 0, 0, "bfloat16", (), "index"))
    'aten.index_add, short'
    """
    name = name_on_gpu(each)
    form = f", {each.form.name.split(',')[0]}" if each.kind == "convolution" else ""
    short = ITEMSIZE.get(each.dtype, 4) == 2 and "backward" not in name
    return f"{name}{form}{', short' if short else ''}"


def host_class(each: OperatorCost, model: DeviceModel) -> str:
    """The name, behind `host.`, of the figure that counts; a class that stands in for another one becomes a note."""
    for name in (own_name(each), *_nearest(each), each.kind):
        if model.has(f"host.{name}"):
            return name
    found = CLASS.get(each.kind, "pointwise")
    if found != each.kind and each.kind not in ("fused", WHOLE):
        model.note(f"issuing {each.kind} operators counts as issuing {found} ones")
    return found


class Training(NamedTuple):
    """What autograd costs the host: in usual costs, of the forward and the backward; and seconds at once."""

    forward: float = 1.0
    backward: float = 1.0
    at_once_s: float = 0.0


def of_training(model: DeviceModel, gradients: int) -> Training:
    """The same, for so many gradients; as without gradients, where it was not measured."""
    if not all(map(model.has, ("host.backward", "host.backward-operator", "host.pointwise-grad", REFERENCE_CALL))):
        return Training()
    each_s = model.value(GRADIENT) if model.has(GRADIENT) else 0.0
    noting = model.value("host.pointwise-grad") / model.value("host.pointwise")
    backward = model.value("host.backward-operator") / model.value(REFERENCE_CALL)
    return Training(noting, backward, model.value("host.backward") + each_s * gradients)


GRADIENT = "host.backward-gradient"
"""So small that a calibration may lose it in noise."""


def python_s(model: DeviceModel, lines: int, calls: int) -> float:
    """Seconds of so many lines of Python, less one for each operator called; 0 where that was not measured."""
    return max(0, lines - calls) * model.value("host.line") if model.has("host.line") else 0.0


def _nearest(each: OperatorCost) -> Iterator[str]:
    """Figures nearer to a call than that of its class: a number in place of a tensor, in place, one tensor alone."""
    if each.name in OWN:
        yield OWN[each.name]
    if each.kind == "pointwise" and each.name.endswith("_"):
        yield "in-place-scalar" if each.form.name == "scalar" else "in-place"
        yield "in-place"
    if each.form.name == "scalar":
        yield "scalar"
    if each.kind == "pointwise" and len(each.shapes) == 1 and each.shapes[0] and each.form.name == "":
        yield "unary"
    if each.kind == "reduction" and each.form.name in ("rows", "columns"):
        yield "reduction-rows"
    if each.name == "aten.view" and each.shapes and len(each.shapes[0]) == 1:
        yield "view-shape"


# ---------------------------------------------------------------------------------------------------------------------
# The same peaks whatever the host's speed: its costs go together, the device's do not follow.

REPLAY = "graph-replay"


def without_host(peaks: Peaks) -> Peaks:
    """The device's own figures, equal whatever the host's speed, so that what rests on them can be kept; a CPU's all.

    >>> from brrr.roofline.peak import Peak
    >>> relu = Peak(5e-6, 5e-6, 5e-6, "s")
    >>> dict(without_host(Peaks("Some GPU", "mps", "2026-01-01", measured={"host.relu": relu})).measured)
    {}
    """
    if is_cpu(peaks.kind):
        return peaks
    measured = {name: peak for name, peak in peaks.measured.items() if not name.startswith("host.")}
    curves = {name: peaks.curves[name] for name in peaks.curves if name != REPLAY}
    return replace(peaks, measured=measured, curves=curves)


# ---------------------------------------------------------------------------------------------------------------------
# The memory's term: how long bytes take, from the level of memory that holds the working set.


UNCACHED = 1e12
"""Bytes that no cache holds."""
LATENCY_S = 0.45e-6
"""So much longer a cold call's pass takes, which first waits for the memory and not for the cache: a relu of 256 kB, as
it was measured hot and cold on an H100 and on an H200. In blocks that are called again and again it did not show."""


def memory_s(
    model: DeviceModel, read: float, written: float, apart: float, start_s: float | None = None, recent: Recent = None
) -> float:
    """Seconds that reading and writing so many bytes take, without a kernel's start and end.

    A byte comes from the level of memory that holds all that was touched since it was: `recent` tells how much that
    is of some of the bytes, of all others it is `apart`, at least what the kernel moves. With `start_s`, what a single
    pass takes beyond moving bytes, one pass over them is no faster than was measured; more bytes never take less time,
    whatever the curves look like.
    """
    moved = read + written
    if moved <= 0:
        return 0.0
    if not model.curves:
        return moved / model.value("copy")
    sustained, single = _curves(model, traffic_kind(read, written))
    curve, once, passing = model.curves[sustained], model.curves[single], 0.0
    if start_s is not None:
        passing = single_pass_s(once, moved, start_s)
        model.use(single, once.at(moved), once.points[0][1])

    def rate(since: float) -> float:
        return model.use(sustained, level_rate(curve, since, once), curve.points[0][1])

    near, far, left, taken_s = rate(moved), rate(max(apart, moved)), moved, 0.0
    for nbytes, since in recent or ():
        taken_s += min(nbytes, left) / rate(since)
        left = max(0.0, left - nbytes)
    taken_s += left / far
    waited_s = LATENCY_S if passing and left > written and apart >= UNCACHED and far < near else 0.0
    return max(passing, moved / near) + max(0.0, taken_s - moved / near) + waited_s


def traffic_kind(read: float, written: float) -> str:
    """Which of the measured streams a traffic is like, by the share that is written: none, a third, half, all.

    >>> traffic_kind(8, 0), traffic_kind(8, 4), traffic_kind(4, 4), traffic_kind(0, 4)
    ('read', 'triad', 'copy', 'write')
    """
    share = written / (read + written)
    return "read" if share < 1 / 6 else "triad" if share < 5 / 12 else "copy" if share < 3 / 4 else "write"


def level_rate(curve: Curve, since: float, once: Curve | None = None) -> float:
    """B/s of the level that holds what was touched since: the best measured at this size or a larger one.

    A larger set is never faster in itself; where a small one was slower, starting and ending was the reason. Beyond the
    size at which single passes, by `once`, are fastest, no more than theirs counts: of what one kernel goes through
    again and again a part stays in the cache, of what others drove out nothing.
    """
    rate = max(curve.at(since), *(peak.value for place, peak in curve.points if place >= since), 0.0)
    return rate if once is None or since <= once.best_point[0] else min(rate, level_rate(once, since))


def single_pass_s(curve: Curve, moved: float, start_s: float) -> float:
    """Seconds of one pass over so many bytes, less its start; below the smallest measured set in proportion."""
    smallest = curve.points[0][0]
    if moved < smallest:
        return moved / smallest * single_pass_s(curve, smallest, start_s)
    sizes = [place for place, _ in curve.points if place < moved] + [moved]
    return max(0.0, max(size / curve.at(size) for size in sizes) - start_s)


def _curves(model: DeviceModel, traffic: str) -> tuple[str, str]:
    """The curve of the sustained rate, and that of a single pass: torch's own operator's where it was measured."""
    sustained = traffic if traffic in model.curves else "copy"
    if sustained not in model.curves:
        model.value("copy")  # raises, and says what to run
    torch_curve = "torch-pointwise" if traffic == "copy" else ""
    wanted = (torch_curve, f"{traffic}-once", "copy-once", sustained)
    return sustained, next(name for name in wanted if name in model.curves)
