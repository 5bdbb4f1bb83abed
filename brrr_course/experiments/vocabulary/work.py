"""What the `vocabulary` experiment runs: the last layer's product, and its gradients'."""

from collections.abc import Sequence
from typing import Any

import torch

from brrr.core.measurement import Point
from brrr.roofline.calibrate.part import product_error
from brrr_course.experiments.checked import refuse_too_large, warmed
from brrr_course.experiments.vocabulary import WIDTH, cost
from brrr_course.nouns.experiment import Variant, Workload

TOLERANCE = 1e-2


def workload(variant: Variant, point: Point) -> Workload:
    """Random tokens, weights and, for a step, the gradient of the logits."""
    words, tokens, made = int(point["vocabulary"]), int(point["tokens"]), cost(variant, point)
    refuse_too_large(2 * int(made.bytes), variant.processor, f"{tokens} tokens by {words} words")
    x, w, dy = (
        torch.randn(*shape, device=variant.processor, dtype=torch.bfloat16)
        for shape in ((tokens, WIDTH), (words, WIDTH), (tokens, words))
    )
    pairs = [(x, w.t()), (dy, w), (dy.t(), x)][: 3 if variant.way == "step" else 1]
    checks = [product_error(a, b) for a, b in pairs]

    def run() -> list[torch.Tensor]:
        return [torch.mm(a, b) for a, b in pairs]

    def error(found: Sequence[Any]) -> float:
        return max(check(each) for check, each in zip(checks, found, strict=True))

    return warmed(Workload(run, made, error, TOLERANCE), variant.processor)
