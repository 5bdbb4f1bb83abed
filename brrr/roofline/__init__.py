"""The roofline: how fast a piece of work should be on a device, before anything runs.

| module | what |
| --- | --- |
| `predicting.py` | `predict(...)`: from a callable or a `Cost` to a `Prediction`; the two clocks of host and device |
| `prediction.py` | `Prediction`: the times, what limits, and every figure they rest on |
| `memory.py`, `allocator.py`, `batch.py` | the peak of its memory and what for; torch's allocator; the largest batch |
| `device_model.py` | `DeviceModel`: the figures of one device, each with its origin; assumed costs of launches |
| `lowering.py`, `data/operators.toml` | what a GPU has in one piece, what a compiler fuses, what a sine amounts to |
| `terms.py` | what one operator takes by its terms: host, memory, arithmetic; or a mere stream |
| `figures.py` | which measured figures count for an operator |
| `gemm_families.py` | a matrix product by tiles and waves, and the constants of its kernels |
| `sweeps.py` | what measured sweeps say against these models |
| `corrections.py`, `reference.py` | the one long sweep, carried over to every GPU; its figures on other datasheets |
| `communication.py` | exchanges between devices: latency and bandwidth, fitted; what overlaps |
| `shapes.py`, `recurrent.py` | a product's better shapes; the floor of a recurrent layer's step |
| `peak.py`, `peaks.py`, `calibrate/` | the measured figures, and how they are measured |
"""

from brrr.roofline.prediction import Prediction

__all__ = ["Prediction"]
