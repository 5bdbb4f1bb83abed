"""How wrong a product by Strassen's algorithm is: by level, by form, on kind and on nasty inputs, scaled or not.

The error is the Frobenius norm's, relative, against float64; on badly scaled inputs that of the worst row or column,
for the norm of the whole hides what happens to the small ones.
"""

from __future__ import annotations

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Field, Point
from brrr.counting.cost import Cost, matmul_cost
from brrr.gpu import is_cpu
from brrr_course.experiments.strassen.frontier import all_known
from brrr_course.nouns.claim import Judge, Verdict
from brrr_course.nouns.experiment import Axis, Experiment, Line, Variant
from brrr_course.nouns.source import Evidence

# ---------------------------------------------------------------------------------------------------------------------
# What is claimed of the errors of Strassen's algorithm: growth a level, whole numbers, bad scaling and its cure.

PLAIN = ("normal", "uniform")
BADLY_SCALED = ("badly scaled rows", "badly scaled inside")

Errors = dict[tuple[int, str, int], float]
"""By levels, inputs and size."""


def errors(evidence: Evidence, name: str) -> Errors:
    """A variant's errors at every point, on the GPU where they were measured there, else on the CPU."""
    for variant in (name, f"cpu-{name}"):
        if any(each.name == variant for each in evidence.experiment.variants):
            known = all_known(evidence.source, evidence.experiment, variant).items()
            found = {(int(n), str(on), int(size)): m.error for (n, on, size), m in known if m.error is not None}
            if found:
                return found
    raise NotRecordedError(f"no error of {name} was measured")


def growth(found: Errors) -> tuple[float, tuple[int, str, int], int]:
    """The largest growth a level over the product without levels on plain inputs, where it is, and of how many points.

    >>> growth({(0, "normal", 8): 1e-7, (2, "normal", 8): 4e-7})
    (2.0, (2, 'normal', 8), 1)
    """
    there = {key: base for key in found if key[0] and key[1] in PLAIN and (base := found.get((0, *key[1:])))}
    if not there:
        raise NotRecordedError(f"no error with and without levels was measured on inputs {', '.join(PLAIN)}")
    ratios = {key: (found[key] / base) ** (1 / key[0]) for key, base in there.items()}
    where = max(ratios, key=lambda key: ratios[key])
    return round(ratios[where], 6), where, len(ratios)


def _at(key: tuple[int, str, int]) -> str:
    level, inputs, size = key
    return f"{level} level{'s' if level > 1 else ''}, {inputs}, size {size}"


def _growth(form: str, at_most: float) -> Judge:
    def judge(evidence: Evidence) -> Verdict:
        most, where, count = growth(errors(evidence, form))
        text = f"at most {most:.2f}x a level, at {_at(where)}; {count} points"
        return Verdict("holds" if most <= at_most else "fails", text)

    return judge


def _whole_numbers(evidence: Evidence) -> Verdict:
    """Every error on whole numbers is 0, whatever the level and the form."""
    every = [item for form in ("strassen", "winograd") for item in errors(evidence, form).items()]
    found = {key: error for key, error in every if key[1] == "integer"}
    if not any(key[0] for key in found):
        raise NotRecordedError("no product of whole numbers with levels was measured")
    worst = max(found, key=lambda key: found[key])
    text = f"the largest error is {found[worst]:.1g}, at {_at(worst)}; {len(found)} points"
    return Verdict("holds" if found[worst] == 0 else "fails", text)


def _badly(scaled: bool, at_least: float) -> Judge:
    """The worst row's error with most levels over that of the classical product, or over that with scaling."""

    def judge(evidence: Evidence) -> Verdict:
        plain = errors(evidence, "strassen")
        known = errors(evidence, "strassen-scaled") if scaled else plain
        parts, ratios = [], []
        for inputs in BADLY_SCALED:
            keys = {key: (key if scaled else (0, *key[1:])) for key in plain if key[0] and key[1] == inputs}
            there = [key for key, other in keys.items() if other in known]
            if not there:
                raise NotRecordedError(f"no error with and without levels was measured on inputs {inputs}")
            mine, other = plain[max(there)], known[keys[max(there)]]
            ratios.append(mine / other if other else float("inf"))
            beside = f"without, {other:.1e} with it" if scaled else f"{ratios[-1]:.0f}x that of no level"
            parts.append(f"{mine:.1e}{'' if scaled else ','} {beside}, at {_at(max(there))}")
        return Verdict("holds" if min(ratios) >= at_least else "fails", "; ".join(parts))

    return judge


