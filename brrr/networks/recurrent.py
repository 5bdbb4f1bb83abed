"""One recurrent network, run in each of the ways from a loop as one writes it down to cuDNN: a ladder of rungs.

>>> import torch
>>> module, x = torch.nn.LSTM(8, 16, num_layers=2), torch.randn(5, 3, 8)
>>> rung("combined", module, x)().shape
torch.Size([5, 3, 16])

The rungs, each with all that those before it have, as Appleyard, Kocisky and Blunsom tell them in "Optimizing
Performance of Recurrent Neural Networks on GPUs" (2016); from `graph` on those that came later.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.core.private import keep_compiled_code_private
from brrr.gpu.precision import float32_products, float32_recurrence
from brrr.kernels.alone import CudaFile, Example, alone
from brrr.running.graphs import capture

Run = Callable[[], torch.Tensor]
Module = torch.nn.RNN | torch.nn.GRU | torch.nn.LSTM
CELLS: dict[type, tuple[str, int]] = {
    torch.nn.RNN: ("rnn_tanh", 1),
    torch.nn.GRU: ("gru", 3),
    torch.nn.LSTM: ("lstm", 4),
}
"""The cell of a module, and how many gates it has."""
SOURCE, THREADS = "networks/recurrent_cell.cu", 128
WAVE = 4
"""Time steps whose input products are one, in wavefront order: the next layer waits for so many."""


class LoopOptions(NamedTuple):
    """How a loop runs the network. together: time steps whose input products are one product, 0 for all of them."""

    combined: bool = True
    streamed: bool = True
    fused: bool = True
    transposed: bool = True
    together: int = 1
    wavefront: bool = False


LOOPS = {
    "naive": LoopOptions(combined=False, streamed=False, fused=False, transposed=False),
    "combined": LoopOptions(streamed=False, fused=False, transposed=False),
    "streamed": LoopOptions(fused=False, transposed=False),
    "fused": LoopOptions(transposed=False),
    "transposed": LoopOptions(),
    "inputs2": LoopOptions(together=2),
    "inputs": LoopOptions(together=0),
    "wavefront": LoopOptions(together=WAVE, wavefront=True),
}
RUNGS = (*LOOPS, "graph", "compiled", "cudnn", "cudnn-padded")
"""The names of all rungs, from the bottom up."""
NEED_A_GPU = ("streamed", "fused", "wavefront", "graph", "compiled")


def rung(name: str, module: Module, x: torch.Tensor) -> Run:
    """A function of no arguments that runs the module on x, (steps, batch, inputs), as the rung of that name does.

    It returns the last layer's results, (steps, batch, hidden); the next call may overwrite them. `naive`: a product
    for each gate and torch's pointwise kernels. `combined`: the gates' products in one. `streamed`: the products of the
    input and of the state on two streams. `fused`: one elementwise kernel a step. `transposed`: weights transposed
    beforehand. `inputs2`, `inputs`: the input's products of two steps, and of all, in one. `wavefront`: layers on
    streams of their own, each as soon as the layer below has the steps that it needs. `graph`: the last loop that fits
    the network in a CUDA Graph. `compiled`: one step of all layers by torch.compile (max-autotune), the loop in a CUDA
    Graph. `cudnn`: the module itself. `cudnn-padded`: it with rows of zeros up to a batch of whole 8.

    float32 products are in full precision, never TF32. No gradients. ArgumentError for an unknown name, another
    module or two directions, or where padding would change nothing; UnavailableError for what needs a GPU.
    """
    if name not in RUNGS:
        raise ArgumentError("rung", "name", name, f"one of {', '.join(RUNGS)}")
    network = checked(module, x)
    if not x.is_cuda and name in NEED_A_GPU:
        raise UnavailableError(f"{name}: streams, kernels and CUDA Graphs need a GPU, and x is on {x.device}")
    if name in LOOPS:
        return precise(StepLoop(network, x, LOOPS[name]))
    if name == "cudnn":
        return precise(lambda: module(x)[0])
    if name == "cudnn-padded":
        return precise(padded(module, x))
    if name == "graph":
        loop = StepLoop(network, x, LOOPS["wavefront" if len(network.layers) > 1 else "inputs"])
        return capture(precise(loop)).replay
    return capture(precise(compiled(network, x))).replay


def precise(run: Run) -> Run:
    """The call without gradients and with float32 products in full precision, cuDNN's too."""

    def inner() -> torch.Tensor:
        with torch.no_grad(), float32_products(), float32_recurrence():
            return run()

    return inner


