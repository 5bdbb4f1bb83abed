"""A recurrent layer whose weights stay on the chip: what does one time step take?

One layer, as many inputs as hidden units. Its questions and some claims follow "Persistent RNNs" (2016), whose kernel
kept the recurrent weights in registers for all time steps; the ways beside it are those that PyTorch offers today. A
step's time is a slope: a longer sequence's time less a shorter one's, so that what happens once a call drops out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Point
from brrr.counting.cost import ITEMSIZE, Cost
from brrr.gpu import is_gpu
from brrr.gpu.precision import float32_recurrence
from brrr.networks.recurrent import precise, rung
from brrr.roofline.device_model import model_of
from brrr.roofline.figures import level_rate
from brrr.roofline.peaks import short
from brrr.roofline.persistent import Step
from brrr.running.graphs import capture
from brrr_course.experiments.checked import PointInputs, must_fit, peak_bytes_of, relative, worst
from brrr_course.experiments.lazily import f, torch
from brrr_course.experiments.predicted import unpredicted
from brrr_course.nouns.experiment import Axis, Experiment, Rate, Run, Variant, Workload, lies_on
from brrr_course.nouns.expression import Table, fastest, pointwise
from brrr_course.nouns.source import Evidence

# ---------------------------------------------------------------------------------------------------------------------
# A time step's time from a recording: the slope over the sequence's length, and the best of cuDNN's ways.

SHORT, LONG, MAIN = 64, 256, 1024
"""Time steps between which the slope is taken; the hidden size at which most is measured."""
CUDNN = ("cudnn", "cudnn-pad8", "cudnn-pad16", "cudnn-graph", "cudnn-pad8-graph", "cudnn-pad16-graph")
At = dict[str, Any]


def place(cell: str = "rnn_tanh", dtype: str = "float32", batch: int = 1, hidden: int = MAIN) -> At:
    """Where a step is asked for."""
    return {"batch": batch, "hidden": hidden, "cell": cell, "dtype": dtype}


def step(evidence: Evidence, variant: str, *, short: int = SHORT, long: int = LONG, **at: Any) -> Any:
    """Seconds of a step: what the longer sequence takes more, by the steps that it has more.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources.recorded import Recorded
    >>> evidence = Evidence(experiment("rnn"), Recorded("h200"))
    >>> print(step(evidence, "persistent", **place()))
    888 ns (886 to 891 ns, n=128)

    A table over the axes that `at` leaves open; NotRecordedError where it leaves none and the step was not measured.
    By the device's own time; in a loop where a call launches more than the queue holds, which no gate can wait for.
    """
    found: dict[Any, Estimate] = {}
    for column in ("period_s", "span_s"):  # the device's own time replaces a loop's
        less, more = (evidence.table(variant, column, {**at, "steps": steps}) for steps in (short, long))
        found |= pointwise(lambda less, more: (more - less) / float(long - short), less, more).values
    if less.axes:
        return Table(less.axes, found)
    if () not in found:
        raise NotRecordedError(f"a step of {variant} at {', '.join(map(str, at.values()))} was not measured")
    return found[()]


CELLS = ("rnn_tanh", "rnn_relu", "lstm")
DTYPES = ("float32", "float16", "bfloat16")
BATCHES = (1, 2, 3, 4, 8, 16, 24, 32, 64, 96, 128)
HIDDEN = (32, 256, 512, 768, MAIN, 1152, 1280, 1536, 1792, 2048, 2560)
"""At 32 there is next to nothing to compute: a step is the exchange."""
STEPS = (SHORT, LONG, 1024)

SIZES = {
    ("rnn_tanh", "float32"): (256, 512, 768, 1152, 1280, 1536, 1792, 2048),
    ("lstm", "float32"): (256, 512, 768, 1152, 1280, 1536),
    ("rnn_tanh", "float16"): (512, 768, 1152, 1280, 2048, 2560),
    ("lstm", "float16"): (512, 768, 1152, 1280, 2048),
}
"""Beside MAIN; each size and batch is one more plan, whose first call compiles and tries several kernels."""
OTHERS = {("rnn_relu", "float32"): (1, 64), ("rnn_tanh", "bfloat16"): (1, 16, 64), ("lstm", "bfloat16"): (1, 16, 64)}
"""Batches of what is only compared with another cell or type, at MAIN; no other ReLU and no other bfloat16."""
TWO: At = {"cell": ("rnn_tanh", "lstm"), "dtype": ("float32", "float16"), "steps": STEPS[:2], "hidden": (MAIN,)}
IN_FLOAT32: At = {**TWO, "dtype": ("float32",)}
GRID: tuple[At, ...] = (
    {**TWO, "batch": BATCHES}, {**TWO, "hidden": HIDDEN[:1], "batch": (1,)},
    *({**TWO, "cell": (c,), "dtype": (d,), "hidden": sizes, "batch": (1, 64)} for (c, d), sizes in SIZES.items()),
    *({**TWO, "cell": (c,), "dtype": (d,), "batch": batches} for (c, d), batches in OTHERS.items()),
    {**IN_FLOAT32, "hidden": (1152,), "batch": (3, 4, 24, 96)}, {**IN_FLOAT32, "steps": STEPS[2:], "batch": (1, 4, 64)},
)  # fmt: skip
"""The lines through the grid on which ours and cuDNN are measured."""
LOOPED, CHOSEN = {**TWO, "batch": (1, 2, 3, 4, 8, 16, 64)}, {**TWO, "batch": (1, 4, 16, 64)}
"""Where a loop is, and where training and cuDNN in a CUDA Graph are."""
CPU_GRID: tuple[At, ...] = (
    {**IN_FLOAT32, "hidden": (32, 256, 512), "batch": (1, 4, 16)}, {**IN_FLOAT32, "cell": CELLS[:1], "batch": (1,)},
)  # fmt: skip
PADDED = {"cudnn-pad8": 8, "cudnn-pad16": 16}
"""To a multiple of what cuDNN's batch is padded."""


