"""A language model's last layer: what do 47 words cost that nobody uses?

Each of some tokens' 768 numbers times the vocabulary's weights, as in the smallest GPT-2; nanoGPT rounds GPT-2's 50257
words up to 50304.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from brrr.core.measurement import Point
from brrr.counting.cost import Cost, Matmul
from brrr.roofline.gemm_families import operator_of
from brrr_course.experiments.checked import must_fit
from brrr_course.experiments.lazily import torch
from brrr_course.experiments.predicted import run
from brrr_course.nouns.experiment import Axis, Experiment, PredictedRun, Rate, Variant, Workload

WIDTH, DTYPE = 768, "bfloat16"
WORDS, PADDED = 50257, 50304
VOCABULARIES = (50256, WORDS, 50258, 50260, 50264, 50272, PADDED)
TOKENS = (1024, 4096, 12288)
"""nanoGPT trains on 12 sequences of 1024 tokens a GPU."""


def products(step: bool, point: Point) -> tuple[Matmul, ...]:
    """The logits, and in a training step the gradients of the tokens and of the weights."""
    words, tokens = int(point["vocabulary"]), int(point["tokens"])
    logits = Matmul(tokens, words, WIDTH, dtype=DTYPE, transposed=(False, True))
    gradients = (Matmul(tokens, WIDTH, words, dtype=DTYPE), Matmul(words, WIDTH, tokens, dtype=DTYPE,
                                                                   transposed=(True, False)))  # fmt: skip
    return (logits, *gradients) if step else (logits,)


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of the one product, or of the three."""
    made = tuple(map(operator_of, products(variant.implementation == "step", point)))
    return Cost(sum(each.flop or 0.0 for each in made), sum(each.bytes for each in made), operators=made)


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """The products one after the other."""
    made = cost(variant, point)
    return run(made.operators, made.bytes, made.bytes, "eager")


EXPERIMENT = Experiment(
    title="A vocabulary's size",
    question="What do 47 words cost that nobody uses?",
    axes=(
        Axis("vocabulary", VOCABULARIES, label="words", scale="linear", quick=(WORDS,), noun="words"),
        Axis("tokens", TOKENS, label="tokens", quick=(1024,)),
    ),
    variants=(
        Variant("forward", "logits"),
        Variant("step", "logits and both gradients"),
    ),
    field="span_s",
    package=__name__,
    rate=Rate("flop", "FLOP/s", "throughput"),
    names_kernels=True,
)


# ---------------------------------------------------------------------------------------------------------------------
# What the `vocabulary` experiment runs: the last layer's product, and its gradients'.

TOLERANCE = 1e-2


def workload(variant: Variant, point: Point) -> Workload:
    """Random tokens, weights and, for a step, the gradient of the logits."""
    from brrr.roofline.calibrate.part import product_error

    words, tokens = int(point["vocabulary"]), int(point["tokens"])
    must_fit(2 * int(cost(variant, point).bytes), variant.processor, f"{tokens} tokens by {words} words")
    x, w, dy = (
        torch.randn(*shape, device=variant.processor, dtype=torch.bfloat16)
        for shape in ((tokens, WIDTH), (words, WIDTH), (tokens, words))
    )
    pairs = [(x, w.t()), (dy, w), (dy.t(), x)][: 3 if variant.implementation == "step" else 1]
    checks = [product_error(a, b) for a, b in pairs]

    def run() -> list[torch.Tensor]:
        return [torch.mm(a, b) for a, b in pairs]

    def error(found: Sequence[Any]) -> float:
        return max(check(each) for check, each in zip(checks, found, strict=True))

    return Workload(run, error, TOLERANCE, warm=True)
