"""What one launch of `strassen_sums.cu` does, as the macros that choose it, and how its work is cut among threads.

>>> job = Job(level=3, source="matrix", terms=1)
>>> job.tuning().vector, "#define LEVEL 3" in job.text()
(2, True)

Loads neither torch nor numpy.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

ITEMSIZE = {"float32": 4, "float16": 2, "bfloat16": 2}
"""Bytes of the types that the kernels take, by torch's names."""

Table = tuple[tuple[int, ...], ...]
WORD = 16
"""Bytes of the widest access."""


@dataclass(frozen=True)
class Tuning:
    """How the work is cut among threads.

    vector: neighbours a thread takes. ahead: 7^ahead products are loaded together. resident: blocks that a
    multiprocessor holds, which limits the registers. rolled: the outermost seven are a loop.
    """

    vector: int
    threads: int = 128
    resident: int = 1
    ahead: int = 1
    rolled: bool = False


@dataclass(frozen=True)
class Job:
    """One kernel: from a matrix or from products, with bias and ReLU or without, to a matrix, to buffers, or to both.

    terms: 0 writes no buffers, 1 writes one, 2 writes each number as two of float16. spread: a form's sums of blocks,
    7 x 4, collect: of products, 4 x 7; empty where they are not needed. edge: see `edge_of`.
    """

    level: int
    source: str = "products"
    to_matrix: bool = False
    terms: int = 0
    bias: str | None = None
    relu: bool = False
    in_type: str = "float32"
    matrix_type: str = "float32"
    out_type: str = "float32"
    spread: Table = ()
    collect: Table = ()
    edge: int = 2

    @property
    def kind(self) -> str:
        """ "pre_add", "post_add" or "step".

        >>> Job(1, source="matrix", terms=1).kind, Job(1, to_matrix=True).kind, Job(1, terms=1).kind
        ('pre_add', 'post_add', 'step')
        """
        if self.source == "matrix":
            return "pre_add"
        return "step" if self.terms else "post_add"

    @property
    def widest(self) -> int:
        """Bytes of a number where most of the traffic is: in the buffers, or in the products."""
        return ITEMSIZE[self.in_type] if self.kind != "pre_add" else 2 if self.terms == 2 else ITEMSIZE[self.out_type]

    def ending(self, edge: int) -> Job:
        """The same for a matrix that ends so."""
        return replace(self, edge=edge)

    def tuning(self) -> Tuning:
        """How the work is cut, where nobody says otherwise."""
        narrow = self.in_type != "float32" and self.widest != 4
        if not narrow and self.kind == "pre_add" and self.widest == 2 and self.level in NARROWED:
            return NARROWED[self.level]
        return TUNINGS.get((self.kind, self.level, "narrow" if narrow else "wide"), Tuning(4))

    def text(self, tuning: Tuning | None = None) -> str:
        """The macros in front of the source."""
        return "".join(f"#define {name} {value}\n" for name, value in self.macros(tuning or self.tuning()).items())

    def macros(self, tuning: Tuning) -> dict[str, str]:
        """Each macro's value."""
        chosen = {
            "LEVEL": self.level, "FROM_PRODUCTS": int(self.source == "products"), "TO_MATRIX": int(self.to_matrix),
            "TERMS": self.terms, "BIAS": int(self.bias is not None), "RELU": int(self.relu), "EDGE": self.edge,
        }  # fmt: skip
        types = {"IN_TYPE": self.in_type, "MATRIX_TYPE": self.matrix_type, "OUT_TYPE": self.out_type}
        named = {"BIAS_TYPE": self.bias or "float32", **types}
        tables = {"SPREAD_TABLE": self.spread, "COLLECT_TABLE": self.collect}
        return {
            **{name: str(value) for name, value in chosen.items()},
            **{name: SHORT[value] for name, value in named.items()},
            **{name: _braced(table) for name, table in tables.items()},
            **{each.name.upper(): str(int(getattr(tuning, each.name))) for each in fields(tuning)},
        }


SHORT = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}

TUNINGS: dict[tuple[str, int, str], Tuning] = {
    ("pre_add", 0, "narrow"): Tuning(8),
    ("pre_add", 1, "narrow"): Tuning(8),
    ("pre_add", 2, "wide"): Tuning(4, resident=4),
    ("pre_add", 2, "narrow"): Tuning(4, resident=6, rolled=True),
    ("pre_add", 3, "wide"): Tuning(2, resident=2, rolled=True),
    ("pre_add", 3, "narrow"): Tuning(4, resident=2, rolled=True),
    ("post_add", 0, "narrow"): Tuning(8),
    ("post_add", 2, "wide"): Tuning(4, resident=2),
    ("post_add", 2, "narrow"): Tuning(4, resident=2),
    ("post_add", 3, "wide"): Tuning(1, resident=3, ahead=2, rolled=True),
    ("post_add", 3, "narrow"): Tuning(2, resident=2, rolled=True),
    ("step", 2, "wide"): Tuning(4, resident=3, rolled=True),
    ("step", 2, "narrow"): Tuning(4, resident=2),
    ("step", 3, "wide"): Tuning(2, resident=2, rolled=True),
    ("step", 3, "narrow"): Tuning(2, resident=2, rolled=True),
}
"""By kind, level, and whether numbers have 32 bits or 16: the fastest of those measured on an H200, where at most a
few dozen registers are spilled (level 3, two numbers a thread). Where there is none, four numbers a thread.

A matrix whose rows are no whole words of `vector` numbers is read number by number (`edge_of`)."""


NARROWED = {3: Tuning(2, resident=2, rolled=True)}
"""For pre-additions from float32 to 16 bits, where it is cut otherwise: a store takes two numbers even there."""


def edge_of(
    shape: tuple[int, int], block: tuple[int, int], level: int, vector: int,
    strides: tuple[int, int] | None = None, address: int = 0, itemsize: int = 4,
) -> int:  # fmt: skip
    """Where a matrix may end: 0, with its blocks; 1, after any word of `vector` numbers; 2, anywhere.

    >>> edge_of((64, 64), (32, 32), 1, 4, (64, 1)), edge_of((63, 60), (32, 32), 1, 4, (60, 1))
    (0, 1)
    >>> edge_of((64, 64), (32, 32), 1, 4, (1, 64)), edge_of((64, 62), (32, 32), 1, 4, (62, 1))
    (2, 2)

    0 and 1 also mean that the matrix is read or written in words, so that rows are contiguous and start where a word
    may. strides, in numbers: None where the matrix itself is neither read nor written.
    """
    rows, columns = shape
    if columns % vector or (strides is not None and not _in_words(shape, strides, address, itemsize, vector)):
        return 2
    return int((rows, columns) != (block[0] << level, block[1] << level))


def launch_size(block: tuple[int, int], tuning: Tuning) -> tuple[int, int]:
    """Words in a row of a block, and blocks of threads for all of them.

    >>> launch_size((100, 64), Tuning(4))
    (16, 13)
    """
    words = block[1] // tuning.vector
    return words, -(-block[0] * words // tuning.threads)


MOST = 2**31 - 1
"""Threads of a launch: they are counted in 32 bits."""


def _in_words(shape: tuple[int, int], strides: tuple[int, int], address: int, itemsize: int, vector: int) -> bool:
    word = min(WORD, itemsize * vector)
    along = strides[1] == 1 or shape[1] == 1
    down = strides[0] * itemsize % word == 0 or shape[0] == 1
    return along and down and address % word == 0


def _braced(table: Table) -> str:
    return ", ".join("{" + ", ".join(str(int(each)) for each in row) + "}" for row in table)
