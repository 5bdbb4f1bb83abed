"""Which ways of multiplying the experiment `strassen` measures, and what its variants' names say.

A variant has the name of its way in `brrr.strassen` (`ffma-strassen-2-prepared`), `auto-fp32` where `matmul` chooses,
`torch-fp16x3` where torch's own calls make a split product; on a CPU with `cpu-` before it.
"""

from __future__ import annotations

from brrr.strassen.ways import WAYS, Way

TORCH = {"torch-fp16x3": 0, "torch-fp16x3-chunks": 1024}
"""Split products of torch's calls: two float16 terms, three products, summed outside after so many of k (0: never)."""

TORCH_LABELS = {
    "torch-fp16x3": "two float16 terms, 3 torch products",
    "torch-fp16x3-chunks": "two float16 terms, torch products of 1024 each",
}

CHOSEN = ("fp32", "1e-5", "tf32", "bf16")
"""The accuracies that `matmul` is asked for: of a classical product by its name, or a number."""

CPU = "cpu-"


def _levels(inner: str, *levels: int, form: str = "strassen", prepared: bool = False) -> tuple[Way, ...]:
    return tuple(Way(inner, level, form, prepared) for level in levels)


FP32 = (
    *_levels("sgemm", 0, 1, 2, 3, 4),
    *_levels("sgemm", 1, 2, 3, 4, prepared=True),
    *_levels("ffma", 0, 3),
    *_levels("ffma", 1, 2, 3, 4, prepared=True),
    *_levels("ffma", 1, 2, 3, form="winograd", prepared=True),
)
"""Without tensor cores, where Strassen's algorithm is the only way to go faster."""

SHORT = (
    *_levels("tf32", 0, 1, 2), *_levels("tf32", 1, 2, prepared=True),
    *_levels("bf16", 0, 1, 2, 3), *_levels("bf16", 1, 2, 3, prepared=True),
    *_levels("fp16", 0), *_levels("fp16", 1, prepared=True),
    *_levels("fp8", 0),
)  # fmt: skip
SPLIT = (*_levels("fp16x3", 0, 1, 2), *_levels("fp16x3", 0, 1, 2, prepared=True))
RIVALS = (*_levels("tf32x3", 0), *_levels("bf16x6", 0))
MEASURED = (*FP32, *SHORT, *SPLIT, *RIVALS)
"""Every way of `brrr.strassen` that is measured on a GPU."""

ON_CPU = (
    *_levels("sgemm", 0, 1, 2),
    *_levels("sgemm", 1, 2, prepared=True),
    *_levels("sgemm", 1, 2, form="winograd"),
    *_levels("fp16x3", 0),
)

ACCURATE = ("sgemm", "ffma", "fp16x3", "bf16x6", "tf32x3")
"""Inner products that are meant to be as accurate as float32."""


def way_of(variant: str) -> Way | None:
    """The way of a variant; None where `matmul` chooses, and for torch's split products.

    >>> way_of("cpu-sgemm-winograd-1"), way_of("auto-fp32")
    (Way(inner='sgemm', level=1, form='winograd', prepared=False), None)
    """
    return WAYS.get(variant.removeprefix(CPU))


def accuracy_of(variant: str) -> str:
    """The accuracy that `matmul` is asked for by a variant; empty for all others.

    >>> accuracy_of("cpu-auto-fp32"), accuracy_of("sgemm-strassen-1")
    ('fp32', '')
    """
    name = variant.removeprefix(CPU)
    return name.removeprefix("auto-") if name.startswith("auto-") else ""


def asked(accuracy: str) -> str | float:
    """An accuracy as `matmul` takes it.

    >>> asked("fp32"), asked("1e-5")
    ('fp32', 1e-05)
    """
    return float(accuracy) if accuracy[:1].isdigit() else accuracy


def line_name(variant: str) -> str:
    """The line that shows a variant.

    >>> line_name("sgemm-strassen-1-prepared")
    'sgemm strassen 1 prepared'
    """
    return variant.replace("-", " ")


def short(variant: str) -> str:
    """How a variant reads beside its marker: S or W with the levels, a star for a prepared right side.

    >>> short("ffma-strassen-2-prepared"), short("cpu-sgemm-winograd-1"), short("auto-fp32")
    ('ffma S2*', 'sgemm W1', 'matmul(fp32)')
    """
    accuracy, way = accuracy_of(variant), way_of(variant)
    if accuracy:
        return f"matmul({accuracy})"
    if way is None:
        return variant.removeprefix(CPU).replace("-", " ")
    level = f" {str(way.form)[0].upper()}{way.level}" if way.level else ""
    return f"{way.inner}{level}{'*' if way.prepared else ''}"


def exact(way: Way) -> bool:
    """Whether it multiplies without tensor cores, every product and sum in float32."""
    return way.kind.exact_sums


def prepared_lines(*inners: str, cpu: bool = False) -> tuple[str, ...]:
    """The lines of these inner products with levels, the right side prepared."""
    return _with_levels(inners, prepared=True, cpu=cpu)


def timed_lines(*inners: str, cpu: bool = False) -> tuple[str, ...]:
    """The lines of these inner products with levels, the sums of both sides in the time."""
    return _with_levels(inners, prepared=False, cpu=cpu)


def _with_levels(inners: tuple[str, ...], *, prepared: bool, cpu: bool) -> tuple[str, ...]:
    ways = ON_CPU if cpu else MEASURED
    here = [way for way in ways if way.inner in inners and way.level and way.prepared == prepared]
    return tuple(line_name(f"{CPU if cpu else ''}{way.name}") for way in here)
