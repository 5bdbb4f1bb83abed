"""The textbook network, `layers` times (Linear, ReLU): what is left of PyTorch's time if the overhead goes?

The grid and the first claims follow the first two experiments of "GPU Overheads and Fused Strassen" (a GTX 1070,
PyTorch 1.7.1); the other ways of running the network, down to one kernel for all of it, are this course's own.
"""

from brrr.core.measurement import Field, Point
from brrr_course.experiments.mlp.theory import cost, floor_s, predicted, sizes
from brrr_course.nouns.experiment import Axis, Experiment, Guide, Line, Variant

LAYERS = (1, 2, 4, 8)
BATCHES = (2, 4, 8, 16, 32, 64, 128)
HIDDEN = (128, 256, 512, 1024, 2048, 4096)
LARGE = ((2048, 2048), (2048, 4096), (4096, 2048), (4096, 4096))
"""Batch and hidden of the points beyond the source's grid, of 8 layers."""

WHOLE = ("module", "pycuda", "pycuda-fused", "graph", "pycuda-graph", "megakernel", "megakernel-graph", "best")
"""Ways on the whole grid: the source's own three first."""

BETWEEN = ("functional", "inference", "script", "epilogue", "epilogue-graph", "triton", "triton-graph")
BETWEEN_LAYERS, BETWEEN_BATCHES = (1, 8), (2, 16, 128)

TUNED = ((1, 2, 128), (1, 128, 4096))
"""Layers, batch and hidden where torch.compile tries out kernels (max-autotune), beside all points of 8 layers."""

COMPILE_S, TUNE_S, CHOOSE_S = 6.0, 30.0, 1.0
"""About what torch.compile takes at a point, in seconds, without and with trying out; and best() to choose."""

STRASSEN = ("strassen", "strassen-accurate", "strassen-one")
"""`StrassenMLP`: chosen among float32 products, among all as accurate, and one level in every layer, as the source."""

CHOSEN = STRASSEN[:2]
"""On the whole grid, as `best` is."""

TRAINING = "training", "strassen-training"
"""Forward and all gradients, by `nn.Sequential` and by `StrassenMLP` with the source's one level: large sizes alone."""

LARGE_WAYS = (*TRAINING, "module", "graph", "max-autotune", "best", *STRASSEN)
"""Ways measured beyond the source's grid, where batch and hidden size are large."""

SETTLE_S = 0.1

CPU_WAYS = ("module", "functional", "inference", "script", "numpy", "best")
CPU_WEIGHTS, CPU_FLOP = 2**23, 3e8
"""The CPU stops at so many weights, or FLOP a call; it has the points between."""
CPU_COMPILED = ((8, 16, 128), (8, 16, 512))

LABELS = {
    "module": "nn.Sequential", "functional": "functions, no modules", "inference": "inference_mode",
    "script": "TorchScript", "compile": "torch.compile", "max-autotune": "torch.compile, max-autotune",
    "graph": "CUDA Graph of nn.Sequential", "pycuda": "PyCUDA, three kernels a layer",
    "pycuda-fused": "PyCUDA, two kernels a layer", "pycuda-graph": "PyCUDA, two kernels a layer, CUDA Graph",
    "epilogue": "bias and ReLU in cuBLASLt's product",
    "epilogue-graph": "bias and ReLU in cuBLASLt's product, CUDA Graph", "triton": "bias and ReLU in Triton's product",
    "triton-graph": "bias and ReLU in Triton's product, CUDA Graph", "megakernel": "one kernel for all layers",
    "megakernel-graph": "one kernel for all layers, CUDA Graph", "best": "best(), the fastest here",
    "numpy": "NumPy, three calls a layer", "strassen": "StrassenMLP without tensor cores, CUDA Graph",
    "strassen-accurate": "StrassenMLP as accurate as float32, CUDA Graph",
    "strassen-one": "fused Strassen, one level in every layer", "training": "nn.Sequential, with its gradients",
    "strassen-training": "fused Strassen, one level, with its gradients",
}  # fmt: skip
QUEUE_LABELS = {
    "module": "two launches a layer", "pycuda": "three launches a layer",
    "pycuda-fused": "two launches a layer, bias + ReLU", "graph": "one launch for all layers",
}  # fmt: skip


def supports(variant: Variant, point: Point) -> bool:
    """Which way is measured where; see the tables above."""
    layers, batch, hidden = sizes(point)
    way, here = variant.way, (layers, batch, hidden)
    if not variant.on_gpu:
        return here in CPU_COMPILED if way == "compile" else _on_cpu(layers, batch, hidden)
    if (batch, hidden) in LARGE:
        return way in LARGE_WAYS and layers == max(LAYERS)
    if way in TRAINING:
        return False
    if way == "strassen-one":
        return layers == max(LAYERS)
    if way == "max-autotune":
        return layers == max(LAYERS) or here in TUNED
    if way == "compile":
        return here in TUNED or (layers == max(LAYERS) and batch in BETWEEN_BATCHES)
    return way in (*WHOLE, *CHOSEN) or (layers in BETWEEN_LAYERS and batch in BETWEEN_BATCHES) or here in TUNED


