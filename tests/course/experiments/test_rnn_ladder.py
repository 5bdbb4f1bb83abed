"""A recurrent network, rung by rung: grid and plan, workloads, what its claims call."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Measurement
from brrr_course.experiments import experiment
from brrr_course.experiments import rnn_ladder as grid
from brrr_course.experiments.rnn import TOLERANCES, RecurrentInputs
from brrr_course.experiments.rnn_ladder import grids, place, product, product_of, way
from brrr_course.nouns.source import Evidence

LADDER = experiment("rnn_ladder")
AXES = [axis.name for axis in LADDER.axes]
"""Off the grid: a workload may be made anywhere."""


# ---- the grid, the plan, the costs ----


# ---- workloads ----


@pytest.mark.parametrize("dtype", grid.DTYPES)
@pytest.mark.parametrize("cell", grid.CELLS)
@pytest.mark.parametrize("name", ["naive", "inputs", "cudnn"])
def test_every_way_gives_the_network_and_a_wrong_one_is_refused(name: str, cell: str, dtype: str) -> None:
    given = RecurrentInputs(cell, 24, 3, 6, dtype, "cpu", 2)
    right, allowed = way(name, given)(), TOLERANCES[dtype]
    assert given.error(right) <= allowed < given.error(right * (1 + 3 * allowed))
    assert math.isnan(given.error(right.double()))


@pytest.mark.parametrize("name", grid.PRODUCTS)
def test_products_are_those_of_the_first_layer(name: str) -> None:
    given = RecurrentInputs("lstm", 8, 3, 5, "float32", "cpu")
    run, error = product(name, given)
    found = run().clone()
    assert found.shape == product_of(name, {"cell": "lstm", "hidden": 8, "batch": 3, "steps": 5})[:2]
    assert error(found) <= 1e-6 < error(found * 1.001)
    if name == "inputs-product":
        torch.testing.assert_close(found[:3], torch.nn.functional.linear(
            given.x[0], given.module.weight_ih_l0, given.module.bias_ih_l0).detach())  # fmt: skip


# ---- what claims call ----


def test_blocks_are_those_of_the_first_kernel() -> None:
    kernels = ("sgemm_64x32 16x8x1 of 128", "reduce 4x1x1 of 256")
    rows = {tuple(place().values()): Measurement(launched=kernels), tuple(place("gru").values()): Measurement()}
    source: Any = SimpleNamespace(
        kind="cuda", known=lambda experiment, variant: rows if variant == "gate-product" else {}
    )
    found = grids(Evidence(LADDER, source), "gate-product")
    assert (list(found.axes), dict(found.values)) == (AXES, {tuple(place().values()): 128})
    with pytest.raises(NotRecordedError, match="no kernel of state-product was named"):
        grids(Evidence(LADDER, source), "state-product")
