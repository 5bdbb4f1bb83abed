"""The textbook network, `layers` times Linear and ReLU, and its implementations.

>>> network = Network(layers=2, batch=4, hidden=64)
>>> print(network)
2 layers of 64, batch 4, float32
>>> list(IMPLEMENTATIONS)[:3]
['module', 'functional', 'inference']

`best(layers, batch, hidden)` is the fastest of them, ready to be called. Importing this loads no torch.
"""

from brrr.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
