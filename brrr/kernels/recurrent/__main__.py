"""The persistent recurrent kernel by itself: `python -m brrr.kernels.recurrent`."""

from collections.abc import Iterator

import torch

from brrr.kernels.alone import CudaFile, Example, alone
from brrr.kernels.recurrent.layer import PersistentRNN
from brrr.kernels.recurrent.plan import H200, plan
from brrr.kernels.recurrent.running import SOURCE


def examples(device: str) -> Iterator[Example]:
    """256 steps of a tanh RNN and of an LSTM; the input's product, which is torch's, is in the time too."""
    for kind, gates in ((torch.nn.RNN, 1), (torch.nn.LSTM, 4)):
        module, x = kind(512, 1024, device=device), torch.randn(256, 4, 512, device=device)
        run = PersistentRNN(module, choose=False)
        with torch.no_grad():
            expected = kind(512, 1024, device=device, dtype=torch.float64)
            expected.load_state_dict({name: each.double() for name, each in module.state_dict().items()})
            flop = 2.0 * 256 * 4 * gates * 1024 * (512 + 1024)
            nbytes = float(sum(each.nbytes for each in (*module.parameters(), x)) + 256 * 4 * 1024 * 4)
            name, result = f"{kind.__name__}, 512 to 1024", expected(x.double())[0]
            yield Example(name, flop, nbytes, lambda run=run, x=x: run(x)[0], result, 1e-4)  # type: ignore[misc]


alone(examples, CudaFile(SOURCE, plan("rnn_tanh", 1024, 4, "float32", H200).defines()))
