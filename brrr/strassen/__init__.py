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

from brrr.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