def settle_s(point: Point) -> float:
    """How long a way runs unmeasured before its samples: where batch and hidden size are large, power pulls the clock.

    >>> settle_s({"layers": 8, "batch": 128, "hidden": 4096}), settle_s({"layers": 8, "batch": 4096, "hidden": 4096})
    (0.0, 0.1)
    """
    return SETTLE_S if sizes(point)[1:] in LARGE else 0.0


def _on_cpu(layers: int, batch: int, hidden: int) -> bool:
    weights = layers * hidden * hidden
    if layers not in BETWEEN_LAYERS or batch not in BETWEEN_BATCHES:
        return False
    return weights <= CPU_WEIGHTS and 2 * batch * weights <= CPU_FLOP


def _variant(way: str) -> Variant:
    seconds = {"compile": COMPILE_S, "max-autotune": TUNE_S, "best": CHOOSE_S}.get(way, 0.0)
    return Variant(way, LABELS[way], "cuda", prepare_s=seconds, apart=way == "max-autotune", shown=way in SHOWN)


ORDER = (
    "module", "functional", "inference", "script", "compile", "max-autotune", "pycuda", "pycuda-fused", "graph",
    "pycuda-graph", "epilogue", "epilogue-graph", "triton", "triton-graph", "megakernel", "megakernel-graph", "best",
)  # fmt: skip
SHOWN = ("module", "graph", "pycuda", "pycuda-fused", "megakernel", "best")

VARIANTS = (
    *(_variant(way) for way in (*ORDER, *STRASSEN, *TRAINING)),
    *(Variant(f"cpu-{way}", f"CPU, {LABELS[way]}", "cpu", way=way, shown=way not in ("inference", "best"))
      for way in CPU_WAYS),
    Variant("cpu-compile", f"CPU, {LABELS['compile']}", "cpu", prepare_s=COMPILE_S, way="compile", shown=False),
    *(Variant(f"queue-{way}", label, "cpu-queue", way=way, stands_in_for=way.replace("-", " "))
      for way, label in QUEUE_LABELS.items()),
)  # fmt: skip

OTHER_TIMES: tuple[tuple[Field, str, str, tuple[str, ...]], ...] = (
    ("host_s", "host", "the host's time", ("module", "functional", "pycuda", "pycuda-fused")),
    ("span_s", "span", "the GPU's own time", (
        "module", "graph", "pycuda-graph", "triton-graph", "megakernel", "megakernel-graph", "max-autotune",
        "pycuda-fused", *STRASSEN)),
    ("latency_s", "latency", "one call and its wait", (
        "module", "graph", "max-autotune", "megakernel", "megakernel-graph", "best")),
)  # fmt: skip
"""For claims and ladders: another time of some ways, the name and label of its line."""


FLOORED = ("megakernel", "megakernel graph", "best")
"""Lines that come near enough to the floor for it to be drawn; a ladder of others alone keeps its linear scale."""

TRACED_HIDDEN = (128, 512, 1024, 4096)
TRACED = ("module", "graph", "pycuda", "pycuda-fused", "megakernel")

EXPERIMENT = Experiment(
    title="The textbook network",
    question="What is left of PyTorch's time if the overhead goes?",
    axes=(
        Axis("layers", LAYERS, label="layers (Linear, ReLU)", quick=(1, 8)),
        Axis("batch", BATCHES, label="batch (rows)", quick=(2, 16)),
        Axis("hidden", HIDDEN, label="hidden size", quick=(128, 512)),
    ),
    variants=VARIANTS,
    field="period_s",
    lines=tuple(
        Line(f"{way.replace('-', ' ')} {suffix}", way, field, f"{LABELS[way]}, {note}", shown=False)
        for field, suffix, note, ways in OTHER_TIMES for way in ways
    ),
    package=__name__,
    cost=cost,
    predicts=predicted,
    anchors=({"layers": 8, "batch": 16, "hidden": 256}, {"layers": 8, "batch": 128, "hidden": 2048}),
    guides=(
        Guide("floor", "the floor: weights from the memory, or FLOP", "DATASHEET", "time", floor_s,
              FLOORED),
    ),
    traces=(
        *((way, {"layers": 8, "batch": 16, "hidden": hidden}) for way in TRACED for hidden in TRACED_HIDDEN),
        *((f"queue-{way}", {"layers": 8, "batch": 16, "hidden": 128}) for way in QUEUE_LABELS),
    ),
)  # fmt: skip