def supports(variant: Variant, point: Point) -> bool:
    """Which way is measured at which point."""
    name = variant.implementation
    if not variant.on_gpu:
        return any(lies_on(point, line) for line in CPU_GRID)
    whole = PADDED.get(name.removesuffix("-graph"), 0)
    if whole and (point["dtype"] == "float32" or int(point["batch"]) % whole == 0 or point["hidden"] == HIDDEN[0]):
        return False
    if name in ("persistent", "cudnn", *PADDED):
        return any(lies_on(point, line) for line in GRID)
    return lies_on(point, LOOPED if name == "graph" else CHOSEN)


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP of the products, three times as many in training; bytes of input, result and weights, each once."""
    hidden, rows = int(point["hidden"]), int(point["batch"]) * int(point["steps"])
    weights = 2 * hidden**2 * (4 if point["cell"] == "lstm" else 1)
    passes = 3 if variant.operation == "train" else 1
    return Cost(2.0 * weights * rows * passes, float(ITEMSIZE[str(point["dtype"])] * (2 * hidden * rows + weights)))


LABELS = {
    "persistent": "weights kept on the chip", "persistent-graph": "weights kept on the chip, CUDA Graph",
    "cudnn": "cuDNN",
    "cudnn-pad8": "cuDNN, batch padded to 8", "cudnn-pad16": "cuDNN, batch padded to 16",
    "cudnn-graph": "cuDNN in a CUDA Graph", "cudnn-pad8-graph": "cuDNN, batch padded to 8, in a CUDA Graph",
    "cudnn-pad16-graph": "cuDNN, batch padded to 16, in a CUDA Graph",
    "graph": "a loop of products, CUDA Graph",
    "train-persistent": "training step, weights kept on the chip",
    "train-cudnn": "training step, cuDNN",
}  # fmt: skip
SHOWN = ("persistent", "cudnn", "graph")
TRAINED = ("train-persistent", "train-cudnn")
PREPARE_S = {"persistent": 1.3, "persistent-graph": 1.3, "train-persistent": 2.6}
"""About what choosing a plan takes where its kernels are not compiled yet, spread over its points."""


EXPERIMENT = Experiment(
    title="A recurrent layer that stays on the chip",
    question="What does one time step take?",
    axes=(
        Axis("batch", BATCHES, label="mini-batch", quick=(1, 4)),
        Axis("hidden", HIDDEN, label="hidden size", quick=(32, 256), noun="hidden size"),
        Axis("steps", STEPS, label="time steps", quick=(SHORT, LONG)),
        Axis("cell", CELLS, label="cell", scale="category", quick=("rnn_tanh",)),
        Axis("dtype", DTYPES, label="type", scale="category", quick=("float32",)),
    ),
    variants=(
        *(Variant(name, label, prepare_s=PREPARE_S.get(name, 0.0), shown=name in SHOWN,
                  operation="train" if name in TRAINED else "", field="period_s" if name in TRAINED else None)
          for name, label in LABELS.items()),
        Variant("cpu", "PyTorch's layer on the CPU", "cpu", stands_in_for=("cudnn",)),
    ),
    field="span_s",
    package=__name__, needs="CUDA",
    anchors=({"batch": 4, "hidden": MAIN, "steps": LONG, "cell": "rnn_tanh", "dtype": "float32"},),
    predicts=unpredicted,
    rate=Rate("flop", "FLOP/s", "throughput"),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# The floor of a step at a place: the plan's bytes and FLOP, the exchange as it was measured, the device's rates.

PRODUCTS = 3
"""TF32 products that one product in float32's accuracy takes on tensor cores."""
TINY = 32
"""At this hidden size a step is the exchange."""


