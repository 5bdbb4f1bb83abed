"""Attention of one query a sequence, as a step of decoding has it, and of grouped heads in float32.

One query reads all keys and values of its sequence for four FLOP a number: their bytes count, if enough blocks read
them at once. A block takes the queries of one head of keys and goes through its keys tile by tile; where these blocks
are too few to fill the device, flash attention and cuDNN split the keys (seen on an H100: cuDNN with a second kernel).
"""

import math
from dataclasses import replace
from functools import partial

from brrr.counting.cost import ITEMSIZE, Form, Matmul, OperatorCost
from brrr.roofline.device_model import DeviceModel

START_S = 3.5e-6
"""From a kernel's start to its first tile, and from the last one to its end, beyond those of an empty kernel."""
CYCLES = {(2, 64): (17.5, 17.5), (2, 128): (23.0, 23.0), (4, 64): (200.0, 125.0), (4, 128): (175.0, 200.0)}
"""Of a multiprocessor, for a key: of a block alone, and of each of several; by the bytes of a number and the width.

They are slopes of the sweep's self-attention by its keys: 84 calls of few heads of 64 are within 7 % of 4.1 µs and
8.8 ns a key (median), in float32 106 ns.
"""
CLOCK_HZ = 1.98e9
"""The clock where it is not known, an H200's."""
SPLITS, TILE = 128, 16384
"""At most so many splits of a head's keys, of whole tiles of so many numbers: flash attention's own limits."""


def is_decoding(each: OperatorCost) -> bool:
    """Whether it is attention of one query for each head.

    >>> heads = ((8, 32, 1, 64), (8, 8, 1024, 64), (8, 8, 1024, 64))
    >>> is_decoding(OperatorCost("aten._scaled_dot_product_flash_attention", 0, 0, 0, "bfloat16", heads, "attention"))
    True
    """
    return each.kind == "attention" and len(each.shapes) > 1 and len(each.shapes[0]) == 4 and each.shapes[0][2] == 1


def keys_s(each: OperatorCost, model: DeviceModel) -> float:
    """Seconds in which the blocks of a call with one query a head go through their keys, were all in the cache."""
    model.note("what a key takes a block of attention is assumed: it was fitted on an H200")
    (batch, heads, _, width), (_, key_heads, keys, _) = each.shapes[:2]
    size, sm_count = min(4, ITEMSIZE.get(each.dtype, 4)), model.sm_count or 1
    blocks, splits = batch * (key_heads if size == 2 else heads), 1
    if size == 2:
        splits = max(1, min(SPLITS, math.ceil(keys * max(64, width) / TILE), 2 * sm_count // blocks))
    alone, shared = CYCLES[size, 64 if width <= 64 else 128]
    cycles = max(alone, shared * blocks * splits / sm_count) * max(1.0, width / 128)
    return keys / splits * cycles / (model.clock_hz or CLOCK_HZ)


def part_of(
    each: OperatorCost, kind: str, name: str, read: int, made: int, form: Form, *matmuls: Matmul
) -> OperatorCost:
    """One of the kernels that an operator is on a GPU, by the numbers that it reads and makes."""
    flop = sum(product.flop for product in matmuls) if matmuls else 0.0 if kind == "copy" else float(made)
    size = float(ITEMSIZE.get(each.dtype, 4))
    return replace(each, name=f"aten.{name}", flop=flop, read_bytes=size * read, written_bytes=size * made,
                   shapes=((made,),), kind=kind, matmuls=matmuls, form=form)  # fmt: skip


def by_products(each: OperatorCost) -> list[OperatorCost]:
    """Grouped heads in float32, which no kernel of attention takes: keys and values repeated, and two products.

    Anything else is left as it is, and so are gradients. A mask is added to the scores.
    """
    of_cpu = "flash_attention" in each.name and each.dtype == "float32" and len(each.matmuls) == 2
    if not of_cpu or each.shapes[0][1] == each.shapes[1][1]:
        return [each]
    (batch, heads, queries, width), (_, key_heads, keys, _) = each.shapes[:2]
    lines, asked, repeated = batch * heads, batch * heads * queries * width, batch * heads * keys * width
    scores, first, second = lines * queries * keys, replace(each.matmuls[0], transposed=(False, True)), each.matmuls[1]
    part = partial(part_of, each)
    masked, of_keys = each.form.name == "causal" or len(each.shapes) > 3, repeated * key_heads // heads
    return [
        part("pointwise", "mul", asked, asked, Form("scalar", 1, asked)),
        *[part("copy", "clone", of_keys, repeated, Form("broadcast", lines, keys * width))] * 2,
        part("pointwise", "mul", repeated, repeated, Form("scalar", 1, repeated)),
        part("matmul", "bmm", asked + repeated, scores, Form(), first),
        *[part("pointwise", "add", scores + queries * keys, scores, Form("broadcast", lines, queries * keys))] * masked,
        part("softmax", "_safe_softmax", scores, scores, Form("rows", lines * queries, keys)),
        part("matmul", "bmm", scores + repeated, asked, Form(), second),
    ]  # fmt: skip