def _default_safe(evidence: Evidence) -> Verdict:
    """The worst row's error of a default call over that of the library's product: the largest."""
    ours, theirs = errors(evidence, "default"), errors(evidence, "library")
    found = {key: (error, theirs[key]) for key, error in ours.items() if key in theirs}
    if not found:
        raise NotRecordedError("a default call and the library's product were measured nowhere together")
    ratios = {key: a / b if b else (1.0 if a == 0 else float("inf")) for key, (a, b) in found.items()}
    worst = max(ratios, key=lambda key: ratios[key])
    mine, rival = found[worst]
    text = f"at most {ratios[worst]:.2f}x, {mine:.1e} against {rival:.1e}, on {worst[1]} inputs, size {worst[2]}"
    return Verdict("holds" if ratios[worst] <= 4 else "fails", f"{text}; {len(found)} points")


JUDGES: dict[str, Judge] = {
    "growth-strassen": _growth("strassen", 1.6),
    "growth-winograd": _growth("winograd", 1.9),
    "whole-numbers-exact": _whole_numbers,
    "bad-scaling-hurts": _badly(False, 1000),
    "scaling-helps": _badly(True, 100),
    "default-safe": _default_safe,
}


LEVELS = (0, 1, 2, 3)
INPUTS = ("normal", "uniform", "symmetric", "integer", "badly scaled rows", "badly scaled inside")
HARD = ("graded inside", "masked", "outlier channel", "sparse", "uneven rows", "contrary rows")
"""Kinds of inputs, and those that try whether a product notices what it would lose (`inputs.py`)."""

BADLY = "badly scaled"
SIZES = (256, 1024, 4096, 8192, 12288)
LARGEST = 4096
"""With levels that are asked for; a default call is measured at all sizes."""
CPU_LARGEST, GPU_SMALLEST = 1024, 1024

NAMES = {
    "strassen": "Strassen's form, float32",
    "winograd": "Winograd's form, float32",
    "strassen-scaled": "Strassen's form, float32, scaled",
    "winograd-scaled": "Winograd's form, float32, scaled",
    "fp16x3": "Strassen's form, two float16 terms",
    "fp16x3-scaled": "Strassen's form, two float16 terms, scaled",
    "bf16": "Strassen's form, bfloat16",
    "default": "matmul as it chooses by itself, float32",
    "library": "the library's product, float32",
}
"""Each way of adding up, by its variant's name on a GPU."""

DEFAULT = ("default", "library")
ON_CPU = ("strassen", "winograd", "strassen-scaled", "winograd-scaled")


def supports(variant: Variant, point: Point) -> bool:
    """Scaling is for floating numbers that need it, and short types for what they can hold."""
    n, inputs = int(point["size"]), str(point["inputs"])
    if variant.name in DEFAULT:
        return point["level"] == 0
    if inputs in HARD or n > LARGEST:
        return False
    if n > CPU_LARGEST if is_cpu(variant.device) else n < GPU_SMALLEST:
        return False
    if variant.name.endswith("-scaled"):
        return inputs.startswith(BADLY) or inputs in PLAIN
    return variant.name != "bf16" or inputs in PLAIN


def cost(variant: Variant, point: Point) -> Cost:
    """The textbook's product."""
    n = int(point["size"])
    return matmul_cost(n, n, n, 4)


def _variants() -> tuple[Variant, ...]:
    gpu = (Variant(name, label, "cuda") for name, label in NAMES.items())
    cpu = (Variant(f"cpu-{name}", f"CPU, {NAMES[name]}", "cpu") for name in ON_CPU)
    return (*gpu, *cpu)


def _line(variant: Variant) -> Line:
    field: Field = "span_s" if variant.on_gpu else "period_s"
    return Line(variant.name.replace("-", " "), variant.name, field, variant.label)


VARIANTS = _variants()
EXPERIMENT = Experiment(
    name="strassen_errors",
    title="Errors of Strassen's algorithm",
    question="How much accuracy does each level cost?",
    axes=(
        Axis("level", LEVELS, label="levels", scale="category", quick=(0, 1, 2)),
        Axis("inputs", (*INPUTS, *HARD), label="inputs", scale="category"),
        Axis("size", SIZES, label="matrix size n", quick=(256, GPU_SMALLEST)),
    ),
    variants=VARIANTS,
    lines=tuple(map(_line, VARIANTS)),
    package=__name__,
    supports=supports,
    cost=cost,
    judges=JUDGES,
)