def floor_of(evidence: Evidence, at: At) -> Step:
    """The floor of a step, with the exchange from the same source and the rates recorded for its device.

    The exchange is a trip of the state to the L2 cache and back, as a step shows it that has next to nothing else to
    do: one of hidden size TINY. The input's product for all steps comes before the first one, so its share of a step is
    added.
    """
    from brrr.kernels.recurrent.plan import plan

    cell, dtype, batch, hidden = str(at["cell"]), str(at["dtype"]), int(at["batch"]), int(at["hidden"])
    made = plan(cell, hidden=hidden, batch=batch, dtype=dtype)
    model = model_of(evidence.datasheet().key)
    if not model.curves:
        raise NotRecordedError(f"no peaks were measured on {model.device}")
    rate = matmul = model.value(f"matmul.{short(dtype)}")
    if dtype == "float32":
        rate = model.value("matmul.tf32") / PRODUCTS if made.tiles else model.value("arithmetic.fp32.fma")
    parts = {
        "exchange": step(evidence, "persistent", **place(cell, dtype, 1, TINY)).median,
        "state": made.state_bytes / level_rate(model.curves["read"], batch * hidden * ITEMSIZE[dtype]),
        "arithmetic": made.flop / rate,
    }
    return Step(parts, serial_s=made.flop / matmul)


# ---------------------------------------------------------------------------------------------------------------------
# What the `rnn` experiment runs: one layer of torch's, its weights shared by all ways of a point.

TOLERANCES = {"float32": 1e-5, "float16": 3e-3, "bfloat16": 3e-2}
"""Of the result after all steps; TF32 (about 3e-4) would be found out among float32."""
TRAINING = 5.0
"""Gradients are sums over all steps, and their errors larger."""

if TYPE_CHECKING:
    Module = torch.nn.RNN | torch.nn.LSTM


def make_module(cell: str, hidden: int, device: str, dtype: torch.dtype, layers: int = 1) -> Module:
    """Layers of as many inputs as hidden units, with torch's own random weights.

    >>> make_module("rnn_relu", 8, "cpu", torch.float32).nonlinearity
    'relu'
    """
    plain = partial(torch.nn.RNN, nonlinearity=cell.removeprefix("rnn_"))
    kind: Any = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}.get(cell, plain)
    made: Module = kind(hidden, hidden, layers, device=device, dtype=dtype).eval()
    return made


class RecurrentInputs(PointInputs):
    """The layers and their input, the gradient that comes from above, and what float64 makes of them."""

    def __init__(
        self, cell: str, hidden: int, batch: int, steps: int, dtype: str, device: str, layers: int = 1
    ) -> None:
        kind, shape = getattr(torch, dtype), (steps, batch, hidden)
        self.module = make_module(cell, hidden, device, kind, layers)
        self.x, self.above = (torch.randn(shape, device=device).to(kind) for _ in range(2))

    @cached_property
    def forward(self) -> tuple[torch.Tensor, ...]:
        """The result in float64, of the weights and the input as they are rounded."""
        with torch.no_grad():
            return (copy.deepcopy(self.module).double()(self.x.double())[0],)

    @cached_property
    def trained(self) -> tuple[torch.Tensor, ...]:
        """The gradients in float64: of the input, then of the weights."""
        wide = copy.deepcopy(self.module).double().train()
        return gradients(wide, wide, self.x.double(), self.above.double())

    def error(self, found: Any, training: bool = False) -> float:
        """The worst relative error of the results; NaN for another number, shape or type of them."""
        expected = self.trained if training else self.forward
        given = found if isinstance(found, tuple) else (found,)
        if len(given) != len(expected):
            return float("nan")
        return worst(relative(one, other, self.x.dtype) for one, other in zip(given, expected, strict=True))


