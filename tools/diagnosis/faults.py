"""Programs with a planted fault beside the same without it, and the remedy to be named first; and healthy ones.

>>> len(FAULTS), len(HEALTHY)
(20, 5)

Each builds a step of a loop. `mended` is what the remedy makes of it: the gain of the one over the other is the truth.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tools.diagnosis.workloads import Block, Call, graph_of, mlp, product, transformer


@dataclass(frozen=True)
class Fault:
    """A step with the fault and one without; `remedies` are the names that count as right."""

    name: str
    remedies: tuple[str, ...]
    faulty: Callable[[str], Call]
    mended: Callable[[str], Call]

    def call(self, which: str, device: str = "cuda") -> Call:
        """The step "faulty" or "mended"."""
        torch.manual_seed(0)
        return getattr(self, which)(device)  # type: ignore[no-any-return]


Read = Callable[[torch.Tensor], object]
Around = Callable[[], AbstractContextManager[Any]]
Batches = Iterator[torch.Tensor]


def trained(
    device: str, *, width: int = 128, batch: int = 64, layers: int = 4, read: Read | None = None,
    around: Around = nullcontext, options: dict[str, Any] | None = None,
) -> Call:  # fmt: skip
    """A training step of an MLP: forward, backward, Adam; `read` gets the loss, `around` is entered for the step."""
    parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*parts).to(device)
    x = torch.randn(batch, width, device=device)
    optimiser = torch.optim.Adam(model.parameters(), **(options or {"foreach": True}))

    def step() -> object:
        with around():
            loss = model(x).square().mean()
            loss.backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            return read(loss) if read else loss

    return step


def fed(device: str, load: Callable[[int], Batches], copy: Callable[[torch.Tensor], torch.Tensor]) -> Call:
    """A step of a network on batches that a loader makes and `copy` brings to the device."""
    model = nn.Sequential(nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 4096)).to(device).requires_grad_(False)
    batches = load(2048)
    return lambda: model(copy(next(batches)))


def batches(*, device: str = "cpu", pin: bool = False, wait_s: float = 0.0) -> Callable[[int], Batches]:
    """A loader of one batch again and again: on the device, in pinned memory where there is a GPU, or after a wait."""

    def load(rows: int) -> Batches:
        ready = torch.randn(rows, 4096, device=device)
        ready = ready.pin_memory() if pin and torch.cuda.is_available() else ready
        while True:
            if wait_s:
                time.sleep(wait_s)
            yield ready

    return load


made_slowly, made_before, pinned = batches(wait_s=0.005), batches(), batches(pin=True)


def compiled(device: str, grows: bool) -> Call:
    """A function compiled for fixed shapes; where its input grows by a row in each step, it is compiled in each."""
    function = torch.compile(lambda x: torch.relu(x * 2 + 1).sum(), dynamic=False)
    x, steps = torch.randn(4096, 1024, device=device), count()

    def call() -> object:
        rows = 64 + (next(steps) if grows else 0)
        with torch._dynamo.config.patch(recompile_limit=4096, accumulated_recompile_limit=4096):  # it gives up at 8
            return function(x[:rows])

    return call


def heads(device: str, by_hand: bool) -> Call:
    """Attention as products and a softmax, or by the library."""
    q, k, v = (torch.randn(8, 16, 2048, 64, device=device, dtype=torch.bfloat16) for _ in range(3))
    if by_hand:
        return lambda: ((q @ k.transpose(-1, -2)) * 0.125).softmax(-1) @ v
    return lambda: F.scaled_dot_product_attention(q, k, v)


def by_rows(device: str, one_by_one: bool) -> Call:
    """A layer on each of 64 rows, one after another or all at once."""
    layer, x = nn.Linear(512, 512).to(device).requires_grad_(False), torch.randn(64, 512, device=device)
    if one_by_one:
        return lambda: torch.stack([layer(row) for row in x])
    return lambda: layer(x)


def strided(device: str, contiguous: bool) -> Call:
    """Elementwise work on every eighth column."""
    x = torch.randn(8192, 8192 * 2, device=device)[:, ::8]
    x = x.contiguous() if contiguous else x
    return lambda: torch.relu(x).sum(-1)


def chain(device: str, fused: bool) -> Call:
    """A chain of elementwise operators on a large tensor."""
    x = torch.randn(2**25, device=device)

    def plain(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * 1.5 + 0.5).mul(x).add(1.0).tanh()

    made = torch.compile(plain) if fused else plain
    return lambda: made(x)


def images(device: str, channels_last: bool) -> Call:
    """Convolutions in bfloat16 on images channel by channel, or with the channels last."""
    form = torch.channels_last if channels_last else torch.contiguous_format
    layers = [nn.Conv2d(256, 256, 3, padding=1) for _ in range(4)]
    model: Any = nn.Sequential(*layers).to(device, torch.bfloat16).requires_grad_(False)
    model = model.to(memory_format=form)
    x = torch.randn(64, 256, 28, 28, device=device, dtype=torch.bfloat16).to(memory_format=form)
    return lambda: model(x)


def emptied(device: str, empty: bool) -> Call:
    """A network whose memory is given back to the driver after each step."""
    step = transformer(1, 8, 512, 768, 12, "bfloat16", device=device)

    def call() -> object:
        found = step()
        if empty and device == "cuda":
            torch.cuda.empty_cache()
        return found

    return call


def masked(device: str, by_index: bool) -> Call:
    """Positive numbers kept: as a selection whose size the host must know, or by a factor."""
    x, layer = torch.randn(256, 1024, device=device), nn.Linear(1024, 1024).to(device).requires_grad_(False)

    def selected() -> object:
        y = layer(x)
        return y[y > 0].sum()

    def multiplied() -> object:
        y = layer(x)
        return (y * (y > 0)).sum()

    return selected if by_index else multiplied


def listed(device: str, each_time: bool) -> Call:
    """Weights of a loss that come from a Python list in each step, or once."""
    x, layer = torch.randn(256, 1024, device=device), nn.Linear(1024, 1024).to(device).requires_grad_(False)
    numbers = [float(each) for each in range(1024)]
    once = torch.tensor(numbers, device=device)
    return lambda: layer(x) * (torch.tensor(numbers, device=device) if each_time else once)


def synchronised(device: str) -> None:
    """Wait for the device."""
    if device == "cuda":
        torch.cuda.synchronize()


FAULTS: tuple[Fault, ...] = (
    Fault("loss.item() in each step", ("no synchronisation",),
          lambda d: trained(d, read=lambda loss: loss.item()), trained),
    Fault("synchronize() in each step", ("no synchronisation",),
          lambda d: trained(d, read=lambda loss: synchronised(d)), trained),
    Fault("a selection of unknown size", ("no synchronisation",),
          lambda d: masked(d, True), lambda d: masked(d, False)),
    Fault("a slow loader", ("load in the background",),
          lambda d: fed(d, made_slowly, lambda x: x.to(d)), lambda d: fed(d, made_before, lambda x: x.to(d))),
    Fault("tiny kernels", ("cuda graph", "larger batch"),
          lambda d: mlp(16, 8, 64, "float32", device=d), lambda d: replayed(mlp(16, 8, 64, "float32", device=d), d)),
    Fault("float32 where bfloat16 serves", ("tensor cores", "lower precision"),
          lambda d: mlp(4, 8192, 4096, "float32", device=d), lambda d: mlp(4, 8192, 4096, "bfloat16", device=d)),
    Fault("one column too many", ("padding",),
          lambda d: product(4096, 4097, 4096, "bfloat16", device=d),
          lambda d: product(4096, 4104, 4096, "bfloat16", device=d)),
    Fault("a vocabulary of 50257", ("padding",),
          lambda d: product(8192, 50257, 768, "bfloat16", device=d),
          lambda d: product(8192, 50304, 768, "bfloat16", device=d)),
    Fault("every eighth column", ("contiguous",), lambda d: strided(d, False), lambda d: strided(d, True)),
    Fault("the input copied in each step", ("keep on device", "pinned memory"),
          lambda d: fed(d, pinned, lambda x: x.to(d)), lambda d: fed(d, batches(device=d), lambda x: x)),
    Fault("pageable copies", ("pinned memory", "keep on device"),
          lambda d: fed(d, made_before, lambda x: x.to(d)),
          lambda d: fed(d, pinned, lambda x: x.to(d, non_blocking=True))),
    Fault("numbers from a list in each step", ("keep on device",),
          lambda d: listed(d, True), lambda d: listed(d, False)),
    Fault("recompilation", ("no recompilation",), lambda d: compiled(d, True), lambda d: compiled(d, False)),
    Fault("an optimiser tensor by tensor", ("fused optimiser",),
          lambda d: trained(d, layers=32, options={"foreach": False}),
          lambda d: trained(d, layers=32, options={"fused": True})),
    Fault("anomaly detection left on", ("debugging off",),
          lambda d: trained(d, around=lambda: torch.autograd.set_detect_anomaly(True)), trained),
    Fault("a loop over the batch", ("batched", "larger batch"),
          lambda d: by_rows(d, True), lambda d: by_rows(d, False)),
    Fault("attention by hand", ("fusion",), lambda d: heads(d, True), lambda d: heads(d, False)),
    Fault("a chain of elementwise operators", ("fusion",), lambda d: chain(d, False), lambda d: chain(d, True)),
    Fault("images channel by channel", ("channels last",), lambda d: images(d, False), lambda d: images(d, True)),
    Fault("the cache emptied in each step", ("keep memory",), lambda d: emptied(d, True), lambda d: emptied(d, False)),
)  # fmt: skip


def activations(device: str, fused: bool) -> Call:
    """Forward and backward of a GELU, a dropout, a sum and a norm on large tensors: each saves what it takes."""
    norm = nn.LayerNorm(4096, device=device)
    x = torch.randn(16384, 4096, device=device, requires_grad=True)
    gradient, parameters = torch.randn(16384, 4096, device=device), [x, *norm.parameters()]

    def plain(x: torch.Tensor) -> torch.Tensor:
        return norm(F.dropout(F.gelu(x * 1.5), 0.1) + 1.0)

    made = torch.compile(plain) if fused else plain
    return lambda: torch.autograd.grad(made(x), parameters, gradient)


def stack(device: str, in_one: bool) -> Call:
    """Many small layers one behind the other, each a product and a ReLU; or one launch that goes through all."""
    layers, batch, hidden = 64, 8, 128
    model = nn.Sequential(*(part for _ in range(layers) for part in (nn.Linear(hidden, hidden), nn.ReLU())))
    model, x = model.to(device).requires_grad_(False), torch.randn(batch, hidden, device=device)
    if not in_one or device != "cuda":
        return lambda: model(x)
    from brrr.kernels.megakernel.megakernel import Megakernel

    linear: list[Any] = [each for each in model if isinstance(each, nn.Linear)]
    whole = Megakernel([each.weight for each in linear], [each.bias for each in linear], batch)
    return lambda: whole(x)


def recurrence(device: str, in_one: bool) -> Call:
    """A recurrent layer that the library runs step by step, or the persistent kernel."""
    layer, x = nn.RNN(512, 512, device=device).requires_grad_(False), torch.randn(256, 4, 512, device=device)
    if not in_one or device != "cuda":
        return lambda: layer(x)[0]
    from brrr import PersistentRNN

    whole = PersistentRNN(layer)
    return lambda: whole(x)[0]


def replayed(call: Call, device: str) -> Call:
    """The call in a CUDA Graph; on a CPU as it is."""
    return graph_of(call) if device == "cuda" else call


ADDED: tuple[Fault, ...] = (
    Fault("activations saved", ("rematerialisation",),
          lambda d: activations(d, False), lambda d: activations(d, True)),
    Fault("a stack of small layers", ("persistent kernel",), lambda d: stack(d, False), lambda d: stack(d, True)),
    Fault("a recurrent layer step by step", ("persistent kernel",),
          lambda d: recurrence(d, False), lambda d: recurrence(d, True)),
)  # fmt: skip
"""For remedies that came after the judging: it is asked whether they are named, and their gain, not their place."""


def compiled_block(device: str) -> Call:
    """A transformer block in bfloat16, compiled."""
    block = Block(2048, 16).to(device, torch.bfloat16).requires_grad_(False)
    x = torch.randn(16, 1024, 2048, device=device, dtype=torch.bfloat16)
    made = torch.compile(block)
    return lambda: made(x)


HEALTHY: dict[str, Callable[[str], Call]] = {
    "a large product": lambda d: product(8192, 8192, 8192, "bfloat16", device=d),
    "a wide network in bfloat16": lambda d: mlp(4, 8192, 4096, "bfloat16", device=d),
    "a compiled block": compiled_block,
    "convolutions with channels last": lambda d: images(d, True),
    "a small network in a CUDA Graph": lambda d: replayed(mlp(16, 8, 64, "float32", device=d), d),
}
"""What needs no remedy: none may be advised with a gain of more than a tenth."""
