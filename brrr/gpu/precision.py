"""Whether float32 products may use TF32: one switch over torch's own ones, which refuse to be mixed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from brrr.core.heavy import torch

BACKENDS = "cuda", "mkldnn"
"""Whose products `torch.set_float32_matmul_precision` sets: the GPU's, and the CPU's, which may use bfloat16."""

REDUCED = "tf32", "bf16"


@contextmanager
def float32_products(tf32: bool = False) -> Iterator[None]:
    """Products of float32 in TF32, or in full precision; afterwards torch's settings are as the user left them.

    >>> import torch
    >>> with float32_products(tf32=True):
    ...     torch.get_float32_matmul_precision()
    'high'

    `torch.backends...fp32_precision` and the older `allow_tf32` and `set_float32_matmul_precision` are two states in
    torch, and reading the older raises RuntimeError where they differ. Inside they agree, so that `torch.compile`,
    which reads both, works whatever the user has set; and uses may be nested.
    """
    if not tf32 and in_full_precision():
        yield
        return
    own = {backend: _own(backend) for backend in BACKENDS}
    for backend in own:
        if _reduced(backend):
            _write(backend, "matmul", "ieee")  # with these the older state can't be read
    older = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(older)
        for backend, setting in own.items():
            _write(backend, "matmul", setting)


@contextmanager
def float32_recurrence(tf32: bool = False) -> Iterator[None]:
    """cuDNN's layers of float32 in TF32, or in full precision; afterwards torch's settings are as the user left them.

    >>> import torch
    >>> with float32_recurrence():
    ...     torch.backends.cudnn.allow_tf32
    False

    `torch.backends.cudnn.flags` raises RuntimeError where the user has set cuDNN's `fp32_precision`, and lets a wider
    one, `torch.backends.fp32_precision`, through.
    """
    wanted = "tf32" if tf32 else "ieee"
    before = {products: _read("cuda", products) for products in ("conv", "rnn")}
    if set(before.values()) == {wanted} and _older_cudnn() is tf32:
        yield  # a timed call that asks once more takes no longer than this
        return
    own = {products: _own("cuda", products) for products in before}
    for products in own:
        _write("cuda", products, "tf32")  # with these the older one is told where it is True
    older = _older_cudnn() is True
    torch._C._set_cudnn_allow_tf32(tf32)
    for products in own:
        _write("cuda", products, wanted)
    try:
        yield
    finally:
        torch._C._set_cudnn_allow_tf32(older)
        for products, setting in own.items():
            _write("cuda", products, setting)


def in_full_precision(backend: str | None = None) -> bool:
    """Whether torch multiplies float32 so by each of its settings; of one backend the newest decides, which follows.

    >>> in_full_precision(), in_full_precision("cuda")
    (True, True)
    """
    if backend is not None:
        return not _reduced(backend)
    return not any(map(_reduced, BACKENDS)) and torch.get_float32_matmul_precision() == "highest"


def layers_in_tf32() -> frozenset[str]:
    """Which of "matmul", "conv" and "rnn" torch computes in TF32 where float32 is asked for, on a GPU that has it.

    >>> sorted(layers_in_tf32())
    ['conv', 'rnn']

    Without cuDNN its layers are made of products.
    """
    if os.environ.get("NVIDIA_TF32_OVERRIDE") == "0":
        return frozenset()
    products = not in_full_precision("cuda")
    cudnn = {each: _read("cuda", each) in REDUCED for each in ("conv", "rnn")}
    used = cudnn if torch.backends.cudnn.enabled else dict.fromkeys(cudnn, products)
    return frozenset(each for each, reduced in {"matmul": products, **used}.items() if reduced)


def _reduced(backend: str) -> bool:
    return _read(backend, "matmul") in REDUCED


def _own(backend: str, products: str = "matmul") -> str:
    """What a backend's products were set to themselves; "none" where they follow torch's wider settings."""
    setting = _read(backend, products)
    if setting == "none" or _read(backend, "all") == "none":
        return setting
    wider = {}
    for key in (("generic", "all"), (backend, "all")):  # the second follows the first: in this order
        wider[key] = _read(*key)
        _write(*key, "none")
    setting = _read(backend, products)
    for key, before in wider.items():
        _write(*key, before)
    return setting


def _older_cudnn() -> bool | None:
    """cuDNN's older setting; None where torch refuses to tell it, as it and the newer ones differ."""
    try:
        return bool(torch._C._get_cudnn_allow_tf32())
    except RuntimeError:
        return None


def _read(backend: str, products: str) -> str:
    """`torch.backends...fp32_precision`, which follows the older settings."""
    return str(torch._C._get_fp32_precision_getter(backend, products))


def _write(backend: str, products: str, setting: str) -> None:
    torch._C._set_fp32_precision_setter(backend, products, setting)