def gradients(net: Any, module: Module, x: torch.Tensor, above: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Forward and backward: the gradients of the input and of the module's parameters."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad(net(leaf)[0], (leaf, *module.parameters()), above)


def workload(variant: Variant, point: Point) -> Workload:
    """The variant's way of running the layer; UnavailableError, with the reason, where it has none here."""
    batch, hidden, steps = (int(point[name]) for name in ("batch", "hidden", "steps"))
    device, training = variant.processor, variant.operation == "train"
    must_fit(8 * int(cost(variant, point).bytes), device, f"a layer of {hidden}, {steps} steps of {batch} samples")
    given = RecurrentInputs.of(str(point["cell"]), hidden, batch, steps, str(point["dtype"]), device)
    run = MAKERS[variant.implementation](given)
    tolerance = TOLERANCES[str(point["dtype"])] * (TRAINING if training else 1.0)
    others = {"peak_bytes": peak_bytes_of(run, device)} if training else {}
    return Workload(run, partial(given.error, training=training), tolerance, others=others, warm=True)


# ---------------------------------------------------------------------------------------------------------------------
# The ways.


def _module(given: RecurrentInputs) -> Run:
    """torch's own layer, which on a GPU is cuDNN's."""
    return precise(lambda: given.module(given.x)[0])


def _padded(given: RecurrentInputs, whole: int) -> Run:
    """The layer on a batch with rows of zeros up to a multiple of `whole`; copying them is part of the time."""
    batch = given.x.shape[1]
    return precise(lambda: given.module(f.pad(given.x, (0, 0, 0, -batch % whole)))[0][:, :batch])


def _loop(given: RecurrentInputs) -> Run:
    """A product for each gate at each step and torch's pointwise kernels."""
    return rung("naive", given.module, given.x)


def _captured(given: RecurrentInputs, make: Callable[[RecurrentInputs], Run]) -> Run:
    """Another way as one CUDA Graph."""
    return capture(make(given)).replay


def persistent(given: RecurrentInputs) -> Run:
    """The weights of the module kept on the chip."""
    from brrr.kernels.recurrent import PersistentRNN

    net = PersistentRNN(given.module, choose=False)
    run: Run = torch.no_grad()(lambda: net(given.x)[0])
    return run


def _train_persistent(given: RecurrentInputs) -> Run:
    from brrr.kernels.recurrent import PersistentRNN

    net = PersistentRNN(given.module, choose=False)
    return lambda: gradients(net, given.module, given.x, given.above)


def _train_cudnn(given: RecurrentInputs) -> Run:
    """cuDNN gives gradients of a module in training mode only, and a layer without dropout computes the same in it."""
    module = copy.deepcopy(given.module).train()
    if is_gpu(given.x.device):
        module.flatten_parameters()  # a copy's weights lie apart: each call would put them together
    run: Run = float32_recurrence()(lambda: gradients(module, module, given.x, given.above))
    return run


MAKERS: dict[str, Callable[[RecurrentInputs], Run]] = {
    "persistent": persistent, "cudnn": _module, **{way: partial(_padded, whole=whole) for way, whole in PADDED.items()},
}  # fmt: skip
MAKERS |= {
    **{f"{way}-graph": partial(_captured, make=make) for way, make in MAKERS.items()},
    "graph": partial(_captured, make=_loop), "cpu": _module,
    "train-persistent": _train_persistent, "train-cudnn": _train_cudnn,
}  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the claims on a recurrent layer whose weights stay on the chip call beside the notation's own functions.


def cudnn(evidence: Evidence, **at: Any) -> Any:
    """A step of cuDNN's fastest way with these numbers, padded or in a CUDA Graph; a table over the axes left open.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources.recorded import Recorded
    >>> evidence = Evidence(experiment("rnn"), Recorded("h200"))
    >>> print(cudnn(evidence, **place("lstm", "float16", 4)))
    2.09 µs (2.09 to 2.09 µs, n=91)
    """
    found = dict.fromkeys(CUDNN, Table((), {}))
    for name in CUDNN:
        with suppress(NotRecordedError):
            found[name] = step(evidence, name, **at)
    return fastest(*found.values(), needed=1)


def floor(evidence: Evidence, **at: Any) -> float:
    """Seconds that a step takes at least.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources.recorded import Recorded
    >>> evidence = Evidence(experiment("rnn"), Recorded("h200"))
    >>> floor(evidence, **place()) < step(evidence, "persistent", **place()).median
    True
    """
    return floor_of(evidence, at).total_s


def held(evidence: Evidence, *, cell: str, dtype: str, hidden: int, batch: int) -> float:
    """The share of a layer's weights that lie in registers, by its plan; nothing is said of kernels that never ran.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources.recorded import Recorded
    >>> evidence = Evidence(experiment("rnn"), Recorded("h200"))
    >>> held(evidence, cell="lstm", dtype="float32", hidden=1024, batch=4)
    0.5
    """
    from brrr.kernels.recurrent.plan import plan

    step(evidence, "persistent", **place(cell, dtype, batch, hidden))
    made = plan(cell, hidden=hidden, batch=batch, dtype=dtype)
    weights = made.flop // 2 // batch * (4 if dtype == "float32" else 2)
    return min(1.0, 4 * made.weight_registers * made.threads * made.group_blocks / weights)
