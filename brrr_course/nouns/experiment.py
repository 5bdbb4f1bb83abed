"""An experiment: a question, its sliders, what is run, which lines are drawn, and what is claimed.

Importing an experiment loads neither torch nor numpy: `brrr_course.experiments.lazily` does, when something of them is
first used. What a variant runs at a point is made by the function `workload` of the experiment's module.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import product
from math import inf, log2
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from brrr.core.errors import ArgumentError, WrongResultError
from brrr.core.measurement import FIELDS, Cache, DeviceKind, Field, Point, Processor, Value
from brrr.counting.cost import Cost
from brrr.gpu import CUDA, ROCM, gpu_here, is_cpu, is_cuda, is_gpu, is_queue, tensors_on, waiting
from brrr.timing.cpu_queue import CpuQueue
from brrr_course.nouns.claim import Claim, claims_of

if TYPE_CHECKING:
    from brrr.gpu.datasheet import Hardware
GuideView = Literal["time", "rate", "ratio", "bytes", "flop", "memory"]
"""Where a theoretical line is drawn: "rate" is the experiment's first rate, "bytes" or "flop" its other one of them."""


LARGEST = 2.0**50
"""No size is larger."""


@dataclass(frozen=True)
class Axis:
    """One slider: its name, its values in order, and how it reads; a point at one of `alone` is joined to no other.

    >>> Axis("size", (1, 2, 4), label="matrix size n").values
    (1, 2, 4)

    `most` tells the largest value of a variant by its kind of device, such as {"cpu": 2**20}: where a CPU, or the CPU
    queue, would take too long. `noun` is what a sentence calls it, where its name will not do.
    """

    name: str
    values: tuple[Value, ...]
    label: str = ""
    scale: Literal["log", "linear", "category"] = "log"
    quick: tuple[Value, ...] = ()
    integer: bool = True
    alone: tuple[Value, ...] = ()
    most: Mapping[DeviceKind, float] = dataclasses.field(default_factory=dict, hash=False)
    noun: str = ""

    @property
    def title(self) -> str:
        """The label, or the name where there is no label."""
        return self.label or self.name

    def says(self, value: Value) -> str:
        """A value in a sentence: of several things their number, of a choice the word alone.

        >>> Axis("elements", (1,)).says(2**20), Axis("blocks", (1,)).says(1), Axis("batch", (1,)).says(16)
        ('2²⁰ elements', '1 block', 'batch 16')
        >>> Axis("dtype", ("float32",), scale="category").says("float32")
        'float32'
        """
        from brrr.drawing.style import readable

        noun, told = self.noun or self.name, readable(value)
        if isinstance(value, str):
            return f"{self.noun} {told}".lstrip()
        several = noun.removesuffix("s") if value == 1 else noun
        return f"{told} {several}" if noun.endswith("s") else f"{noun} {told}"

    def checked(self, call: str, value: Value) -> Value:
        """The value, if this axis can take it at all (recorded or not); else an ArgumentError that says why.

        A size is a positive whole number; a category is one of the axis's values.
        """
        if self.scale == "category":
            if value not in self.values:
                raise ArgumentError(call, self.name, value, f"one of {', '.join(map(str, self.values))}")
            return value
        number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= LARGEST
        if not number or (self.integer and value != int(value)):
            what = "a positive whole number" if self.integer else "a number > 0"
            raise ArgumentError(call, self.name, value, f"{what}, up to {LARGEST:g}")
        return int(value) if self.integer else value

    def nearest(self, value: Value, among: Sequence[Value] = ()) -> Value:
        """The value closest to one that this axis can take: of the axis's own, or of those among which to look."""
        self.checked("nearest", value)
        return min(among or self.values, key=lambda each: self.distance(each, value))

    def distance(self, one: Value, other: Value) -> float:
        """How far two values are apart: in octaves, on a linear axis in tenths of it; 100 for another category.

        >>> Axis("size", (1, 2, 4)).distance(1, 4)
        2.0
        """
        if self.scale == "category":
            return 0.0 if one == other else 100.0
        a, b = float(one), float(other)
        if self.scale == "log":
            return log2(max(a / b, b / a))
        numbers = [float(value) for value in self.values]
        return 10 * abs(a - b) / ((max(numbers) - min(numbers)) or 1.0)


