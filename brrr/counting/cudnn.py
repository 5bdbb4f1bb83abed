"""What torch asks before it calls a recurrent layer of cuDNN, answered where a tensor is only described."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

_SET = torch.ops.aten.set_.source_Storage
_DROPOUT_STATE = torch.ops.aten._cudnn_init_dropout_state.default


def prepared(func: Any, args: Any, kwargs: Any) -> torch.Tensor | None:
    """The answer to one of cuDNN's two preparations; None for any other operator. Neither moves a layer's data.

    Torch looks whether the weights lie in one storage, by an empty tensor that it sets to the first weight's: a fake
    tensor cannot take a real storage, and stays empty, which means that they do not; then each weight is read from
    where it lies. The state of dropout is kept for the whole process: it has to be real, for the layers that run later.
    """
    if func is _SET and isinstance(args[0], FakeTensor) and args[1].device.type == "cuda":
        return args[0]
    if func is _DROPOUT_STATE:
        with unset_fake_temporarily():
            state: torch.Tensor = func(*args, **kwargs)
        return state
    return None
