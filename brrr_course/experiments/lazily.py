"""torch and its kin, each loaded when something of it is first used: describing an experiment needs none of them."""

from brrr.core.heavy import dist, f, nn, np, torch


def name_of(dtype: object) -> str:
    """A type's name, torch's or its own: "float32".

    >>> name_of("float32"), name_of("torch.bfloat16")
    ('float32', 'bfloat16')
    """
    return str(dtype).removeprefix("torch.")


__all__ = ["dist", "f", "name_of", "nn", "np", "torch"]
