"""What is counted of a decoder of a Llama's shape: weights, keys and values, FLOP, bytes, and the floors they set."""

from collections.abc import Callable
from typing import NamedTuple

from brrr.core.measurement import Point
from brrr.counting.cost import ITEMSIZE, Cost, Form, Matmul, OperatorCost
from brrr.gpu.datasheet import Hardware
from brrr_course.experiments.predicted import flop_of, moving, pointwise, product, reduction
from brrr_course.nouns.experiment import Guide


class Shape(NamedTuple):
    """A model's sizes: the words it knows, its width, layers, heads of queries and of keys, and the network's width.

    >>> f"{LARGE.weights / 1e9:.2f} G weights, {LARGE.kv_bytes} B of keys and values a token"
    '1.24 G weights, 32768 B of keys and values a token'
    """

    words: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    inner: int
    dtype: str

    @property
    def head(self) -> int:
        """The width of a head."""
        return self.hidden // self.heads

    @property
    def kv(self) -> int:
        """The width of a layer's keys, and of its values."""
        return self.kv_heads * self.head

    @property
    def itemsize(self) -> int:
        """Bytes of a weight."""
        return ITEMSIZE[self.dtype]

    @property
    def weights(self) -> int:
        """How many weights there are; the output's are the embedding's."""
        layer = 2 * self.hidden * (self.hidden + self.kv + 1) + 3 * self.hidden * self.inner
        return self.layers * layer + self.hidden * (self.words + 1)

    @property
    def kv_bytes(self) -> int:
        """Bytes of one token's keys and values in all layers."""
        return 2 * self.layers * self.kv * self.itemsize


SMALL = Shape(8192, 256, 4, 8, 2, 1024, "float32")
LARGE = Shape(128256, 2048, 16, 32, 8, 8192, "bfloat16")
"""What runs on a CPU, and on a GPU: the second has the sizes of Llama 3.2 1B."""


LINES, LAYER_LINES = 57, 296
"""Lines of Python that a call runs, and that each layer adds, as `brrr.cost` counts them."""


class Call(NamedTuple):
    """So many sequences with so many new tokens each, behind which the cache holds `context` tokens of each.

    >>> print(Call(32, 1, 2048))
    a step for 32 readers with 2048 tokens in the cache of each
    """

    batch: int
    new: int
    context: int

    def __str__(self) -> str:
        if self.new > 1:
            return f"a prompt of {self.new} tokens"
        return f"a step for {self.batch} readers with {self.context} tokens in the cache of each"


def moved_bytes(shape: Shape, call: Call) -> tuple[float, float]:
    """What must be read (the weights, keys and values) and written (the new tokens' keys and values, the logits)."""
    logits = shape.itemsize * call.batch * shape.words
    return (
        float(shape.itemsize * shape.weights + call.batch * call.context * shape.kv_bytes),
        float(call.batch * call.new * shape.kv_bytes + logits),
    )


def needed_bytes(shape: Shape, call: Call) -> int:
    """The weights, the cache, and what a step holds beside them.

    >>> f"{needed_bytes(LARGE, Call(256, 1, 2**15)) / 1e9:.0f} GB"
    '278 GB'
    """
    rows = call.batch * call.new
    beside = 4 * rows * (6 * shape.hidden + 3 * shape.inner) + 3 * 4 * call.batch * shape.words
    return shape.itemsize * shape.weights + call.batch * call.context * shape.kv_bytes + beside


def cost_of(shape: Shape, call: Call) -> Cost:
    """FLOP and bytes of a call, with its operators as torch runs them one by one."""
    listed, moved = operators(shape, call), sum(moved_bytes(shape, call))
    eager, held = sum(each.bytes for each in listed), float(needed_bytes(shape, call))
    return Cost(flop_of(listed), moved, eager, held, listed, lines=LINES + LAYER_LINES * shape.layers)


def operators(shape: Shape, call: Call) -> tuple[OperatorCost, ...]:
    """All operators that run on the device, in their order."""
    size, rows, words = shape.itemsize, call.batch * call.new, shape.words
    width = shape.hidden
    lookup = OperatorCost("aten.index", 0.0, float(8 * rows + size * rows * width), float(size * rows * width),
                          shape.dtype, ((words, width), (call.batch, call.new)), "index",
                          form=Form("rows", rows, width, words))  # fmt: skip
    last = (*_norm(shape, call.batch), _linear(shape, call.batch, words, width))
    return (lookup, *_layer(shape, call) * shape.layers, *last)


