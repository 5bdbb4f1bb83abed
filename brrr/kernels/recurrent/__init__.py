"""Recurrent layers whose weights stay on the chip: `PersistentRNN`. Importing this loads no torch."""

from brrr.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