# ---------------------------------------------------------------------------------------------------------------------
# The network's tensors, as the loops read them.


@dataclass(frozen=True)
class LayerWeights:
    """One layer: weights (gates * hidden, ..) of the input and of the state, and a bias each."""

    w_ih: torch.Tensor
    w_hh: torch.Tensor
    b_ih: torch.Tensor
    b_hh: torch.Tensor


class RecurrentNetwork(NamedTuple):
    cell: str
    gates: int
    hidden: int
    layers: tuple[LayerWeights, ...]


def checked(module: Module, x: torch.Tensor) -> RecurrentNetwork:
    """The network that a module is; ArgumentError where a rung could not run it."""
    if type(module) not in CELLS or getattr(module, "nonlinearity", "tanh") != "tanh":
        raise ArgumentError("rung", "module", str(module), "a torch.nn.RNN of tanh, a torch.nn.GRU or a torch.nn.LSTM")
    if module.bidirectional or module.proj_size or module.batch_first or not module.bias:
        raise ArgumentError("rung", "module", str(module), "one direction, biases, the steps first and no projection")
    if x.dim() != 3 or x.shape[2] != module.input_size or not x.numel():
        raise ArgumentError("rung", "x", tuple(x.shape), f"(steps, batch, {module.input_size}), each 1 or more")
    weight = module.weight_ih_l0
    if x.dtype != weight.dtype or x.device != weight.device:
        found = f"{x.dtype} on {x.device}"
        raise ArgumentError("rung", "x", found, f"as the module: {weight.dtype} on {weight.device}")
    names = ("weight_ih_l", "weight_hh_l", "bias_ih_l", "bias_hh_l")
    kept = [[getattr(module, f"{name}{index}").detach() for name in names] for index in range(module.num_layers)]
    return RecurrentNetwork(*CELLS[type(module)], module.hidden_size, tuple(LayerWeights(*each) for each in kept))


# ---------------------------------------------------------------------------------------------------------------------
# The loops.


