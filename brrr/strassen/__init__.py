"""Products of matrices with seven block products in place of eight, from the algebra to a network's layers.

>>> from brrr.strassen import FORMS, plan
>>> FORMS["winograd"].additions, FORMS["strassen"].additions
(15, 18)
>>> plan(8192, 8192, 8192, accuracy=5e-6, inner="sgemm", device="h200").way.name
'sgemm-strassen-3'

| module | what |
| --- | --- |
| `multiply.py`, `product.py`, `verifying.py` | `matmul(a, b, accuracy=...)`, `explain`, `prepare` |
| `network.py`, `layers.py`, `running.py`, `operators.py` | chains of layers: `StrassenMLP`, `fuse(model)` |
| `ways.py` | every implementation: a base GEMM, and the levels outside it |
| `choosing.py` | `plan(...)`: which implementation, and why |
| `predicting.py`, `accuracy.py` | time and error, and the constraints of a product; `frontier(...)`: all by both |
| `calibration.py` | the constants of both |
| `execution.py`, `steps.py`, `schedules.py` | the steps of an implementation, and two schedules of them |
| `workspace.py`, `operands.py`, `peeling.py` | memory, traffic and launches; operands; odd sizes |
| `algebra/` | the forms, their sums in whole numbers, and rounding errors |
| `passes/` | sums of blocks before, between and after the products, each in one pass over memory |
| `gemm/` | the products of blocks, by cuBLAS or torch |
| `split/` | products of several short terms |

Importing this loads neither numpy nor torch.
"""

from brrr.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
