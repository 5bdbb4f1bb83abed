"""The cases of `operators`: 120 calls of torch, whole blocks among them, in two halves; and 240 drawn from a seed.

The 120 were written down before any of them was measured. One half is there to learn from, the other is only reported:
`half_of` tells which, dealt out from a seed. `drawn` takes the same operators in sizes that nobody chose. A case is a
description; `calls` makes the call of it.
"""

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

Direction = Literal["forward", "backward"]
Half = Literal["learn", "report", "drawn"]
SEED = "halves 774"
"""The first of `halves 1`, `halves 2`, ... with which both halves have each family's data types and directions."""

TABLE = {
    "product": """
        mm                     67x129x43 float32; 1021x777x1531 float32 backward; 2999x1501x4097 bfloat16;
        mm                     515x10007x1283 float16; 1999x2003x1997 tf32
        bmm                    33x127x65x31 float32; 97x253x511x77 bfloat16 backward; 11x1023x769x505 float16
        linear                 19x331x1003 float32 backward; 1537x1000x3000 bfloat16 backward; 4093x1025x1535 tf32;
        linear                 7x4999x2501 bfloat16
    """,
    "norm": """
        layer_norm             57x313 float32; 2053x1021 bfloat16; 8191x1537 float32 backward;
        layer_norm             30011x640 bfloat16 backward
        group_norm             3x48x29x31x6 float32; 16x320x33x47x32 bfloat16; 8x192x57x57x24 float32 backward
        batch_norm             5x37x19x23 float32; 32x128x41x43 bfloat16 backward; 64x96x56x56 float32
        rms_norm               129x2047 float32; 6007x3072 bfloat16; 4099x1279 float32 backward
    """,
    "softmax": """
        softmax_rows           83x211 float32; 12289x1009 bfloat16; 4001x5003 float32 backward
        softmax_columns        509x307 float32; 2039x1023 bfloat16 backward
        log_softmax            61x40009 float32; 3001x777 float32 backward; 16381x513 bfloat16
    """,
    "convolution": """
        conv1d                 9x65x1021x97 float32; 16x256x3001x384 bfloat16 backward
        conv1x1                7x93x35x37x131 float32; 32x256x29x31x512 bfloat16
        conv1x1_channels_last  16x192x55x57x96 float32 backward
        conv3x3                3x33x45x51x65 float32; 24x64x61x59x64 float32 backward
        conv3x3_channels_last  16x128x57x57x160 bfloat16
        conv7x7                8x3x229x227x64 float32
        conv7x7_channels_last  32x3x224x224x48 bfloat16 backward
        depthwise3x3           11x77x53x49x77 float32; 16x384x29x29x384 bfloat16 backward
        grouped3x3             5x52x39x41x68 float32
        grouped3x3_channels_last  16x256x33x33x256 bfloat16
    """,
    "attention": """
        attention              3x5x77x40 float32; 2x16x1013x64 bfloat16; 8x12x509x64 float32 backward;
        attention              4x8x2049x128 bfloat16 backward
        attention_causal       5x4x193x32 float32; 2x12x1531x96 bfloat16; 6x16x1024x64 float16 backward;
        attention_causal       1x20x4001x128 bfloat16; 3x8x755x80 float32
    """,
    "index": """
        embedding              5003x129x777 float32; 50021x1021x4099 bfloat16; 30011x768x8191 float32 backward
        index_select           10007x61x3001 float32; 65537x257x30011 bfloat16
        gather                 1009x2003x301 float32; 8191x1025x513 float32 backward
        scatter_add            2003x1021x511 float32; 6007x2047x2047 float32
        index_add              997x67x5003 float32; 20011x513x40009 float32; 4093x1021x8191 float32 backward
    """,
    "order": """
        sort                   17x1021 float32; 2053x3001 float32; 1x1999993 float32
        topk                   33x5003x10 float32; 4099x1021x64 bfloat16
        cumsum                 129x517 float32; 3001x4099 float32
        argmax                 67x30011 float32; 20011x1023 bfloat16
    """,
    "loss": """
        cross_entropy          61x1003 float32; 4099x32003 bfloat16; 2047x50021 float32 backward;
        cross_entropy          16381x1021 bfloat16 backward; 513x151 float32 backward
    """,
    "image": """
        max_pool               13x61x57x55 float32; 32x64x112x112 float32 backward
        avg_pool               7x97x45x47 float32; 16x256x56x57 bfloat16
        interpolate            5x33x49x51 float32; 8x128x63x65 bfloat16; 8x64x95x97 float32 backward
    """,
    "movement": """
        pad                    9x47x51x53 float32; 32x192x55x57 bfloat16
        cat                    1013x331 float32; 8191x2049 bfloat16
        transpose              1019x2053 float32; 8209x4099 bfloat16
        permute                16x65x127x129 float32
    """,
    "dropout": """
        dropout                509x1021 float32; 20011x2049 bfloat16; 8191x1537 float32 backward
    """,
    "network": """
        mlp                    17x129x513 float32; 2053x768x3072 bfloat16; 1021x1000x4000 float32 backward
        encoder_layer          3x37x96x6x384 float32; 8x511x768x12x3072 bfloat16; 8x253x512x8x2048 float32 backward
        decoder_block          2x65x128x4 float32; 4x1023x1024x16 bfloat16; 4x509x768x12 bfloat16 backward
        basic_block            5x48x29x31 float32; 32x128x28x28 bfloat16; 16x64x56x56 float32 backward
        lstm_cell              11x67x129 float32; 256x1021x1024 bfloat16; 128x512x768 float32 backward
    """,
    "training": """
        mlp_loss               61x127x255x11 float32 backward; 1021x784x2048x101 float32 backward
        sgd                    9x257 float32; 12x1023 float32
        adam                   10x129 float32; 16x769 float32
    """,
}
"""By family and operator: sizes (what each means stands in `calls`), data type, and `backward` where it is with it."""


