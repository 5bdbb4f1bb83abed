"""The text of the kernel around a line: vectors of 16 bytes, a grid-stride loop, float32 arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brrr.core.heavy import torch
from brrr.kernels.elementwise.parse import LINE_FILE

NAME = "brrr_elementwise"
THREADS, WORDS, WORD_BYTES = 256, 2, 16
"""Threads a block; each asks for two words of 16 bytes of an input before it computes."""

MOST_BLOCKS = 2**20
"""Blocks of a launch; what they leave of a larger array, they do after their first tile."""

STORED = {"float32": "float", "float64": "double", "float16": "Half", "bfloat16": "Bfloat"}
ITEMSIZE = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}

_CONVERSIONS = {
    "float16": """\
struct Half { unsigned short bits; };
__device__ __forceinline__ float widen(Half x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}
__device__ __forceinline__ void narrow(float x, Half &y) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); }
""",
    "bfloat16": """\
struct Bfloat { unsigned short bits; };
__device__ __forceinline__ float widen(Bfloat x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }
__device__ __forceinline__ void narrow(float x, Bfloat &y) {  // to the nearest, a tie to even; a NaN stays one
    const unsigned bits = __float_as_uint(x);
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    y.bits = static_cast<unsigned short>(nan ? 0x7fffu : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
""",
    "float32": """\
__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ void narrow(float x, float &y) { y = x; }
""",
    "float64": """\
__device__ __forceinline__ double widen(double x) { return x; }
__device__ __forceinline__ void narrow(double x, double &y) { y = x; }
""",
}


@dataclass(frozen=True)
class Array:
    """An input array of the kernel: its name in the line, its type, how it is read, the width of a load it allows."""

    name: str
    dtype: str
    layout: Layout


@dataclass(frozen=True)
class KernelPlan:
    """All that the kernel's text depends on."""

    line: str
    output: str
    declared: bool
    arrays: tuple[Array, ...]
    numbers: tuple[str, ...]
    dtype: str
    count: int
    aligned: bool = True

    @property
    def width(self) -> int:
        """Elements a thread loads and stores at once: 16 bytes of the widest type."""
        widest = max(ITEMSIZE[each] for each in (self.dtype, *(array.dtype for array in self.arrays)))
        return WORD_BYTES // widest if self.aligned else 1

    @property
    def vectors(self) -> int:
        """Whole vectors of the result; up to `width` - 1 elements are left over."""
        return self.count // self.width

    @property
    def tiles(self) -> int:
        """What a block does at once: its threads times two vectors."""
        return max(1, -(-self.vectors // (THREADS * WORDS)))


def number_type(dtype: str) -> str:
    """The type of an element in the line."""
    return "double" if dtype == "float64" else "float"


_KERNEL = """\
// {line}
// {count} elements, {width} at a time, {dtype}; made by brrr.
#pragma nv_diag_suppress 186  // an array shorter than a vector compares with zero
using Index = {index};
constexpr int VECTOR = {width}, THREADS = {threads}, WORDS = {words};
constexpr Index COUNT = {count}, VECTORS = {vectors}, TILES = {tiles};
constexpr bool EVEN = {even}, ONCE = {once}, LEFT = COUNT % VECTOR;
template <class T> struct alignas(sizeof(T) * VECTOR) Pack {{ T at[VECTOR]; }};
{conversions}
__device__ __forceinline__ {kind} brrr_line({parameters}) {{
    {declared}
#line 1 "{line_file}"
{line};
#line 1 "generated"
    return {output};
}}
extern "C" __global__ void __launch_bounds__(THREADS) {name}({takes}) {{
    Index tile = blockIdx.x;
    do {{
        const Index first = tile * (THREADS * WORDS) + threadIdx.x;
        {kept}
#pragma unroll
        for (int w = 0; w < WORDS; ++w) {{  // every load of a tile, then the arithmetic and the stores
            const Index v = first + w * THREADS;
            if (EVEN || v < VECTORS) {{ {loads} }}
        }}
#pragma unroll
        for (int w = 0; w < WORDS; ++w) {{
            const Index v = first + w * THREADS;
            if (EVEN || v < VECTORS) {{
                Pack<{stored}> out;
#pragma unroll
                for (int k = 0; k < VECTOR; ++k) narrow(brrr_line({values}), out.at[k]);
                reinterpret_cast<Pack<{stored}> *>(result)[v] = out;
            }}
        }}
    }} while (!ONCE && (tile += gridDim.x) < TILES);
    const Index i = VECTORS * VECTOR + threadIdx.x;  // the elements that fill no vector, one a thread
    if (LEFT && blockIdx.x == 0 && i < COUNT) narrow(brrr_line({rest_values}), result[i]);
}}
"""


_ELEMENT = "(v * VECTOR + k)"


def source(plan: KernelPlan) -> str:
    """The kernel's text in CUDA C++; it includes nothing, so NVRTC and nvcc both take it as it is."""
    used = dict.fromkeys([plan.dtype, *(array.dtype for array in plan.arrays)])
    kind, stored = number_type(plan.dtype), STORED[plan.dtype]
    packed = [array for array in plan.arrays if array.layout.vectors(plan.width)]
    one = [f"widen(in_{array.name}[{array.layout.index('i')}])" for array in plan.arrays]
    each = {array: f"widen(in_{array.name}[{array.layout.index(_ELEMENT)}])" for array in plan.arrays}
    several = {**each, **{array: f"widen({array.name}_[w].at[k])" for array in packed}}.values()
    numbers = [f"{name}_" for name in plan.numbers]
    wide = max([plan.count, *(array.layout.reach for array in plan.arrays)]) >= 2**31  # an index may need 64 bits
    even = plan.vectors > 0 and plan.vectors % (THREADS * WORDS) == 0  # every tile is full: no thread need ask
    arrays = [f"const {STORED[array.dtype]} *__restrict__ in_{array.name}" for array in plan.arrays]
    return _KERNEL.format(
        line=plan.line, count=plan.count, width=plan.width, dtype=plan.dtype, output=plan.output, kind=kind,
        index="unsigned long long" if wide else "unsigned", threads=THREADS, words=WORDS,
        vectors=plan.vectors, tiles=plan.tiles, stored=stored,
        even=str(even).lower(), once=str(plan.tiles <= MOST_BLOCKS).lower(), line_file=LINE_FILE, name=NAME,
        conversions="\n".join(_CONVERSIONS[each].rstrip("\n") for each in used),
        parameters=", ".join([*(f"{number_type(array.dtype)} {array.name}" for array in plan.arrays),
                              *(f"{kind} {name}" for name in plan.numbers)]),
        declared="" if plan.declared else f"{kind} {plan.output};",
        takes=", ".join([*arrays, f"{stored} *__restrict__ result", *(f"{kind} {name}" for name in numbers)]),
        kept=" ".join(f"Pack<{STORED[array.dtype]}> {array.name}_[WORDS];" for array in packed),
        loads=" ".join(f"{array.name}_[w] = {_load(array)};" for array in packed),
        values=", ".join([*several, *numbers]), rest_values=", ".join([*one, *numbers]),
    )  # fmt: skip


def _load(array: Array) -> str:
    """One vector of an input, by the vector's number or by the index of its first element."""
    where = "v" if array.layout.contiguous else f"({array.layout.index('(v * VECTOR)')}) / VECTOR"
    return f"reinterpret_cast<const Pack<{STORED[array.dtype]}> *>(in_{array.name})[{where}]"


# ---------------------------------------------------------------------------------------------------------------------
# How the kernel reads an input: by which index, and whether several neighbours at a time.

Steps = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Layout:
    """An input's dimensions as (size, stride), innermost first, neighbours joined where memory has no gap.

    >>> Layout(((8, 1), (100, 0))).index("i")
    'i % 8'
    """

    steps: Steps

    @property
    def contiguous(self) -> bool:
        """Whether the input's elements lie as the result's do."""
        return len(self.steps) <= 1 and all(stride == 1 for _, stride in self.steps)

    def vectors(self, width: int) -> bool:
        """Whether `width` neighbours of the result always have neighbours here, at a multiple of `width`."""
        if self.contiguous:
            return True
        (size, stride), *outer = self.steps
        return stride == 1 and size % width == 0 and all(each % width == 0 for _, each in outer)

    @property
    def reach(self) -> int:
        """The largest index that occurs."""
        return sum((size - 1) * stride for size, stride in self.steps)

    def index(self, i: str) -> str:
        """The index in C++ of the input's element that belongs to the result's element `i`."""
        if self.contiguous:
            return i
        terms, divisor = [], 1
        for place, (size, stride) in enumerate(self.steps):
            along = i if divisor == 1 else f"{i} / {divisor}"
            along = along if place == len(self.steps) - 1 else f"{along} % {size}"
            if stride:
                terms.append(along if stride == 1 else f"({along}) * {stride}")
            divisor *= size
        return " + ".join(terms) or "0"


def layout(tensor: torch.Tensor, shape: Sequence[int]) -> Layout:
    """The layout of a tensor that is broadcast to `shape`.

    >>> import torch
    >>> layout(torch.ones(8), (100, 8)).steps, layout(torch.ones(100, 8), (100, 8)).steps
    (((8, 1), (100, 0)), ((800, 1),))
    """
    spread = tensor.expand(tuple(shape))
    joined: list[tuple[int, int]] = []
    for size, stride in zip(reversed(spread.shape), reversed(spread.stride()), strict=True):
        if size == 1:
            continue
        if joined and stride == joined[-1][0] * joined[-1][1]:
            joined[-1] = (joined[-1][0] * size, joined[-1][1])
        else:
            joined.append((size, stride))
    return Layout(tuple(joined))
