"""Counting FLOP and bytes: `brrr.cost` of any torch callable, on descriptions that take no memory.

| module | what |
| --- | --- |
| `cost.py` | `Cost`, `OperatorCost`, `Matmul`: the result |
| `description.py` | `array(...)`: a tensor's shape and type, without its memory |
| `tracing.py` | `cost(...)`: run a callable on fake tensors and count |
| `mode.py` | `CostMode`: the same over a real execution |
| `conventions.py` | how many FLOP each operator counts: one table |
| `forms.py` | along rows or columns, broadcast, strided: what times depend on besides |
| `traffic.py` | which bytes each operator reads and writes |
| `cudnn.py` | what cuDNN's recurrent layers ask before they run |
| `ledger.py` | which of them no implementation could save |
"""
