"""Refits a family of product kernels to what was recorded of them and to the calibration's sweep.

python -m tools.products_refit "short, 4 B" 300   # tries 300 random changes; prints the family that is left

A change is kept where it lowers the error: the mean of |log(modelled / measured)|, and of the steps from one column to
the next. Sizes held out in the recording are never among the points.
"""

import math
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import cast

from brrr.counting.cost import Matmul
from brrr.roofline.device_model import DeviceModel, model_of
from brrr.roofline.products import Family, best_tiling, families, family_name, operator_of
from brrr.roofline.sweeps import swept_products
from brrr.roofline.terms import modelled_time
from brrr_course.experiments import experiment
from brrr_course.experiments.gemm import HELD_OUT, SOME, SWEPT, matmul_of
from brrr_course.sources import source

MOST, SWEEP, STEPS, STEP = 0.8, 3.0, 0.3, math.log(1.08)
"""An exception counts so much; weights of a swept product and of steps; what is a step."""
# What a change may touch; `pieces` of "short, 16 B" stayed what the development data had made it.
CONSTANTS = ("cache", "written", "start_s", "prologue_s", "step_s", "split_s", "pieces", "overlap")


Measured = tuple[Matmul, float, float]
"""A product, its seconds and its weight."""


def points(name: str, model: DeviceModel) -> list[Measured]:
    """The products of a family: of the sweep between the sizes of the recording every third, and those of `model`."""
    found = []
    for variant in ("nn", "nt", "tn", "linear"):
        for (n, size, dtype), each in source("recorded:h200").known(experiment("gemm"), variant).items():
            if size in HELD_OUT or each.span_s is None or (size == SWEPT and n not in SOME and int(n) % 3):
                continue
            product = matmul_of(variant, {"columns": n, "size": size, "dtype": "float32" if dtype == "tf32" else dtype})
            found.append((replace(product, dtype=str(dtype)), each.span_s.median, 1.0))
    assert model.peaks is not None
    sweep = zip(*swept_products(model.peaks.sweeps["products"]), strict=True)
    found += [(product, float(seconds), SWEEP) for product, added, seconds in sweep if not added]
    return [each for each in found if family_name(each[0]) == name and each[0].dtype != "float16"]


def errors(family: Family, of: Sequence[Measured], model: DeviceModel) -> list[float]:
    """log(modelled / measured) of each point."""
    cast("dict[str, Family]", families())[family.name] = family
    best_tiling.cache_clear()
    found = []
    for p, seconds, _ in of:
        each = operator_of(p)
        found.append(math.log((modelled_time(each, model, each.bytes, host_s=0.0).device_s or 0.0) / seconds))
    return found


def loss(found: Sequence[float], of: Sequence[Measured]) -> float:
    """What is to become small."""
    weights = [weight for _, _, weight in of]
    steps = [abs(found[j] - found[i]) for i, j in neighbours(of)]
    return fmean((min(abs(each), MOST) for each in found), weights) + STEPS * fmean(steps or [0.0])


def neighbours(of: Sequence[Measured]) -> list[tuple[int, int]]:
    """Points one column apart between which the time steps."""
    at = {product: i for i, (product, _, _) in enumerate(of)}
    pairs = ((i, at.get(replace(product, n=product.n + 1))) for product, i in at.items())
    return [(i, j) for i, j in pairs if j is not None and abs(math.log(of[j][1] / of[i][1])) > STEP]


def changed(family: Family, draw: random.Random) -> Family:
    """One or two constants, or one tile's share, some percent to some ten percent off."""
    for _ in range(draw.choice((1, 1, 2))):
        by = math.exp(draw.gauss(0, draw.choice((0.02, 0.1, 0.4))))
        what = draw.choice((*CONSTANTS, *family.tiles))
        if isinstance(what, tuple):
            family = replace(family, tiles={**family.tiles, what: family.tiles[what] * by})
        else:
            family = replace(family, **{what: max(getattr(family, what) * by, 1.0 if what == "overlap" else 0.0)})
    return family


def refitted(family: Family, tries: int, of: Sequence[Measured], model: DeviceModel) -> Family:
    """The best of the family and its changes."""
    draw, least = random.Random(0), loss(errors(family, of, model), of)
    for _ in range(tries):
        other = changed(family, draw)
        if (found := loss(errors(other, of, model), of)) < least:
            family, least = other, found
    return family


def main(name: str, tries: str = "300") -> None:
    """Prints the family before and after, with the medians of their errors."""
    model = model_of("h200")
    of = points(name, model)
    for each in (families()[name], refitted(families()[name], int(tries), of, model)):
        found = errors(each, of, model)
        print(f"{median(map(abs, found)):.1%} of {len(of)}, loss {loss(found, of):.4f}: {each}")


if __name__ == "__main__":
    main(*sys.argv[1:])
