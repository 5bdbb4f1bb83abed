"""The operators that are swept over and take more than matrices: images, heads, tables, and gradients."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch.nn import functional as f

from brrr.roofline.calibrate.reference_calls import Again
from tools.reference.products import log_uniform

Tensor = torch.Tensor
Shape = tuple[int, ...]
Shapes = Callable[[random.Random, float], Sequence[Shape]]
"""Draws the shapes of a call's operands; the number says about how many elements the first has."""

CLASSES = 65536
"""A vocabulary has so many."""
SIZES, CHOSEN = 48, 96
"""Calls of a layer in each data type; twice as many of what a library chooses among kernels for: they differ by ten
times."""


@dataclass(frozen=True)
class Swept:
    """One operator: its call, its operands' shapes, up to how many elements it is swept, and in how many calls.

    `places`: its last operand holds places along that axis of the first one. `gradient`: what is timed is autograd's
    operator for the gradients of so many operands at most. `last`: images and weights lie channels last. `matrix`: its
    operands are matrices alike, and `most` are bytes. `mask`: the last operand is truth values. `rough`: so many times
    the usual rounding is right in float32. `right` tells whether a result is right that float64 does not.
    """

    run: Callable[..., Tensor | Sequence[Tensor]]
    shapes: Shapes
    most: float = 4e7
    places: int | None = None
    gradient: int = 0
    calls: int = SIZES
    last: bool = False
    matrix: bool = False
    mask: bool = False
    rough: float = 1.0
    right: Callable[[Tensor, Tensor], bool] | None = None

    def call(self, shapes: Sequence[Shape]) -> Again:
        """On operands of these shapes."""
        return Again(self.run, shapes, self.gradient, self.places, self.last, self.mask)


# ---------------------------------------------------------------------------------------------------------------------
# Shapes: usual sizes and odd ones.


