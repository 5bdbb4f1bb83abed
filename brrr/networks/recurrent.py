"""One recurrent network, run in each of the ways from a loop as one writes it down to cuDNN: a ladder of rungs.

>>> import torch
>>> module, x = torch.nn.LSTM(8, 16, num_layers=2), torch.randn(5, 3, 8)
>>> rung("combined", module, x)().shape
torch.Size([5, 3, 16])

The rungs, each with all that those before it have, as Appleyard, Kocisky and Blunsom tell them in "Optimizing
Performance of Recurrent Neural Networks on GPUs" (2016); from `graph` on those that came later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.core.heavy import torch
from brrr.core.private import keep_compiled_code_private
from brrr.gpu.precision import float32_products, float32_recurrence
from brrr.kernels.alone import CudaFile, Example, alone
from brrr.running.graphs import capture

if TYPE_CHECKING:
    Run = Callable[[], torch.Tensor]
    Module = torch.nn.RNN | torch.nn.GRU | torch.nn.LSTM
CELLS = {"RNN": "rnn_tanh", "GRU": "gru", "LSTM": "lstm"}
GATES = {"rnn_tanh": 1, "gru": 3, "lstm": 4}
"""The cell of a module, and how many gates it has."""
SOURCE, THREADS, TYPES = "networks/recurrent_cell.cu", 128, ("float32", "float16")
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
    if name in ("cudnn", "cudnn-padded"):
        return precise((lambda: module(x)[0]) if name == "cudnn" else padded(module, x))
    loop = LOOPS["wavefront" if len(network.layers) > 1 else "inputs"]
    return capture(precise(StepLoop(network, x, loop) if name == "graph" else compiled(network, x))).replay


def precise(run: Run) -> Run:
    """The call without gradients and with float32 products in full precision, cuDNN's too."""

    def inner() -> torch.Tensor:
        with torch.no_grad(), float32_products(), float32_recurrence():
            return run()

    return inner


# ---------------------------------------------------------------------------------------------------------------------
# The network's tensors, as the loops read them.


class RecurrentNetwork(NamedTuple):
    """layers: of each the weights (gates * hidden, ..) of the input and of the state, and a bias each."""

    cell: str
    gates: int
    hidden: int
    layers: list[list[torch.Tensor]]


def checked(module: Module, x: torch.Tensor) -> RecurrentNetwork:
    """The network that a module is; ArgumentError where a rung could not run it."""
    kind = type(module).__name__
    plain = kind in CELLS and type(module) is getattr(torch.nn, kind)
    if not plain or getattr(module, "nonlinearity", "tanh") != "tanh":
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
    return RecurrentNetwork(CELLS[kind], GATES[CELLS[kind]], module.hidden_size, kept)


# ---------------------------------------------------------------------------------------------------------------------
# The loops.