def lies_on(point: Point, line: Mapping[str, Collection[Value]]) -> bool:
    """Whether a point has one of the values that a line through a grid has on each axis that it tells.

    >>> lies_on({"batch": 4, "hidden": 32}, {"batch": (1, 4)})
    True
    """
    return all(point[name] in values for name, values in line.items())


def accelerator() -> Processor:
    """What torch calls the accelerator that it uses here; "cuda" where it has none, which then is what is missing."""
    return tensors_on(gpu_here() or CUDA)


def has_gpu(kind: DeviceKind) -> bool:
    """Whether a machine of this kind is measured on its GPU, also one whose back end is not here.

    >>> has_gpu("cuda"), has_gpu("npu"), has_gpu("cpu")
    (True, True, False)
    """
    return not (is_cpu(kind) or is_queue(kind) or kind == WEBGPU)


WEBGPU: DeviceKind = "webgpu"
BY_A_LOOP: Mapping[Field, Field] = {"kernel_s": "period_s", "busy_s": "period_s", "span_s": "period_s"}
ELSEWHERE: Mapping[DeviceKind, Mapping[Field, Field]] = {
    CUDA: {},
    "cpu-queue": {"busy_s": "kernel_s", "span_s": "period_s"},
}
"""What a line shows where the time that its experiment asks for is not measured: the time of a loop, but for these."""

HAVE: Mapping[str, Collection[DeviceKind]] = {"CUDA": (CUDA,), "Triton": (CUDA, ROCM, "xpu")}
"""The GPUs that have what a variant may need beside torch: CUDA itself, or Triton, which torch.compile needs too."""
NEEDS = {
    **dict.fromkeys(("compile", "compile-known", "compile-saved", "do-bench", "triton"), "Triton"),
    **dict.fromkeys((
        "best", "compile-graph", "cuda", "cudnn", "do-bench-cudagraph", "efficient", "epilogue", "epilogue-graph",
        "event-pair", "flash", "graph", "max-autotune", "megakernel", "megakernel-graph", "padded", "pycuda",
        "pycuda-fused", "pycuda-graph", "reduce-overhead", "strassen", "strassen-accurate", "strassen-one",
        "strassen-training", "streams", "triton-graph"), "CUDA"),
}  # fmt: skip
"""What the usual implementations need on a GPU."""