def _layer(shape: Shape, call: Call) -> tuple[OperatorCost, ...]:
    rows, width, inner, name = call.batch * call.new, shape.hidden, shape.inner, shape.dtype
    added = pointwise("add", rows * width, shape.itemsize, name, reads=2 * rows * width)
    stored = moving("copy_", rows * shape.kv, shape.itemsize, name)
    return (
        *_norm(shape, rows),
        *(_linear(shape, rows, n, width) for n in (width, shape.kv, shape.kv)),
        *_rotated(shape, call, rows * shape.kv), stored, stored,
        *_rotated(shape, call, rows * width), _attention(shape, call),
        _linear(shape, rows, width, width), added,
        *_norm(shape, rows), _linear(shape, rows, inner, width),
        pointwise("silu", rows * inner, shape.itemsize, name, flop=4.0), _linear(shape, rows, inner, width),
        pointwise("mul", rows * inner, shape.itemsize, name, reads=2 * rows * inner),
        _linear(shape, rows, width, inner), added,
    )  # fmt: skip


def _linear(shape: Shape, rows: int, into: int, of: int) -> OperatorCost:
    return product("mm", rows, into, of, shape.itemsize, shape.dtype, transposed=(False, True))


def _norm(shape: Shape, rows: int) -> tuple[OperatorCost, ...]:
    """In float32; where the numbers have another type, a cast before and one behind."""
    width, size, name = shape.hidden, shape.itemsize, shape.dtype
    n, form = rows * width, Form("broadcast", rows, width)
    casts = [OperatorCost("aten._to_copy", 0.0, float(a * n), float(b * n), to, ((rows, width),), "copy",
                          form=Form("", 1, n)) for a, b, to in ((size, 4, "float32"), (4, size, name))]  # fmt: skip
    wide, narrow = ([casts[0]], [casts[1]]) if size != 4 else ([], [])
    return (
        *wide, pointwise("pow", n, 4), reduction("mean", Form("rows", rows, width), 4, flop=n),
        pointwise("add", rows, 4), pointwise("rsqrt", rows, 4),
        pointwise("mul", n, 4, reads=n + rows, form=form), *narrow,
        pointwise("mul", n, size, name, reads=n + width, form=form),
    )  # fmt: skip


def _rotated(shape: Shape, call: Call, n: int) -> tuple[OperatorCost, ...]:
    size, name, lines = shape.itemsize, shape.dtype, n // shape.head
    angles = call.new * shape.head
    turned = pointwise("mul", n, size, name, reads=n + angles, form=Form("broadcast", lines, shape.head))
    return (
        turned, pointwise("neg", n / 2, size, name, form=Form("broadcast", lines, shape.head // 2)),
        moving("cat", n, size, name), turned, pointwise("add", n, size, name, reads=2 * n),
    )  # fmt: skip


def _attention(shape: Shape, call: Call) -> OperatorCost:
    """All queries with all keys, as `brrr.cost` counts it: in a prefill half of these are masked."""
    many, count, keys, head = call.batch * shape.heads, call.new, call.context, shape.head
    made = (Matmul(count, keys, head, many, shape.dtype), Matmul(count, head, keys, many, shape.dtype))
    queries = float(shape.itemsize * many * count * head)
    read = queries + 2.0 * shape.itemsize * call.batch * keys * shape.kv
    heads = [(call.batch, each, n, head) for each, n in ((shape.heads, count), (shape.kv_heads, keys))]
    form = Form("causal" if count > 1 else "all", many * count, head)
    return OperatorCost("aten._scaled_dot_product_flash_attention", sum(each.flop for each in made), read, queries,
                        shape.dtype, (heads[0], heads[1], heads[1]), "attention", made, form)  # fmt: skip


def least_flop(shape: Shape, call: Call) -> float:
    """The matmuls' FLOP, and attention's without what the mask hides."""
    matmuls = [each for one in operators(shape, call) if one.kind == "matmul" for each in one.matmuls]
    seen = call.context if call.new == 1 else (call.new + 1) / 2
    return sum(each.flop for each in matmuls) + 4.0 * shape.layers * call.batch * call.new * seen * shape.hidden


def floors(call_at: Callable[[Point], Call], lines: tuple[str, ...]) -> tuple[Guide, Guide]:
    """What the datasheet's bandwidth and its peak leave of the time at a point."""

    def at_bandwidth(hardware: Hardware | None, point: Point) -> float | None:
        return bytes_floor_s(hardware, call_at(point))

    def at_peak(hardware: Hardware | None, point: Point) -> float | None:
        return flop_floor_s(hardware, call_at(point))

    return (
        Guide("bytes", "bytes over the bandwidth", "DATASHEET", "time", at_bandwidth, lines),
        Guide("flop", "FLOP over the peak", "DATASHEET", "time", at_peak, lines),
    )


def bytes_floor_s(hardware: Hardware | None, call: Call) -> float | None:
    """The bytes over the memory's bandwidth, of the model that runs on GPUs; None where there is no datasheet."""
    return sum(moved_bytes(LARGE, call)) / hardware.memory_bytes_per_s if hardware else None


def flop_floor_s(hardware: Hardware | None, call: Call) -> float | None:
    """The FLOP over the tensor cores' peak; None where the datasheet has none."""
    known = hardware is not None and any(name == "bf16" for name, _ in hardware.peaks)
    return least_flop(LARGE, call) / hardware.peak("bf16") if hardware and known else None
