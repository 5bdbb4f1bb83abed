"""The roofline: how fast a piece of work should be on a device, before anything runs.

| module | what |
| --- | --- |
| `predicting.py` | `predict(...)`: from a callable or a `Cost` to a `Prediction` |
| `prediction.py` | `Prediction`: the times, the bound, and every figure they rest on |
| `basis.py` | `Basis`: the figures of one device, each with its origin |
| `choosing.py` | which figures a device's name stands for: recorded, or its datasheet |
| `terms.py` | what one operator takes: host, memory, arithmetic |
| `streams.py` | the memory's term, by working set |
| `tiles.py`, `families.py` | a matrix product by tiles and waves, and the constants of its kernels |
| `sweeps.py`, `nearby.py` | what measured sweeps say against these models |
| `hosts.py` | which measured host cost an operator has |
| `gpu_forms.py` | operators that a GPU has in one piece |
| `special.py` | how many operations a sine and the like amount to |
| `fusion.py` | which kernels a compiler makes of a chain of operators |
| `clocks.py` | the two clocks: the host issues, the device follows |
| `bound.py` | what limits: overhead, memory, compute, or two of them alike |
| `drawing.py`, `roofs.py`, `points.py` | `roofline_plot(...)`: the picture |
"""

from __future__ import annotations

from brrr.roofline.prediction import Prediction

__all__ = ["Prediction"]