@dataclass(frozen=True)
class Variant:
    """One way of running the work: what is run, on which device, by which timer, and the line that shows it.

    Variants with the same `work` are timed on one and the same workload, its memory included. `prepare_s` is about what
    its preparation takes beside its inputs (a compiler's seconds), for the plan of a recording. With `isolated` it may
    end its process: a recording measures its points, with all their variants, in a process each.

    `field`, `line`, `line_label` and `shown` tell of its line what is not as usual: which of the six times, its name,
    its label, whether it is drawn before anyone asks. `stands_in_for` names the lines in whose place it is shown, and
    read by claims, where there is no GPU. `operation` and `implementation` say what runs, `needs` which GPUs
    can (HAVE); by default any that torch knows. `device` is "cuda" for all of them.
    """

    name: str
    label: str
    device: DeviceKind = CUDA
    timer: str = "measure"
    cache: Cache = "hot"
    work: str = ""
    prepare_s: float = 0.0
    isolated: bool = False
    implementation: str = ""
    operation: str = ""
    field: Field | None = None
    line: str = ""
    line_label: str = ""
    shown: bool = True
    stands_in_for: tuple[str, ...] = ()
    needs: str = ""

    def __post_init__(self) -> None:
        # of its only variant the name will do
        object.__setattr__(self, "implementation", self.implementation or self.name)
        if self.on_gpu:
            object.__setattr__(self, "needs", self.needs or NEEDS.get(self.implementation, ""))

    @classmethod
    def twin(cls, of: str, device: DeviceKind, label: str, **told: Any) -> Variant:
        """What does on a CPU, or on the CPU queue, what the variant of that name does, and stands in for its line.

        >>> Variant.twin("fused-mul", "cpu-queue", "in one pass").its_line("busy_s").name
        'queue fused mul'

        `told` are further fields of it; `implementation` and `stands_in_for` only where the name does not tell them.
        """
        usual = {"implementation": of, "stands_in_for": (of.replace("-", " "),)}
        return cls(f"{'queue' if is_queue(device) else 'cpu'}-{of}", label, device, **{**usual, **told})

    @property
    def on_gpu(self) -> bool:
        """Whether it runs on the GPU."""
        return is_gpu(self.device)

    @property
    def processor(self) -> Processor:
        """Where its tensors lie: the CPU queue's lie on the CPU, the GPU's on the accelerator that is here."""
        return accelerator() if self.on_gpu else tensors_on(self.device)

    def its_line(self, field: Field, on: DeviceKind = "") -> Line:
        """The line that shows it in an experiment whose lines show `field`; `on` tells another kind of GPU than CUDA's.

        >>> Variant("cpu-fused", "in one pass", "cpu", stands_in_for=("fused",)).its_line("busy_s")
        Line(name='cpu fused', variant='cpu-fused', field='period_s', label='in one pass', shown=True, \
stands_in_for=('fused',))
        """
        kind = "" if is_cpu(self.device) else "yours" if self.device == WEBGPU else "queue"
        twin = f"{kind} {self.stands_in_for[0]}" if self.stands_in_for and kind else self.name.replace("-", " ")
        shows = self.field or ELSEWHERE.get(on or self.device, BY_A_LOOP).get(field, field)
        return Line(self.line or twin, self.name, shows, self.line_label or self.label, self.shown, self.stands_in_for)


@dataclass(frozen=True)
class Line:
    """One line of the figure: one of the six times of one variant. Several lines may show one variant.

    `stands_in_for` names the lines in whose place it is shown, and read by claims, where there is no GPU.
    """

    name: str
    variant: str
    field: Field
    label: str
    shown: bool = True
    stands_in_for: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.field not in FIELDS:
            raise ArgumentError("Line", "field", self.field, f"one of {', '.join(FIELDS)}")


def stand_in(name: str, variant: str, field: Field, label: str, shown: bool = True) -> Line:
    """The line that stands in for another one where there is no GPU.

    >>> stand_in("cpu", "queue", "host_s", "CPU queue").stands_in_for
    ('cpu',)
    """
    kind = "yours" if variant.startswith("webgpu") else "queue"
    return Line(f"{kind} {name}", variant, field, label, shown, (name,))


@dataclass(frozen=True)
class Rate:
    """What a time is turned into where a rate is shown: an amount over the time, in `unit`.

    The amount is "bytes" or "flop" of the variant's `Cost`, or the value of the axis of that name.

    >>> Rate("bytes", "B/s", "bandwidth").unit
    'B/s'
    """

    of: str
    unit: str
    label: str


@dataclass(frozen=True)
class Guide:
    """A theoretical line, drawn dashed with its kind as a label: a datasheet's limit, or what a formula predicts.

    `at` takes the datasheet (None where there is none) and a point, and returns the height in the unit of the view that
    it belongs to (seconds, the experiment's rate, or a ratio); None where the line does not apply. `lines` names the
    lines that a limit bounds, where it does not bound all of them.
    """

    name: str
    label: str
    kind: Literal["PREDICTED", "DATASHEET"]
    view: GuideView
    at: Callable[[Hardware | None, Point], float | None]
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class PredictedRun:
    """What `brrr.predict` needs to know of a variant at a point: its cost, operator by operator, and how it is run.

    A cost without operators counts as one kernel, its arithmetic at the best rate of `dtype`.
    """

    cost: Cost
    how: Literal["eager", "graph", "compiled"] = "eager"
    dtype: str = "float32"


