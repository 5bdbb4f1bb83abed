"""`PersistentRNN`: a torch RNN or LSTM whose recurrent weights stay on the chip for all time steps, gradients included.

>>> net = PersistentRNN(torch.nn.LSTM(512, 1024, device="cuda"))    # doctest: +SKIP
>>> y, (h, c) = net(x)                                              # doctest: +SKIP
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.gpu.precision import float32_recurrence
from brrr.kernels.recurrent.plan import BYTES, TYPES
from brrr.kernels.recurrent.running import chosen, event_ms, run_backward, run_forward

Tensor = torch.Tensor
State = Tensor | tuple[Tensor, Tensor] | None

CALL = "PersistentRNN"
HALF_FROM = (8, 0)
"""The first GPUs whose tensor cores the half types' kernel is written for."""


class PersistentRNN(torch.nn.Module):
    """A torch RNN or LSTM that runs each layer as one kernel, over all time steps, with its weights kept on the chip.

    >>> lstm = torch.nn.LSTM(256, 256, device="cuda")                     # doctest: +SKIP
    >>> y, (h, c) = PersistentRNN(lstm)(torch.randn(100, 4, 256, device="cuda"))      # doctest: +SKIP

    It shares the module's parameters and is called as the module is.

    Parameters
    ----------
    module : torch.nn.RNN or torch.nn.LSTM
        The layer; an RNN with tanh or ReLU, all parameters in float32, float16 or bfloat16. Inputs have the shape
        (steps, batch, inputs), with batch_first (batch, steps, inputs), or no batch.
    debug : bool
        Blocks that wait too long give up, with an UnavailableError, instead of hanging.
    choose : bool
        The first call of a shape (without gradients) also times cuDNN, and the faster of the two computes that shape
        from then on. With False it is always the one kernel. Nothing is timed during a capture.

    Raises
    ------
    ArgumentError
        For what it cannot compute: a GRU, two directions, projections, dropout in training, or a layer too large for
        the chip. The message names the largest that fits.
    UnavailableError
        If there is no GPU.

    Notes
    -----
    Sums are added up in float32. Products of float32 are computed in float32, or as three products of TF32 that
    together keep 22 bits of each factor (docs/rnn_details.md); the input's matmul is torch's. There is no double
    backward. Within a process, repeated calls give the same result.

    References
    ----------
    G. Diamos et al., "Persistent RNNs: Stashing Recurrent Weights On-Chip" (2016), had the idea.
    """

    def __init__(self, module: torch.nn.RNN | torch.nn.LSTM, debug: bool = False, choose: bool = True) -> None:
        super().__init__()
        self.cell = checked_module(module)
        self.module, self.debug, self.choose = module, debug, choose and not debug
        self._won: dict[object, bool] = {}

    def forward(self, x: Tensor, state: State = None) -> tuple[Tensor, Any]:
        """The results and the last state, as the module returns them: (y, h), or (y, (h, c)) for an LSTM."""
        module = self.module
        checked_input(module, x)
        needs = torch.is_grad_enabled() and any(
            each.requires_grad for each in (x, *module.parameters(), *_tensors(state))
        )
        if self.choose and not needs and self._cudnn_wins(x, state):
            return self._by_cudnn(x, state)
        return self._one_launch(x, state)

    def _batch(self, x: Tensor) -> int:
        return x.shape[0 if self.module.batch_first else 1] if x.dim() == 3 else 1

    def _cudnn_wins(self, x: Tensor, state: State) -> bool:
        """Timed once, and kept for the batch, the type, the GPU and about so many steps."""
        batch = self._batch(x)
        key = batch, (x.numel() // batch).bit_length(), x.dtype, x.device
        if key not in self._won:
            if torch.cuda.is_current_stream_capturing():
                return False
            with torch.no_grad(), torch.cuda.device(x.device):
                ours, theirs = (event_ms(partial(way, x, state)) for way in (self._one_launch, self._by_cudnn))
            self._won[key] = theirs < ours
        return self._won[key]

    def _by_cudnn(self, x: Tensor, state: State) -> tuple[Tensor, Any]:
        checked_state(self.module, self.cell, state, self._batch(x), x.dim() == 3, x)
        whole = tuple(each.contiguous() for each in _tensors(state))
        with float32_recurrence():
            return self.module(x, whole if len(whole) == 2 else whole[0] if whole else None)  # type: ignore[no-any-return]

    def _one_launch(self, x: Tensor, state: State) -> tuple[Tensor, Any]:
        module, batched, first = self.module, x.dim() == 3, bool(self.module.batch_first)
        x = x.unsqueeze(1) if not batched else x.transpose(0, 1) if first else x
        hs, cs = checked_state(module, self.cell, state, x.shape[1], batched, x)
        last = []
        with torch.cuda.device(x.device):
            for layer in range(module.num_layers):
                h, c = (each[layer] if each is not None else None for each in (hs, cs))
                x, *ends = self._layer(x, layer, h, c)
                last.append(ends)
        ends = [torch.stack(each) for each in zip(*last, strict=True)]
        if not batched:
            x, ends = x.squeeze(1), [each.squeeze(1) for each in ends]
        elif first:
            x = x.transpose(0, 1)
        return x, tuple(ends) if self.cell == "lstm" else ends[0]

    def _layer(self, x: Tensor, layer: int, h: Tensor | None, c: Tensor | None) -> tuple[Tensor, ...]:
        """One layer's results (steps, batch, hidden) and its last state or states."""
        module, gates = self.module, 4 if self.cell == "lstm" else 1
        w_ih, w_hh = getattr(module, f"weight_ih_l{layer}"), getattr(module, f"weight_hh_l{layer}")
        bias = None
        if module.bias:
            bias = getattr(module, f"bias_ih_l{layer}") + getattr(module, f"bias_hh_l{layer}")
        hidden, whole = module.hidden_size, 4 if x.dtype == torch.float32 else 8
        more = -hidden % whole
        if more:  # the kernel reads 16 bytes at a time: rows of zeros, whose results are zeros
            w_ih, w_hh = grown(w_ih, gates, more), torch.nn.functional.pad(grown(w_hh, gates, more), (0, more))
            bias = grown(bias.unsqueeze(1), gates, more).squeeze(1) if bias is not None else None
            h, c = (torch.nn.functional.pad(each, (0, more)) if each is not None else None for each in (h, c))
        y, c_last = Recurrence.apply(  # type: ignore[no-untyped-call]
            x, w_ih, w_hh, bias, h, c, self.cell, self.debug
        )
        ends = (y[-1], c_last) if gates == 4 else (y[-1],)
        return tuple(each[..., :hidden] for each in (y, *ends)) if more else (y, *ends)


def _tensors(state: State) -> tuple[Tensor, ...]:
    return () if state is None else tuple(state) if isinstance(state, tuple | list) else (state,)


def aligned(tensor: Tensor) -> Tensor:
    """A tensor that can be read 16 bytes at a time: itself, or a copy."""
    tensor = tensor.contiguous()
    return tensor.clone() if tensor.data_ptr() % BYTES else tensor


def grown(matrix: Tensor, gates: int, more: int) -> Tensor:
    """Rows (gates * hidden, ..) with `more` of zeros behind each gate's."""
    return torch.nn.functional.pad(matrix.unflatten(0, (gates, -1)), (0, 0, 0, more)).flatten(0, 1)


class Recurrence(torch.autograd.Function):
    """The input's product and the recurrence of one layer."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w_ih: Tensor, w_hh: Tensor, bias: Tensor | None, h: Tensor | None, c: Tensor | None,
        cell: str, debug: bool,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        train = any(ctx.needs_input_grad)
        of_layer = cell, w_hh.shape[1], x.shape[1], str(w_hh.dtype)[6:], w_hh.device.index
        made, back = chosen(*of_layer), chosen(*of_layer, backward=True) if train else None
        gates = torch.nn.functional.linear(x, w_ih, bias)
        h = aligned(h) if h is not None else None
        wide = c.float().contiguous() if c is not None else None
        y, cells, last = run_forward(made, aligned(w_hh), gates, h, wide, train, debug)
        if train:
            ctx.save_for_backward(x, w_ih, w_hh, h, wide, y, gates if cell == "lstm" else y, cells)
            ctx.plan, ctx.debug, ctx.biased = back, debug, bias is not None
        return y, last.to(y.dtype) if last is not None else None

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor, last_grad: Tensor | None) -> tuple[Any, ...]:
        x, w_ih, w_hh, h, c, y, saved, cells = ctx.saved_tensors
        last_grad = last_grad.float().contiguous() if last_grad is not None else None
        found, first = run_backward(
            ctx.plan, w_hh.t().contiguous(), grad.contiguous(), saved, cells, c, last_grad, ctx.debug
        )
        flat, before = found.flatten(0, 1), y.new_zeros(y[0].shape) if h is None else h
        states = torch.cat([before.unsqueeze(0), y[:-1]]).flatten(0, 1)
        needs = ctx.needs_input_grad
        return (
            found @ w_ih if needs[0] else None,
            flat.t() @ x.flatten(0, 1) if needs[1] else None,
            flat.t() @ states if needs[2] else None,
            flat.sum(0) if ctx.biased and needs[3] else None,
            found[0] @ w_hh if h is not None and needs[4] else None,
            first.to(y.dtype) if c is not None and needs[5] and first is not None else None,
            None,
            None,
        )


def checked_module(module: object) -> str:
    """The name of the cell that a module computes; ArgumentError where the kernel has none for it."""
    if not isinstance(module, torch.nn.RNN | torch.nn.LSTM):
        raise ArgumentError(CALL, "module", type(module).__name__, "a torch.nn.RNN or a torch.nn.LSTM")
    if module.bidirectional:
        raise ArgumentError(CALL, "module.bidirectional", True, "one direction")
    if module.proj_size:
        raise ArgumentError(CALL, "module.proj_size", module.proj_size, "0")
    return "lstm" if isinstance(module, torch.nn.LSTM) else f"rnn_{module.nonlinearity}"


def checked_input(module: torch.nn.RNN | torch.nn.LSTM, x: object) -> None:
    """ArgumentError for an input that the module cannot take; UnavailableError where it is not on a GPU."""
    if not isinstance(x, torch.Tensor):
        raise ArgumentError(CALL, "x", type(x).__name__, "a tensor (steps, batch, inputs)", "Pad packed sequences")
    if x.dim() not in (2, 3) or x.shape[-1] != module.input_size or not x.numel():
        raise ArgumentError(CALL, "x", tuple(x.shape), f"(steps, batch, {module.input_size}), each 1 or more")
    weight = module.weight_hh_l0
    if str(x.dtype)[6:] not in TYPES or any(each.dtype != x.dtype for each in module.parameters()):
        types = f"x {x.dtype}, weights {weight.dtype}"
        raise ArgumentError(CALL, "x", types, f"one type of {', '.join(TYPES)} for both")
    if not x.is_cuda:
        raise UnavailableError(f"{CALL}: x is on {x.device}, and the kernel runs on a GPU; use the module itself")
    if weight.device != x.device:
        raise ArgumentError(CALL, "x", str(x.device), f"the weights' device, {weight.device}")
    if x.dtype != torch.float32 and torch.cuda.get_device_capability(x.device) < HALF_FROM:
        raise UnavailableError(f"{CALL}: half types need a GPU from sm_80 on; use the module itself")
    if module.dropout and module.training:
        raise ArgumentError(CALL, "module.dropout", module.dropout, "0, or module.eval()")


def checked_state(
    module: torch.nn.RNN | torch.nn.LSTM, cell: str, state: State, batch: int, batched: bool, x: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """The first states (layers, batch, hidden) and, for an LSTM, cells; None for zeros."""
    if state is None:
        return None, None
    pair = tuple(state) if cell == "lstm" and isinstance(state, tuple | list) else (state,)
    if len(pair) != (2 if cell == "lstm" else 1):
        raise ArgumentError(CALL, "state", type(state).__name__, "(h, c) for an LSTM, h for an RNN")
    shape = (module.num_layers, *((batch,) if batched else ()), module.hidden_size)
    made: list[Tensor | None] = []
    for name, each in zip("hc", pair, strict=False):
        if not isinstance(each, torch.Tensor) or (each.shape, each.dtype, each.device) != (shape, x.dtype, x.device):
            told = f"{each.dtype} {tuple(each.shape)} on {each.device}" if isinstance(each, torch.Tensor) else each
            raise ArgumentError(CALL, f"state, {name}", told, f"{x.dtype} {shape} on {x.device}")
        made.append(each if batched else each.unsqueeze(1))
    return made[0], made[1] if cell == "lstm" else None