class StepLoop:
    """The network step by step, in one of the `LOOPS`; a call returns the last layer's results."""

    def __init__(self, network: RecurrentNetwork, x: torch.Tensor, options: LoopOptions) -> None:
        if not x.is_cuda:  # its loops have no streams and no kernels of their own
            options = options._replace(streamed=False, fused=False, wavefront=False)
        self.network, self.options, layers = network, options, range(len(network.layers))
        (steps, batch, _), wide = x.shape, network.gates * network.hidden
        self.y = [x.new_empty(steps, batch, network.hidden) for _ in layers]
        self.x = [x, *self.y[:-1]]
        self.of_input = [x.new_empty(steps, batch, wide) for _ in layers]
        self.of_state = [x.new_empty(batch, wide) for _ in layers]
        self.cell = [x.new_empty(batch, network.hidden) for _ in layers]
        self.zeros = x.new_zeros(batch, network.hidden)
        self.weights = [(w_ih.t(), w_hh.t()) for w_ih, w_hh, *_ in network.layers]
        if options.transposed:
            self.weights = [(w_ih.contiguous(), w_hh.contiguous()) for w_ih, w_hh in self.weights]
        if options.fused:
            self.fused = [self._launches(layer) for layer in layers]
        together = options.together or steps
        blocks = [range(first, min(first + together, steps)) for first in range(0, steps, together)]
        self.order = [(layer, block) for layer in layers for block in blocks]
        self.lanes: list[Any] = [(None, None)] * len(layers)
        if options.wavefront:  # by diagonals, upper layers first: each waits for what the one below was given so far
            self.order.sort(key=lambda at: (at[0] + at[1].start // together, -at[0]))
            self.lanes = [(torch.cuda.Stream(), torch.cuda.Stream()) for _ in layers]
        elif options.streamed:
            self.lanes = [(torch.cuda.Stream(), None)] * len(layers)
        self.streams = {each for lane in self.lanes for each in lane if each}

    def __call__(self) -> torch.Tensor:
        """Blocks of steps in order; a layer's lane: a stream of its inputs' products, which run ahead, and its own."""
        if self.options.fused:
            for cell in self.cell:
                cell.zero_()  # the kernel works on it in place; torch's operators make a new one at each step
        start: Any = torch.cuda.current_stream() if self.streams else None
        for stream in self.streams:
            stream.wait_stream(start)
        for layer, block in self.order:
            side, own = self.lanes[layer]
            if side and layer and (own or not block.start):
                side.wait_stream(self.lanes[layer - 1][1] or start)
            with torch.cuda.stream(side) if side else nullcontext():
                self._input(layer, block)
            if side:
                (own or start).wait_stream(side)
            with torch.cuda.stream(own) if own else nullcontext():
                for step in block:
                    self._step(layer, step)
        for stream in self.streams:
            start.wait_stream(stream)
        return self.y[-1]

    def _input(self, layer: int, block: range) -> None:
        """The input's products of some steps; where each gate has its own, they are made where they are needed."""
        if self.options.combined:
            some, bias = slice(block.start, block.stop), self.network.layers[layer][2]
            of, out = (each[layer][some].flatten(0, 1) for each in (self.x, self.of_input))
            torch.addmm(bias, of, self.weights[layer][0], out=out)

    def _step(self, layer: int, step: int) -> None:
        """The state's product, or one for each gate of the input and of the state, and what is elementwise."""
        before, count = self.y[layer][step - 1] if step else self.zeros, self.network.gates
        w_ih, w_hh, b_ih, b_hh = self.network.layers[layer]
        gates: list[Any]
        if self.options.combined:
            of_state = self.of_state[layer]
            torch.addmm(b_hh, before, self.weights[layer][1], out=of_state)
            if self.options.fused:
                self.fused[layer](step, before)
                return
            gates = [each.chunk(count, 1) for each in (self.of_input[layer][step], of_state)]
        else:
            pairs, linear = ((self.x[layer][step], w_ih, b_ih), (before, w_hh, b_hh)), torch.nn.functional.linear
            gates = [[*map(partial(linear, of), w.chunk(count), b.chunk(count))] for of, w, b in pairs]
        c = self.cell[layer] if step else self.zeros
        _, self.cell[layer] = pointwise(self.network.cell, gates[0], gates[1], before, c, out=self.y[layer][step])

    def _launches(self, layer: int) -> Callable[[int, torch.Tensor], None]:
        """The elementwise kernel of a layer, prepared: called with the step and the state before it."""
        from brrr.gpu.launching import PreparedLaunch, raw_stream, typed
        from brrr.gpu.nvrtc import function

        network, zeros, kind = self.network, self.zeros, str(self.zeros.dtype).removeprefix("torch.")
        if kind not in TYPES:
            raise ArgumentError("rung", "x", zeros.dtype, "float32 or float16: the fused kernel has no other type")
        options, index = (f"-DKIND={[*GATES].index(network.cell)}", f"-DTYPE={TYPES.index(kind)}"), zeros.device.index
        kernel = function(SOURCE, "brrr_recurrent_cell", index, options)
        y, of_input = self.y[layer], self.of_input[layer]
        addresses = (0, self.of_state[layer].data_ptr(), 0, 0, self.cell[layer].data_ptr())
        values = typed("PPPPPii", (*addresses, len(zeros), network.hidden))
        launch = PreparedLaunch(kernel, (-(-zeros.numel() // THREADS), 1, 1), (THREADS, 1, 1), values)
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
    from brrr.networks.torch_implementations import refusing, with_own_code

    def step(of: torch.Tensor, hs: list[torch.Tensor], cs: list[torch.Tensor]) -> Any:
        for index, (w_ih, w_hh, b_ih, b_hh) in enumerate(network.layers):
            pairs = (of, w_ih, b_ih), (hs[index], w_hh, b_hh)
            gates = [torch.nn.functional.linear(*pair).chunk(network.gates, 1) for pair in pairs]
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

    with refusing("torch.compile"):
        precise(run)()
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
    for kind, cell in CELLS.items():
        module, x = getattr(torch.nn, kind)(64, 1024).to(device), torch.randn(2, 4096, 64, device=device)
        loop = StepLoop(checked(module, x), x, LOOPS["fused"])
        expected = module.double()(x.double())[0].detach()
        numbers = 2 * GATES[cell] + 1 + {"lstm": 2, "gru": 1}.get(cell, 0)
        launch = partial(loop.fused[0], 1, loop.y[0][0])
        yield Example(cell, 0.0, float(numbers * loop.zeros.nbytes), launch, expected, checked=precise(loop))


if __name__ == "__main__":
    alone(examples, CudaFile(SOURCE, ("-DKIND=2", "-DTYPE=0")))
