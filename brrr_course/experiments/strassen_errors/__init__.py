"""How wrong a product by Strassen's algorithm is: by level, on kind and on nasty inputs.

The error is the Frobenius norm's, relative, against float64; on badly scaled inputs that of the worst row or column,
for the norm of the whole hides what happens to the small ones.
"""

from __future__ import annotations

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Point
from brrr.counting.cost import Cost, matmul_cost
from brrr_course.experiments.strassen.frontier import all_known
from brrr_course.nouns.claim import Judge, Verdict
from brrr_course.nouns.experiment import Axis, Experiment, Variant
from brrr_course.nouns.source import Evidence

# ---------------------------------------------------------------------------------------------------------------------
# What is claimed of the errors of Strassen's algorithm: growth a level, bad scaling, a default call.

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


def _growth(evidence: Evidence) -> Verdict:
    """Strassen's form: at most 1.6x a level."""
    most, where, count = growth(errors(evidence, "strassen"))
    text = f"at most {most:.2f}x a level, at {_at(where)}; {count} points"
    return Verdict("holds" if most <= 1.6 else "fails", text)


def _bad_scaling(evidence: Evidence) -> Verdict:
    """The worst row's error with most levels over that of the classical product: at least 1000x."""
    found, parts, ratios = errors(evidence, "strassen"), [], []
    for inputs in BADLY_SCALED:
        there = [key for key in found if key[0] and key[1] == inputs and (0, *key[1:]) in found]
        if not there:
            raise NotRecordedError(f"no error with and without levels was measured on inputs {inputs}")
        most = max(there)
        mine, other = found[most], found[0, *most[1:]]
        ratios.append(mine / other if other else float("inf"))
        parts.append(f"{mine:.1e}, {ratios[-1]:.0f}x that of no level, at {_at(most)}")
    return Verdict("holds" if min(ratios) >= 1000 else "fails", "; ".join(parts))


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
    "growth-strassen": _growth,
    "bad-scaling-hurts": _bad_scaling,
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

DEFAULT = ("default", "library")


def supports(variant: Variant, point: Point) -> bool:
    """A default call and the library's product on all inputs, levels that are asked for on those that they can hold."""
    n, inputs = int(point["size"]), str(point["inputs"])
    if variant.way in DEFAULT:
        return point["level"] == 0
    if inputs in HARD or n > LARGEST:
        return False
    return n >= GPU_SMALLEST if variant.on_gpu else n <= CPU_LARGEST


def cost(variant: Variant, point: Point) -> Cost:
    """The textbook's product."""
    n = int(point["size"])
    return matmul_cost(n, n, n, 4)


EXPERIMENT = Experiment(
    name="strassen_errors",
    title="Errors of Strassen's algorithm",
    question="How much accuracy does each level cost?",
    axes=(
        Axis("level", LEVELS, label="levels", scale="category", quick=(0, 1, 2)),
        Axis("inputs", (*INPUTS, *HARD), label="inputs", scale="category"),
        Axis("size", SIZES, label="matrix size n", quick=(256, GPU_SMALLEST)),
    ),
    variants=(
        Variant("strassen", "Strassen's form, float32", "cuda"),
        Variant("default", "matmul as it chooses by itself, float32", "cuda"),
        Variant("library", "the library's product, float32", "cuda"),
        Variant("cpu-strassen", "CPU, Strassen's form, float32", "cpu", way="strassen"),
    ),
    field="span_s",
    package=__name__,
    supports=supports,
    cost=cost,
    judges=JUDGES,
)