@dataclass(frozen=True, slots=True)
class OperatorCase:
    """One call: its family, its operator, the operator's sizes, the data type, and whether gradients are computed too.

    >>> OperatorCase("norm", "layer_norm", (57, 313), "float32", "backward").name
    'layer_norm 57x313 float32 backward'
    """

    kind: str
    what: str
    sizes: tuple[int, ...]
    dtype: str
    direction: Direction = "forward"

    @property
    def name(self) -> str:
        """As the axis and the table show it."""
        size = "x".join(map(str, self.sizes))
        return f"{self.what} {size} {self.dtype}{' backward' * (self.direction == 'backward')}"


@lru_cache(maxsize=1)
def cases() -> tuple[OperatorCase, ...]:
    """All cases, family by family, operator by operator.

    >>> len(cases()), cases()[0].name
    (120, 'mm 67x129x43 float32')
    """
    return tuple(
        _read(family, what, each)
        for family, table in TABLE.items()
        for what, _, listed in (line.strip().partition(" ") for line in table.strip().splitlines())
        for each in listed.strip().rstrip(";").split(";")
    )


def _read(family: str, what: str, text: str) -> OperatorCase:
    size, dtype, *backward = text.split()
    sizes = tuple(map(int, size.split("x")))
    return OperatorCase(family, what, sizes, dtype, "backward" if backward else "forward")


@lru_cache(maxsize=1)
def by_name() -> dict[str, OperatorCase]:
    """From each name to its case, the drawn ones too."""
    return {case.name: case for case in (*cases(), *drawn(), *drawn(ANOTHER_SEED))}


