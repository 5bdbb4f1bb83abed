"""Products of matrices with seven block products in place of eight, from the algebra to a network's layers.

>>> from brrr.strassen import FORMS, plan
>>> FORMS["winograd"].additions, FORMS["strassen"].additions
(15, 18)
>>> plan(8192, 8192, 8192, accuracy=5e-6, inner="sgemm", device="h200").way.name
'sgemm-strassen-3'

| module | what |
| --- | --- |
| `multiply.py` | `matmul(a, b, accuracy=...)`, `explain`, `prepare` |
| `network.py`, `fusing.py` | `StrassenMLP`, `StrassenLinear`; `fuse(model)` |
| `requests.py`, `choosing.py`, `explaining.py` | `plan(...)`: which way, and why |
| `pareto.py` | `frontier(...)`: all ways by time and error |
| `ways.py`, `inners.py` | every way: an inner product, and the levels outside it |
| `predicting.py`, `traffic.py`, `accuracy.py`, `calibration.py`, `known_device.py` | time and error; their constants |
| `workspace.py`, `arena.py`, `frugal.py` | memory: how much, from where, and the order that needs least |
| `fitting.py`, `peeled.py`, `aligned.py` | odd sizes: what is peeled off, rounded up or copied to aligned rows |
| `issuing.py`, `kept.py` | what launches cost the host, and those kept for the next call |
| `execution.py`, `sums.py`, `blocks.py` | a way's steps: passes over memory, and products |
| `split_steps.py`, `rival_steps.py`, `splitting.py`, `splits.py`, `split_terms.py` | products of several short terms |
| `nested.py` | more levels than one pass takes |
| `layers.py`, `running.py`, `planning.py`, `formatted.py`, `training.py` | chains of layers |
| `forms.py`, `schedule.py`, `shapes.py`, `balanced.py`, `reference.py` | the algebra |
| `error_growth.py`, `measured_growth.py`, `scaling.py` | rounding errors, and what helps |
| `products.py`, `plain.py` | products by library or kernel; sums by torch |

Importing this loads neither numpy nor torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from brrr.strassen.choosing import Plan as Plan
    from brrr.strassen.choosing import plan as plan
    from brrr.strassen.forms import FORMS as FORMS
    from brrr.strassen.forms import Coefficients as Coefficients
    from brrr.strassen.forms import Form as Form
    from brrr.strassen.forms import coefficients as coefficients
    from brrr.strassen.fusing import fuse as fuse
    from brrr.strassen.inners import INNERS as INNERS
    from brrr.strassen.multiply import explain as explain
    from brrr.strassen.multiply import matmul as matmul
    from brrr.strassen.multiply import prepare as prepare
    from brrr.strassen.network import StrassenLinear as StrassenLinear
    from brrr.strassen.network import StrassenMLP as StrassenMLP
    from brrr.strassen.pareto import Estimate as Estimate
    from brrr.strassen.pareto import Frontier as Frontier
    from brrr.strassen.pareto import frontier as frontier
    from brrr.strassen.shapes import block_shape as block_shape
    from brrr.strassen.ways import WAYS as WAYS
    from brrr.strassen.ways import Way as Way

__all__ = [
    "FORMS",
    "INNERS",
    "WAYS",
    "Coefficients",
    "Estimate",
    "Form",
    "Frontier",
    "Plan",
    "StrassenLinear",
    "StrassenMLP",
    "Way",
    "block_shape",
    "coefficients",
    "explain",
    "frontier",
    "fuse",
    "matmul",
    "plan",
    "prepare",
]

_LATER = {
    "Coefficients": "forms",
    "Estimate": "pareto",
    "FORMS": "forms",
    "Form": "forms",
    "Frontier": "pareto",
    "INNERS": "inners",
    "Plan": "choosing",
    "StrassenLinear": "network",
    "StrassenMLP": "network",
    "WAYS": "ways",
    "Way": "ways",
    "block_shape": "shapes",
    "coefficients": "forms",
    "explain": "multiply",
    "frontier": "pareto",
    "fuse": "fusing",
    "matmul": "multiply",
    "plan": "choosing",
    "prepare": "multiply",
}
"""Each name, and the module that is loaded when it is first used."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