Function = Callable[..., Any]
Run = Callable[[], Any]
"""What is timed: a call that returns its result."""

UNTOLD = Cost(0.0, 0.0)
OUT_OF_MEMORY = "out of memory"
"""The flag of a measurement of memory that did not fit: its bytes are what it held and what it asked for in vain."""


@dataclass(frozen=True)
class Workload:
    """What a variant becomes at one point on one device: a callable, and a check of its result.

    `error` takes the callable's result and returns ||result - reference|| / ||reference||, the reference in higher
    precision and on fresh random input. `close` frees what `run` holds; `others` holds what single timers need beside
    `run`, by name (`with_transfers`, `measured`), and `peak_bytes`, which measures the memory of a call.

    The rest is told only where it is not as usual: the experiment fills in `cost`, what waits for a GPU, and the queue
    to which a CPU queue's `run` goes as one order. With `warm`, a GPU calls `run` once beforehand: what happens once
    (loading, choosing) is no part of a call.
    """

    run: Run
    error: Callable[[Any], float]
    tolerance: float
    cost: Cost = UNTOLD
    synchronize: Callable[[], None] | None = None
    close: Callable[[], None] = lambda: None
    queue: Any = None
    others: Mapping[str, Callable[[], Any]] = dataclasses.field(default_factory=dict)
    warm: bool = False

    @classmethod
    def in_orders(
        cls, orders: Sequence[Run], result: Any, error: Callable[[Any], float], tolerance: float, held: object = None
    ) -> Workload:
        """Orders to a CPU queue of their own, one after the other, which leave `result` behind, on what is `held`.

        >>> kept = []
        >>> toy = Workload.in_orders([lambda: kept.append(1)] * 3, kept, lambda found: abs(len(found) - 3), 0.0)
        >>> toy.check()
        0
        >>> toy.close()
        """
        queue = CpuQueue()

        def run(kept: object = held) -> Any:
            for order in orders:
                queue.submit(order)
            return result

        return cls(run, error, tolerance, synchronize=queue.synchronize, close=queue.close, queue=queue)

    def queued(self) -> Workload:
        """The same work and check as one order to a queue of its own; `kernel_s` is then the work's own time.

        >>> toy = Workload(lambda: 3, lambda result: abs(result - 3), 0.0).queued()
        >>> toy.check()
        0
        >>> toy.close()
        """
        kept = dict[str, Any]()

        def order() -> None:
            kept["result"] = self.run()

        made = self.in_orders([order], kept, lambda found: self.error(found.get("result")), self.tolerance)

        def close() -> None:
            made.close()
            self.close()

        return dataclasses.replace(made, cost=self.cost, close=close)

    def check(self) -> float:
        """Run once and return the relative error; WrongResultError above the tolerance, and for NaN."""
        result = self.run()
        if self.synchronize is not None:
            self.synchronize()
        return self.verified(result)

    def verified(self, result: Any) -> float:
        """The relative error of a result that is there; WrongResultError above the tolerance, and for NaN."""
        error = self.error(result)
        if not error <= self.tolerance:
            raise WrongResultError(
                f"Workload.verified: the relative error is {error:.3g}; expected at most {self.tolerance:.3g}. "
                "No time is shown for a result that is wrong."
            )
        return error


ROLES = {"supports": "supports", "cost": "cost", "predicts": "predicted", "settle": "settle_s"}
"""What an experiment does by functions of its own, and what its folder calls them."""


