"""Hardware counters: the bytes that operators move to and from the GPU's memory, beside those that `brrr.cost` counts.

| module | what |
| --- | --- |
| `streaming.py` | the operators, each with a working set far larger than the L2 |
| `worker.py` | the program that runs them, and that Nsight Compute watches |
| `ncu.py` | calling Nsight Compute, and reading what it prints |
| `moved.py` | `Moved` and `Movements`: counted and measured bytes, operator by operator |
| `counters_file.py` | `counters.json` beside the recordings |
| `command.py` | `brrr counters` |
"""