class StepLoop:
    """The network step by step, in one of the `LOOPS`; a call returns the last layer's results."""

    def __init__(self, network: RecurrentNetwork, x: torch.Tensor, options: LoopOptions) -> None:
        self.network, self.x, self.options = network, x, options
        if not x.is_cuda:  # its loops have no streams and no kernels of their own
            options = self.options = options._replace(streamed=False, fused=False)
        steps, batch, wide = len(x), x.shape[1], network.gates * network.hidden
        self.together = options.together or steps
        count = len(network.layers)
        self.y = [x.new_empty(steps, batch, network.hidden) for _ in range(count)]
        self.of_input = [x.new_empty(steps, batch, wide) for _ in range(count)]
        self.of_state = [x.new_empty(batch, wide) for _ in range(count)]
        self.cell = [x.new_empty(batch, network.hidden) for _ in range(count)]
        self.zeros = x.new_zeros(batch, network.hidden)
        self.weights = [(layer.w_ih.t(), layer.w_hh.t()) for layer in network.layers]
        if options.transposed:
            self.weights = [(w_ih.contiguous(), w_hh.contiguous()) for w_ih, w_hh in self.weights]
        if options.fused:
            self.fused = [self._launches(index) for index in range(count)]
        if options.streamed:
            self.sides = [torch.cuda.Stream() for _ in range(count if options.wavefront else 1)]
            self.mains = [torch.cuda.Stream() for _ in range(count)] if options.wavefront else []

    def __call__(self) -> torch.Tensor:
        if self.options.fused:
            for cell in self.cell:
                cell.zero_()  # the kernel works on it in place; torch's operators make a new one at each step
        if self.options.wavefront:
            self._wave()
        else:
            for layer in range(len(self.y)):
                self._layer(layer)
        return self.y[-1]

    def _layer(self, layer: int) -> None:
        """All steps of a layer; the input's products run ahead on a stream of their own where the way has one."""
        main = torch.cuda.current_stream() if self.options.streamed else None
        if main is not None:
            self.sides[0].wait_stream(main)
        for first in range(0, len(self.x), self.together):
            with torch.cuda.stream(self.sides[0]) if main is not None else nullcontext():
                self._input(layer, first)
                done = self.sides[0].record_event() if main is not None else None
            if main is not None and done is not None:
                main.wait_event(done)
            for step in range(first, min(first + self.together, len(self.x))):
                self._step(layer, step)

    def _wave(self) -> None:
        """Layers beside each other: a layer's steps wait for those of the layer below, each on its own two streams."""
        start = torch.cuda.current_stream()
        for stream in (*self.mains, *self.sides):
            stream.wait_stream(start)
        below: dict[int, Any] = {}
        for diagonal in range(-(-len(self.x) // self.together) + len(self.y) - 1):
            for layer, main in enumerate(self.mains):
                first, side = (diagonal - layer) * self.together, self.sides[layer]
                if not 0 <= first < len(self.x):
                    continue
                if layer:
                    side.wait_event(below.pop((layer - 1, first)))  # type: ignore[call-overload]
                with torch.cuda.stream(side):
                    self._input(layer, first)
                main.wait_event(side.record_event())
                with torch.cuda.stream(main):
                    for step in range(first, min(first + self.together, len(self.x))):
                        self._step(layer, step)
                below[layer, first] = main.record_event()  # type: ignore[index]
        for stream in (*self.mains, *self.sides):
            start.wait_stream(stream)

    def _input(self, layer: int, first: int) -> None:
        """The input's products of some steps."""
        if not self.options.combined:
            return  # each gate's is made where it is needed
        of = self.x if not layer else self.y[layer - 1]
        some = slice(first, min(first + self.together, len(of)))
        bias = self.network.layers[layer].b_ih
        torch.addmm(bias, of[some].flatten(0, 1), self.weights[layer][0], out=self.of_input[layer][some].flatten(0, 1))

    def _step(self, layer: int, step: int) -> None:
        """The state's product and what is elementwise."""
        before = self.y[layer][step - 1] if step else self.zeros
        if self.options.combined:
            of_state = self.of_state[layer]
            torch.addmm(self.network.layers[layer].b_hh, before, self.weights[layer][1], out=of_state)
            if self.options.fused:
                self.fused[layer](step, before)
                return
            gates = [each.chunk(self.network.gates, 1) for each in (self.of_input[layer][step], of_state)]
        else:
            gates = self._separate(layer, step, before)
        c = self.cell[layer] if step else self.zeros
        _, self.cell[layer] = pointwise(self.network.cell, gates[0], gates[1], before, c, out=self.y[layer][step])

    def _separate(self, layer: int, step: int, before: torch.Tensor) -> list[Any]:
        """A product for each gate, of the input and of the state."""
        own, linear = self.network.layers[layer], torch.nn.functional.linear
        x = self.x[step] if not layer else self.y[layer - 1][step]
        parts = [each.chunk(self.network.gates) for each in (own.w_ih, own.b_ih, own.w_hh, own.b_hh)]
        pairs = (x, parts[:2]), (before, parts[2:])
        return [[linear(of, w, b) for w, b in zip(*each, strict=True)] for of, each in pairs]

    def _launches(self, layer: int) -> Callable[[int, torch.Tensor], None]:
        """The elementwise kernel of a layer, prepared: called with the step and the state before it."""
        from brrr.gpu.launching import PreparedLaunch, raw_stream, typed
        from brrr.gpu.nvrtc import function

        kinds = {"rnn_tanh": 0, "gru": 1, "lstm": 2}, {torch.float32: 0, torch.float16: 1}
        if self.x.dtype not in kinds[1]:
            raise ArgumentError("rung", "x", self.x.dtype, "float32 or float16: the fused kernel has no other type")
        options = f"-DKIND={kinds[0][self.network.cell]}", f"-DTYPE={kinds[1][self.x.dtype]}"
        index, batch = self.x.device.index, self.x.shape[1]
        kernel = function(SOURCE, "brrr_recurrent_cell", index, options)
        values = typed("PPPPPii", (0, 0, 0, 0, 0, batch, self.network.hidden))
        grid = (-(-batch * self.network.hidden // THREADS), 1, 1)
        launch = PreparedLaunch(kernel, grid, (THREADS, 1, 1), values)
        y, of_input = self.y[layer], self.of_input[layer]
        values[1].value, values[4].value = self.of_state[layer].data_ptr(), self.cell[layer].data_ptr()
        pitch = [each.stride(0) * each.element_size() for each in (of_input, y)]
        start = [each.data_ptr() for each in (of_input, y)]

        def run(step: int, before: torch.Tensor) -> None:
            values[0].value, values[3].value = (at + step * by for at, by in zip(start, pitch, strict=True))
            values[2].value = before.data_ptr()
            launch(raw_stream(index))

        return run


def pointwise(
    cell: str, x: Any, h: Any, before: torch.Tensor, c: torch.Tensor, out: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The new state and cell from the gates of the input and of the state, by torch's own kernels."""
    if cell == "rnn_tanh":
        return torch.tanh(x[0] + h[0], out=out), c
    if cell == "gru":
        reset, keep = torch.sigmoid(x[0] + h[0]), torch.sigmoid(x[1] + h[1])
        return torch.lerp(torch.tanh(x[2] + reset * h[2]), before, keep, out=out), c
    i, f, o = (torch.sigmoid(x[k] + h[k]) for k in (0, 1, 3))
    c = f * c + i * torch.tanh(x[2] + h[2])
    return torch.mul(o, torch.tanh(c), out=out), c


# ---------------------------------------------------------------------------------------------------------------------
# torch.compile, and cuDNN with its batch padded.


def compiled(network: RecurrentNetwork, x: torch.Tensor) -> Run:
    """One step of all layers by torch.compile, in a loop."""
    from brrr.networks.torch_implementations import refused, with_own_code

    def step(of: torch.Tensor, hs: list[torch.Tensor], cs: list[torch.Tensor]) -> Any:
        for index, own in enumerate(network.layers):
            gates = [
                torch.nn.functional.linear(*pair).chunk(network.gates, 1)
                for pair in ((of, own.w_ih, own.b_ih), (hs[index], own.w_hh, own.b_hh))
            ]
            hs[index], cs[index] = pointwise(network.cell, gates[0], gates[1], hs[index], cs[index])
            of = hs[index]
        return hs, cs

    keep_compiled_code_private()
    fast = torch.compile(with_own_code(step), mode="max-autotune-no-cudagraphs", dynamic=False)

    def run() -> torch.Tensor:
        shape = len(network.layers), x.shape[1], network.hidden
        hs, cs = list(x.new_zeros(shape)), list(x.new_zeros(shape))
        results = []
        for each in x:
            hs, cs = fast(each, list(hs), list(cs))
            results.append(hs[-1])
        return torch.stack(results)

    try:
        precise(run)()
    except Exception as error:
        raise refused("torch.compile", error) from error
    return run


def padded(module: Module, x: torch.Tensor) -> Run:
    """The module on a batch of whole 8, the least that cuDNN's fastest kernels for half types take."""
    more = -x.shape[1] % 8
    if not more:
        raise ArgumentError("rung", "x", tuple(x.shape), "a batch that 8 does not divide; there is nothing to pad")
    wide = torch.nn.functional.pad(x, (0, 0, 0, more))

    def run() -> torch.Tensor:
        wide[:, : x.shape[1]] = x
        result: torch.Tensor = module(wide)[0][:, : x.shape[1]]
        return result

    return run


# ---------------------------------------------------------------------------------------------------------------------
# By itself: `python -m brrr.networks.recurrent`.


def examples(device: str) -> Iterator[Example]:
    """Two steps of each cell, of 4096 samples and 1024 units, of which the second one's kernel is timed."""
    for kind, (cell, gates) in CELLS.items():
        module, x = kind(64, 1024).to(device), torch.randn(2, 4096, 64, device=device)
        loop = StepLoop(checked(module, x), x, LOOPS["fused"])
        expected = module.double()(x.double())[0].detach()
        numbers = 2 * gates + 1 + {"lstm": 2, "gru": 1}.get(cell, 0)
        launch = partial(loop.fused[0], 1, loop.y[0][0])
        yield Example(cell, 0.0, float(numbers * loop.zeros.nbytes), launch, expected, checked=precise(loop))


if __name__ == "__main__":
    alone(examples, CudaFile(SOURCE, ("-DKIND=2", "-DTYPE=0")))