@dataclass(frozen=True)
class Experiment:
    """What is measured: a question, its axes (the sliders), its variants (what runs), and its lines (what is drawn).

    >>> from brrr_course.experiments import experiment
    >>> matmul = experiment("matmul")
    >>> [axis.name for axis in matmul.axes], matmul.point(size=4096)
    (['size'], {'size': 4096})

    It is a description only: making it loads no torch.

    Parameters
    ----------
    name : str
        Its name, as `explore` takes it; by default that of its module.
    title, question : str
        The title of its figures, and the question that they answer.
    axes : tuple of Axis
        At most three of them get sliders.
    variants : tuple of Variant
        What it compares: implementations, timers, devices.
    lines : tuple of Line
        What is drawn. With `field` each variant has its own line already, and these come on top.
    field : str, optional
        The time that the variants' lines show; "period_s" where neither it nor a line is told.
    package : str
        The experiment's module (`__name__`). Its function `workload` makes a `Workload` of a variant and a point, and
        the expressions of its claims may call its other functions. Functions named `supports`, `cost`, `predicted` or
        `settle_s` that stand before the experiment need not be passed as arguments (ROLES).
    supports : callable, optional
        Whether a variant exists at a point, as far as no axis ends before. By default all do.
    anchors : tuple of mapping
        Points that are measured again in each run of a recording, to see a drift.
    cost : callable, optional
        A variant's `Cost` at a point, without allocating anything; used to plan a recording.
    rate : Rate, optional
        What may be shown per second, such as bytes.
    other_rates : tuple of Rate
        Further rates that it may be shown as.
    guides : tuple of Guide
        Theoretical lines.
    traces : tuple
        The variants and points of which a timeline is recorded.
    settle : callable, optional
        The seconds that a variant runs unmeasured before its samples, until the clock has settled.
    predicts : callable, optional
        A variant's `PredictedRun` at a point; None where no time is predicted.
    names_kernels : bool or tuple of str
        Whether measurements also note which kernels were launched; a tuple names the variants for which they do.
    resident : bool
        Whether inputs are generated on the GPU and stay there; used to plan a recording.
    devices : int
        How many devices of its kind a call takes, each with a process of its own.
    needs : str
        What its variants for the GPU need (HAVE), where they do not say it themselves.
    """

    name: str = dataclasses.field(default="", kw_only=True)
    title: str
    question: str
    axes: tuple[Axis, ...]
    variants: tuple[Variant, ...]
    lines: tuple[Line, ...] = ()
    field: Field | None = None
    package: str = ""
    supports: Callable[[Variant, Point], bool] | None = None
    anchors: tuple[Mapping[str, Value], ...] = ()
    cost: Callable[[Variant, Point], Cost | None] | None = None
    rate: Rate | None = None
    other_rates: tuple[Rate, ...] = ()
    guides: tuple[Guide, ...] = ()
    traces: tuple[tuple[str, Mapping[str, Value]], ...] = ()
    settle: Callable[[Point], float] | None = None
    predicts: Callable[[Variant, Point], PredictedRun | None] | None = None
    names_kernels: bool | tuple[str, ...] = False
    resident: bool = False
    devices: int = 1
    needs: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.package.rpartition(".")[2])
        for field, role in ROLES.items() if self.package else ():
            if getattr(self, field) is None:
                object.__setattr__(self, field, getattr(sys.modules.get(self.package), role, None))
        if self.field is None and not self.lines:
            object.__setattr__(self, "field", "period_s")
        found = () if self.field is None else tuple(each.its_line(self.field) for each in self.variants)
        own = [line for line in found if line.name not in {each.name for each in self.lines}]  # by name: `replace`
        first, last = ([line for line in own if bool(line.stands_in_for) == late] for late in (False, True))
        object.__setattr__(self, "lines", (*first, *self.lines, *last))

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """What is claimed of it in data/claims.toml."""
        return claims_of(self.name, self.package)

    def named(self, device: str, kind: DeviceKind) -> str:
        """The devices that a call takes, as a badge names them; on a CPU they are processes.

        >>> Experiment("", "", (), (), devices=2).named("NVIDIA H100", CUDA)
        '2 x NVIDIA H100'
        """
        of = f"{self.devices} x " if has_gpu(kind) else f"{self.devices} processes on "
        return f"{of if self.devices > 1 else ''}{device}"

    def axis(self, name: str) -> Axis:
        """The axis of that name; ArgumentError with the names that exist."""
        return next((a for a in self.axes if a.name == name), None) or self._unknown("axis", name, self.axes)

    def variant(self, name: str) -> Variant:
        """The variant of that name; ArgumentError with the names that exist."""
        return next((v for v in self.variants if v.name == name), None) or self._unknown("variant", name, self.variants)

    def variants_on(self, kind: DeviceKind) -> tuple[str, ...]:
        """Those that a machine runs: the CPU's, and the GPU's or, without one, the CPU queue's; or a browser's."""
        return tuple(each.name for each in self.variants if not self.lacks(each, kind))

    def lacks(self, variant: Variant, kind: DeviceKind) -> str:
        """What a variant needs that a machine of this kind has not; nothing where it runs.

        >>> from brrr_course.experiments import experiment
        >>> cos_cos = experiment("cos_cos")
        >>> [cos_cos.lacks(cos_cos.variant("triton"), kind) for kind in ("xpu", "mps", "cpu")]
        ['', 'Triton', 'another device']
        """
        there = (WEBGPU,) if kind == WEBGPU else ("cpu", CUDA if has_gpu(kind) else "cpu-queue")
        if variant.device not in there:
            return "another device"
        needs = (variant.needs or self.needs or "CUDA" * (self.devices > 1)) if variant.on_gpu else ""
        return "" if kind in HAVE.get(needs, (kind,)) else needs

    def on(self, kind: DeviceKind) -> Experiment:
        """The experiment with the times that its lines show of a machine of this kind.

        >>> from brrr_course.experiments import experiment
        >>> [experiment("unary").on(kind).line("relu").field for kind in ("cuda", "mps")]
        ['busy_s', 'period_s']
        """
        return self._by_a_loop if has_gpu(kind) and not is_cuda(kind) else self

    @cached_property
    def _by_a_loop(self) -> Experiment:
        """With the time of a loop in the variants' own lines; one that names another time itself shows no other."""
        field = self.field or "period_s"
        moved = {each.its_line(field): each.its_line(field, ROCM) for each in self.variants if each.on_gpu}
        return dataclasses.replace(self, lines=tuple(moved.get(line, line) for line in self.lines))

    def line(self, name: str) -> Line:
        """The line of that name; ArgumentError with the names that exist."""
        return next((x for x in self.lines if x.name == name), None) or self._unknown("line", name, self.lines)

    def in_browser(self, names: Collection[str]) -> list[Line]:
        """The lines of what a browser measures of its reader's GPU that stand beside any of these."""
        return [x for x in self.lines if {*x.stands_in_for} & {*names} and self.variant(x.variant).device == WEBGPU]

    def stands_for(self, variant: str) -> tuple[str, ...]:
        """The variants for which this one stands in where there is no GPU."""
        own = [line for line in self.lines if line.variant == variant]
        return tuple(dict.fromkeys(self.line(name).variant for line in own for name in line.stands_in_for))

    def available(self, name: str, variants: Collection[str]) -> Line | None:
        """The line of that name if its variant is among the given ones, else one that stands in for it.

        Nothing stands in where one of them runs on a GPU.
        """
        line = self.line(name)
        if line.variant in variants or any(self.variant(each).on_gpu for each in variants):
            return line if line.variant in variants else None
        return next((each for each in self.lines if name in each.stands_in_for and each.variant in variants), None)

    def point(self, **at: Value) -> dict[str, Value]:
        """A full, valid point: a value for every axis, each checked."""
        for name in at:
            self.axis(name)
        for axis in self.axes:
            if axis.name not in at:
                raise ArgumentError(f"{self.name}.point", axis.name, None, f"a value, as {axis.values[0]!r}")
        return {axis.name: axis.checked(f"{self.name}.point", at[axis.name]) for axis in self.axes}

    def place(self, point: Point, but: str = "") -> str:
        """A point in words, the numbers first; without one of the axes, where it is named.

        >>> from brrr_course.experiments import experiment
        >>> experiment("block").place({"step": "forward", "width": 256, "batch": 1})
        'width 256, batch 1, forward'
        """
        told = sorted(point.items(), key=lambda at: isinstance(at[1], str))
        return ", ".join(self.axis(name).says(value) for name, value in told if name != but)

    def points(self, *, quick: bool = False) -> Iterator[dict[str, Value]]:
        """All points of the grid, or of the small grid that `BRRR_QUICK=1` asks for."""
        grids = [axis.quick or axis.values if quick else axis.values for axis in self.axes]
        for values in product(*grids):
            yield dict(zip((axis.name for axis in self.axes), values, strict=True))

    def distance(self, one: Point, other: Point) -> float:
        """How far two points are apart, all axes together: see `Axis.distance`."""
        return sum(axis.distance(one[axis.name], other[axis.name]) for axis in self.axes)

    def workload(self, variant: str, point: Point) -> Workload:
        """The workload of a variant at a point (this loads torch or numpy)."""
        return self.made(self.variant(variant), self.point(**point))

    def made(self, variant: Variant, point: Point) -> Workload:
        """The same of a variant that the experiment need not have; what its module does not tell is filled in."""
        if variant.on_gpu:
            import_module("torch")  # which tells what accelerator is here
        made: Workload = import_module(self.package).workload(variant, point)
        if made.cost is UNTOLD and self.cost:
            made = dataclasses.replace(made, cost=self.cost(variant, point) or UNTOLD)
        if is_queue(variant.device) and made.queue is None:
            return made.queued()
        if variant.on_gpu and self.devices == 1:
            wait = waiting(variant.processor)
            made = dataclasses.replace(made, synchronize=made.synchronize or wait)
            if made.warm and wait:
                made.run()
                wait()
        return made

    def _unknown(self, what: str, name: str, among: Sequence[Axis | Variant | Line]) -> NoReturn:
        names = ", ".join(item.name for item in among)
        raise ArgumentError(f"experiment {self.name!r}", what, name, f"one of {names}")

    def has(self, variant: str, point: Point) -> bool:
        """Whether the variant exists at the point. One on the CPU may stop at a size that would take too long."""
        found = self.variant(variant)
        if any(axis.most and float(point[axis.name]) > axis.most.get(found.device, inf) for axis in self.axes):
            return False
        return self.supports is None or self.supports(found, point)

    def cost_at(self, variant: str, point: Point) -> Cost | None:
        """FLOP and bytes of a variant at a point; None if the experiment cannot tell without running it."""
        return None if self.cost is None else self.cost(self.variant(variant), point)

    def settle_s(self, point: Point) -> float:
        """The seconds that a variant runs unmeasured before its samples at a point."""
        return 0.0 if self.settle is None else self.settle(point)

    def rate_of(self, amount: str = "") -> Rate | None:
        """The rate of that name, by default the first one; None if the experiment has none."""
        rates = [rate for rate in (self.rate, *self.other_rates) if rate is not None]
        return next((rate for rate in rates if amount in ("", rate.of)), None)

    def predicted_run(self, variant: str, point: Point) -> PredictedRun | None:
        """What is predicted for a variant at a point. Nothing runs, and torch is not loaded.

        Without `predicts` it is the variant's cost as one kernel; None if there is nothing to predict from.
        """
        if self.predicts is not None:
            return self.predicts(self.variant(variant), point)
        cost = self.cost_at(variant, point)
        return None if cost is None else PredictedRun(cost)