def matrix(draw: random.Random, elements: float, widest: int = 8192, least_power: int = 3) -> Shape:
    columns = draw.choice(
        (log_uniform(draw, 2, widest), 2 ** draw.randint(least_power, 13), 64 * draw.randint(1, widest // 256))
    )
    columns = max(2, min(columns, int(elements / 2)))
    return max(2, int(elements / columns)), columns


def _image(draw: random.Random, elements: float) -> Shape:
    side = draw.choice((7, 14, 28, 56, 112, draw.randint(7, 112)))
    side = min(side, max(3, int((elements / 16) ** 0.5)))
    width = draw.choice((side, side, draw.randint(max(3, side // 2), side)))
    channels = draw.choice((16, 32, 48, 64, 96, 128, 192, 256, log_uniform(draw, 16, 512)))
    return max(1, round(elements / channels / side / width)), channels, side, width


def _beside(first: Callable[[random.Random, float], Shape], others: Callable[[Shape], Sequence[Shape]]) -> Shapes:
    """A first operand, and others for its shape."""

    def shapes(draw: random.Random, elements: float) -> Sequence[Shape]:
        shape = first(draw, elements)
        return shape, *others(shape)

    return shapes


_matrix_alone, _image_alone = _beside(matrix, lambda shape: ()), _beside(_image, lambda shape: ())
_normed = _beside(matrix, lambda shape: (shape[1:], shape[1:]))
_with_channels = _beside(_image, lambda shape: (shape[1:2], shape[1:2]))
"""A weight and a bias for each column, or for each channel: without these a GPU's library is not asked."""
_matrices_alike = _beside(matrix, lambda shape: (shape,))
_matrices_three = _beside(matrix, lambda shape: (shape, shape))
_scored = _beside(partial(matrix, widest=CLASSES), lambda shape: (shape[:1],))
_images_and_channels = _beside(_image, lambda shape: (shape[1:2],))
_with_statistics = _beside(_image, lambda shape: (shape[1:2],) * 4)


def _filtered(size: int, first: float = 0.0) -> Shapes:
    """An image, and a convolution's weight of that size for it; that share of them are a network's first ones."""

    def shapes(draw: random.Random, elements: float) -> Sequence[Shape]:
        n, c, h, w = _pixels(draw, elements) if draw.random() < first else _image(draw, elements)
        out = draw.choice((max(c, 16), 64, 128, 256, 2 * max(c, 8), log_uniform(draw, 16, 512)))
        return (n, c, h, w), (out, c, size, size)

    return shapes


def _pixels(draw: random.Random, elements: float) -> Shape:
    """Images as they come: of few colours, and large."""
    side = min(draw.choice((64, 128, 224, 256, log_uniform(draw, 32, 320))), max(3, int((elements / 3) ** 0.5)))
    colours = draw.choice((1, 3, 3, 4))
    return max(1, round(elements / colours / side**2)), colours, side, side


def _grouped(draw: random.Random, elements: float) -> Sequence[Shape]:
    """An image, and a 3 x 3 weight for groups of its channels: as many results as channels, or another number."""
    n, c, h, w = _image(draw, elements)
    groups = min(draw.choice((2, 4, 8, 16, 32, log_uniform(draw, 2, 64))), max(2, c // 2))
    inner = max(2, round(c / groups))
    outer = draw.choice((inner, inner, log_uniform(draw, 2, 64)))
    return (n, groups * inner, h, w), (groups * outer, inner, 3, 3)


def _depthwise(draw: random.Random, elements: float) -> Sequence[Shape]:
    image = _image(draw, elements)
    size = draw.choice((3, 3, 5, 7))
    return image, (image[1], 1, size, size)


def _transposed(draw: random.Random, elements: float) -> Sequence[Shape]:
    image = _image(draw, elements / 4)
    size = draw.choice((2, 2, 3, 4))
    return image, (image[1], draw.choice((max(1, image[1] // 2), 16, 64, log_uniform(draw, 8, 256))), size, size)


def _volume(draw: random.Random, elements: float) -> Sequence[Shape]:
    """Volumes of 8 to 64 elements a side, of few channels, and a 3 x 3 x 3 weight for them."""
    side = min(draw.choice((8, 16, 32, 64, draw.randint(8, 64))), max(4, int(elements ** (1 / 3))))
    channels = draw.choice((1, 4, 16, 32, 64))
    count = max(1, round(elements / channels / side**3))
    return (count, channels, *(side,) * 3), (draw.choice((8, 16, 32, 64)), channels, 3, 3, 3)


def _tokens(draw: random.Random, elements: float) -> Sequence[Shape]:
    """As attention's heads are split and joined: (batch, tokens, heads, width)."""
    width = draw.choice((32, 64, 64, 80, 128, 8 * draw.randint(2, 32)))
    heads, tokens = draw.randint(1, 32), draw.choice((2 ** draw.randint(5, 11), log_uniform(draw, 16, 2048)))
    return ((max(1, round(elements / width / heads / tokens)), tokens, heads, width),)


def _heads(draw: random.Random, elements: float) -> Sequence[Shape]:
    usual = 2 ** draw.randint(6, 11)
    width = draw.choice((16, 32, 64, 64, 80, 128, 8 * draw.randint(2, 32)))
    tokens = draw.choice((usual, usual, log_uniform(draw, 32, 4096)))
    tokens = min(tokens, max(16, int(elements / width)))
    heads = max(1, min(round(elements / width / tokens), int(6e8 / tokens**2)))
    return ((1, heads, tokens, width),) * 3


def _table(draw: random.Random, elements: float) -> Sequence[Shape]:
    """A table, and places in its rows: far fewer than these, or several times as many."""
    rows, columns = matrix(draw, elements)
    return (rows, columns), (max(2, round(rows * math.exp(draw.uniform(math.log(0.02), math.log(8))))),)


def _table_and_source(draw: random.Random, elements: float) -> Sequence[Shape]:
    table, places = _table(draw, elements)
    return table, (places[0], table[1]), places


def _everywhere(shapes: Shapes) -> Shapes:
    """The same with a place for each element of a row."""

    def wider(draw: random.Random, elements: float) -> Sequence[Shape]:
        *others, places = shapes(draw, elements)
        return *others, (*places, others[0][1])

    return wider


def _within_rows(draw: random.Random, elements: float) -> Sequence[Shape]:
    """A matrix, and places in each of its rows; as many or fewer than it has columns."""
    rows, columns = matrix(draw, elements)
    return (rows, columns), (rows, max(1, round(columns * draw.uniform(0.02, 1))))


def _within_rows_and_source(draw: random.Random, elements: float) -> Sequence[Shape]:
    table, places = _within_rows(draw, elements)
    return table, places, places


def _signal(draw: random.Random, elements: float) -> Sequence[Shape]:
    """Signals of several channels, and a filter of 3 to 9 elements for them."""
    channels = draw.choice((1, 16, 32, 64, 128, 256, log_uniform(draw, 4, 512)))
    usual = draw.choice((2 ** draw.randint(6, 14), log_uniform(draw, 50, 16384)))
    length = min(usual, max(10, int(elements / channels)))
    out = draw.choice((max(channels, 16), 64, 128, 256, log_uniform(draw, 16, 512)))
    signals = max(1, round(elements / channels / length))
    return (signals, channels, length), (out, channels, draw.choice((3, 3, 5, 7, 9)))


def _cells(gates: int) -> Shapes:
    """Of so many gates each: what comes from the input and from the state, then the state, and a bias for each."""

    def shapes(draw: random.Random, elements: float) -> Sequence[Shape]:
        hidden = min(draw.choice((2 ** draw.randint(5, 11), log_uniform(draw, 32, 2048))), max(8, int(elements)))
        rows = max(1, round(elements / hidden))
        return *((rows, gates * hidden),) * 2, (rows, hidden), *((gates * hidden,),) * 2

    return shapes


def _rows(draw: random.Random, elements: float) -> Sequence[Shape]:
    """Two operands whose rows are lists of tensors, as many as a network has parameters."""
    count = draw.choice((2, 5, 12, 30, 80, 200))
    return ((count, max(1, int(elements / count))),) * 2


# ---------------------------------------------------------------------------------------------------------------------
# The operators.


def _convolve(x: Tensor, w: Tensor, stride: int = 1) -> Tensor:
    return f.conv2d(x, w, None, stride, w.shape[-1] // 2, 1, x.shape[1] // w.shape[1])


def _convolve_back(x: Tensor, w: Tensor) -> Tensor:
    return f.conv_transpose2d(x, w, None, 2, (w.shape[-1] - 1) // 2)


def _convolve_spread(x: Tensor, w: Tensor) -> Tensor:
    return f.conv2d(x, w, None, 1, 2, 2)


def _fixed_norm(x: Tensor, *of: Tensor) -> Tensor:
    """As in inference; with so large an eps that no variance from the pool is below zero."""
    mean, variance, weight, bias = of
    return f.batch_norm(x, mean, variance, weight, bias, eps=30.0)


def _grouped_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """In 32 groups or as many as there can be."""
    return f.group_norm(x, math.gcd(x.shape[1], 32), w, b)


def _forward() -> Mapping[str, Swept]:
    attend = f.scaled_dot_product_attention
    return {
        "convolution 1x1": Swept(_convolve, _filtered(1), calls=CHOSEN),
        "convolution 3x3": Swept(_convolve, _filtered(3, 0.1), 3e7, calls=CHOSEN),
        "convolution 3x3, stride 2": Swept(partial(_convolve, stride=2), _filtered(3, 0.1), 3e7, calls=SIZES // 2),
        "convolution 5x5": Swept(_convolve, _filtered(5, 0.1), 1.5e7, calls=SIZES // 2),
        "convolution 7x7": Swept(partial(_convolve, stride=2), _filtered(7, 0.5), 1e7),
        "convolution, depthwise": Swept(_convolve, _depthwise),
        "convolution, grouped": Swept(_convolve, _grouped, 2e7, calls=CHOSEN),
        "1d convolution": Swept(lambda x, w: f.conv1d(x, w, None, 1, w.shape[-1] // 2), _signal, 2e7, calls=CHOSEN),
        "transposed convolution": Swept(_convolve_back, _transposed, 1e7),
        "dilated convolution": Swept(_convolve_spread, _filtered(3), 1e7),
        "volume convolution": Swept(lambda x, w: f.conv3d(x, w, None, 1, 1), _volume, 1e7),
        "attention": Swept(attend, _heads, calls=CHOSEN),
        "causal attention": Swept(partial(attend, is_causal=True), _heads, calls=CHOSEN),
        "max pooling": Swept(lambda x: f.max_pool2d(x, 3, 2, 1), _image_alone),
        "average pooling": Swept(lambda x: f.avg_pool2d(x, 2), _image_alone),
        "batch norm of images": Swept(lambda x, w, b: f.batch_norm(x, None, None, w, b, True), _with_channels),
        "group norm of images": Swept(_grouped_norm, _with_channels),
        "fixed batch norm of images": Swept(_fixed_norm, _with_statistics),
        "instance norm": Swept(f.instance_norm, _image_alone),
        "layer norm with weights": Swept(lambda x, *w: f.layer_norm(x, x.shape[-1:], *w), _normed),
        "RMS norm with weights": Swept(lambda x, w, _: f.rms_norm(x, x.shape[-1:], w), _normed),
        "select rows": Swept(lambda x, at: x.index_select(0, at), _table, places=0),
        "embedding": Swept(lambda x, at: f.embedding(at, x), _table, places=0),
        "gather": Swept(lambda x, at: x.gather(0, at), _everywhere(_table), places=0),
        "add rows": Swept(lambda x, y, at: x.index_add(0, at, y), _table_and_source, places=0),
        "scatter": Swept(lambda x, y, at: x.scatter_add(0, at, y), _everywhere(_table_and_source), places=0),
        "gather in rows": Swept(lambda x, at: x.gather(1, at), _within_rows, places=1),
        "scatter in rows": Swept(lambda x, y, at: x.scatter_add(1, at, y), _within_rows_and_source, places=1),
        "loss": Swept(f.nll_loss, _scored, places=1),
        "pad": Swept(lambda x: f.pad(x, (1, 1, 1, 1)), _image_alone),
        "permute": Swept(lambda x: x.permute(0, 2, 3, 1).contiguous(), _image_alone),
        "rows by an index": Swept(lambda x, at: x[at], _table, places=0),

        "squared error": Swept(f.mse_loss, _matrices_alike),
        "squared error, gradient": Swept(f.mse_loss, _matrices_alike, gradient=1),
        "to channels last": Swept(lambda x: x.contiguous(memory_format=torch.channels_last), _image_alone),
        "to channels first": Swept(torch.Tensor.contiguous, _image_alone, last=True),
        "split heads": Swept(lambda x: x.transpose(1, 2).contiguous(), _tokens),
        "pixels from channels": Swept(lambda x: f.pixel_shuffle(x[:, : x.shape[1] // 4 * 4], 2), _image_alone),
        "repeat rows": Swept(lambda x: x[:, None].expand(-1, 4, -1).contiguous(), _matrix_alone, 1e7),
        "repeat": Swept(lambda x: x.repeat(4, 1), _matrix_alone, 1e7),
        "every other column": Swept(lambda x: x[:, ::2].contiguous(), _matrix_alone),
        "half of the columns": Swept(lambda x: x[:, : x.shape[1] // 2].contiguous(), _matrix_alone),
        "gated": Swept(lambda x: f.glu(x[:, : x.shape[1] // 2 * 2]), _matrix_alone),
        "concatenate columns": Swept(lambda *both: torch.cat(both, 1), _matrices_alike),
        "concatenate columns of three": Swept(lambda *all: torch.cat(all, 1), _matrices_three),
        "add to channels": Swept(lambda x, b: x + b[:, None, None], _images_and_channels),
        "LSTM cell": Swept(torch.ops.aten._thnn_fused_lstm_cell, _cells(4), 5e6),
        "GRU cell": Swept(torch.ops.aten._thnn_fused_gru_cell, _cells(3), 5e6),
        "list, multiply by a number": Swept(lambda x, y: torch._foreach_mul(x.unbind(0), 0.9), _rows),
        "list, add": Swept(lambda x, y: torch._foreach_add(x.unbind(0), y.unbind(0)), _rows),
        "list, mix": Swept(lambda x, y: torch._foreach_lerp(x.unbind(0), y.unbind(0), 0.1), _rows),
        "list, add a product": Swept(lambda x, y: torch._foreach_addcmul(x.unbind(0), *(y.unbind(0),) * 2), _rows),
    }  # fmt: skip


def _gradients() -> Mapping[str, Swept]:
    forward, cell = _forward(), torch.ops.aten._thnn_fused_lstm_cell
    both = ("convolution", "1d", "transposed", "dilated", "volume", "attention", "causal", "max", "average", "batch")
    kept = {name: forward[name] for name in forward if name.startswith(both)}
    kept["convolution 5x5"] = replace(kept["convolution 5x5"], rough=10.0)  # cuDNN's weight's gradient is 2e-3 off
    return {
        **{f"{name}, gradient": replace(each, most=each.most / 2, gradient=3) for name, each in kept.items()},
        "layer norm, gradients of weights": Swept(lambda x, *w: f.layer_norm(x, x.shape[-1:], *w), _normed, gradient=3),
        "layer norm, gradient": Swept(lambda x: f.layer_norm(x, x.shape[-1:]), _matrix_alone, gradient=1),
        "group norm, gradient": Swept(_grouped_norm, _with_channels, gradient=3),
        "softmax, gradient": Swept(lambda x: x.softmax(-1), _matrix_alone, gradient=1),
        "log softmax, gradient": Swept(lambda x: x.log_softmax(-1), _matrix_alone, gradient=1),
        "softmax of columns, gradient": Swept(lambda x: x.softmax(0), _matrix_alone, gradient=1),
        "relu, gradient": Swept(torch.relu, _matrix_alone, gradient=1),
        "gelu, gradient": Swept(f.gelu, _matrix_alone, gradient=1),
        "LSTM cell, gradient": Swept(lambda *of: cell(*of[:3])[0], _cells(4), 5e6, gradient=3),
        "embedding, gradient": Swept(lambda x, at: f.embedding(at, x), _table, places=0, gradient=1),
        "loss, gradient": Swept(f.nll_loss, _scored, places=1, gradient=1),
    }


def layers() -> Mapping[str, Swept]:
    """All of them, the gradients behind the others, and convolutions with channels last."""
    every = {**_forward(), **_gradients()}
    turned = {f"{name}, last": replace(every[name], last=True) for name in every if name.startswith("convolution")}
    return {**every, **turned}
