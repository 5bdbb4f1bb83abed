"""Every rung of the recurrent ladder on a GPU against float64, called twice, and as a CUDA Graph where it is one."""

import pytest
import torch

from brrr.networks.recurrent import RUNGS, rung

LIMITS = {torch.float32: 1e-5, torch.float16: 5e-3}


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("kind", [torch.nn.RNN, torch.nn.GRU, torch.nn.LSTM])
@pytest.mark.parametrize(("layers", "hidden"), [(1, 72), (3, 72), (1, 96)])
def test_every_rung_computes_the_module(kind: type, layers: int, hidden: int, dtype: torch.dtype) -> None:
    module, x = kind(24, hidden, layers, device="cuda").to(dtype), torch.randn(9, 5, 24, device="cuda").to(dtype)
    exact = kind(24, hidden, layers, device="cuda").double()
    exact.load_state_dict({name: value.double() for name, value in module.state_dict().items()})
    expected = exact(x.double())[0].detach()
    for name in RUNGS:
        if name == "compiled" and ((layers, hidden) != (1, 72) or kind is torch.nn.GRU or dtype is torch.float16):
            continue  # half a minute each
        if name == "cudnn-padded" and dtype is torch.float16 and kind is not torch.nn.RNN and hidden % 32:
            continue  # cuDNN 9.19 computes these wrongly (docs/rnn_details.md)
        run = rung(name, module, x)
        for _ in range(3):
            found = run().double()
            torch.cuda.synchronize()
            assert float((found - expected).norm() / expected.norm()) < LIMITS[dtype], name