def split(every: Iterable[OperatorCase], seed: str = SEED) -> dict[str, Half]:
    """The half of each case, by its name: each operator's cases are shuffled, then all are dealt out in turn.

    >>> tiny = [OperatorCase("norm", "rms_norm", (8, size), "float32") for size in (8, 9)]
    >>> sorted(split(tiny).values())
    ['learn', 'report']
    """
    draw, operators = random.Random(seed), dict[tuple[str, str], list[OperatorCase]]()
    for case in sorted(every, key=lambda each: (each.kind, each.what, each.name)):
        operators.setdefault((case.kind, case.what), []).append(case)
    dealt = [case for same in operators.values() for case in draw.sample(same, len(same))]
    halves: tuple[Half, Half] = ("learn", "report") if draw.random() < 0.5 else ("report", "learn")
    return {case.name: halves[place % 2] for place, case in enumerate(dealt)}


@lru_cache(maxsize=1)
def _halves() -> dict[str, Half]:
    return split(cases())


def half_of(case: OperatorCase) -> Half:
    """Whether models may learn from a case, or are only held against it, as the drawn ones are."""
    return _halves().get(case.name, "drawn")


# ---- cases in sizes that nobody chose ----

DRAWN_SEED, DRAWN = "drawn 2026-11-25", 2
"""So many for each case of the table."""
ANOTHER_SEED = "another seed"
"""Of calls that were measured once, after everything was fixed."""


@lru_cache(maxsize=4)
def drawn(seed: str = DRAWN_SEED) -> tuple[OperatorCase, ...]:
    """The table's operators in other sizes, each in a data type and a direction that the table has it in.

    >>> len(drawn()), len(drawn("another seed"))
    (240, 240)
    """
    draw, found = random.Random(seed), {case.name: case for case in cases()}
    for case in cases():
        alike = [each for each in cases() if each.what == case.what]
        made = case
        for _ in range(DRAWN):
            while made.name in found:
                way = draw.choice(alike)
                made = replace(case, sizes=_drawn_sizes(draw, case), dtype=way.dtype, direction=way.direction)
            found[made.name] = made
    return tuple(found.values())[len(cases()) :]


def _drawn_sizes(draw: random.Random, case: OperatorCase) -> tuple[int, ...]:
    """Each size from a quarter to twice the table's, any number, a multiple of 8 or a power of two; few stay few.

    At most twice the table's elements, so that a case stays as quick to check.
    """
    while True:
        sizes = [_drawn_size(draw, size) for size in case.sizes]
        if case.what.startswith("attention"):
            sizes[3] = 8 * math.ceil(sizes[3] / 8)
        elif case.what in ("encoder_layer", "decoder_block"):  # the width of a head is a multiple of 8
            sizes[2] = 8 * sizes[3] * math.ceil(sizes[2] / sizes[3] / 8)
        elif case.what == "group_norm":
            sizes[1] = sizes[4] * math.ceil(sizes[1] / sizes[4])
        elif case.what.startswith("grouped"):
            sizes[1], sizes[4] = (4 * math.ceil(sizes[place] / 4) for place in (1, 4))
        elif case.what.startswith("depthwise"):
            sizes[4] = sizes[1]
        if math.prod(sizes) <= 2 * math.prod(case.sizes):
            return tuple(sizes)


def _drawn_size(draw: random.Random, size: int) -> int:
    if size < 8:
        return size
    found = size * math.exp(draw.uniform(math.log(0.25), math.log(2)))
    return draw.choice((round(found), 8 * max(1, round(found / 8)), 2 ** round(math.log2(found))))


# ---- what is measured of a case beside it ----

NOT_CAPTURED = ("adam",)
"""Adam counts its steps on the host unless it is told not to: no CUDA Graph can hold that."""
TWINNED = ("norm", "softmax", "image", "movement", "dropout")
"""Families that compute in float32 whatever the data type: the other type moves other bytes for the same FLOP."""
OTHER = {"float32": "bfloat16", "bfloat16": "float32"}


def twin(case: OperatorCase) -> OperatorCase | None:
    """The case with only its bytes changed; None where there is no clean one.

    >>> twin(by_name()["pad 9x47x51x53 float32"]).name
    'pad 9x47x51x53 bfloat16'
    """
    return replace(case, dtype=OTHER[case.dtype]) if case.kind in TWINNED else None
