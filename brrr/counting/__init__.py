"""Counting FLOP and bytes: `brrr.cost` of any torch callable, on descriptions that take no memory.

| module | what |
| --- | --- |
| `cost.py` | `Cost`, `OperatorCost`, `Matmul`: the result |
| `description.py` | `array(...)`: a tensor's shape and type, without its memory |
| `tracing.py` | `cost(...)`: run a callable on fake tensors and count |
| `state.py` | what a callable holds, and putting it back as it was |
| `mode.py` | `CostMode`: the same over a real execution; which bytes no implementation could save |
| `ledger.py` | what was given and made: the compulsory bytes, and how long each storage lived |
| `parts.py` | operators of torch that are whole layers, by what a GPU runs for them; loops by their bodies |
| `call.py` | one call of an operator; what a formula of it is |
| `forms.py` | the form of a call: along rows or columns, broadcast, strided |
| `conventions.py` | how many FLOP each operator counts; `matmuls.py`, `reductions.py`: the formulas |
| `traffic.py` | which bytes each operator reads and writes |
"""
