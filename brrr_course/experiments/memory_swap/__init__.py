"""The same calls on two GPUs that differ in their memory: an H100, and an H200, which is an H100 with faster memory.

Both have the same multiprocessors at the same clock, and the H200 moves 1.43 times as many bytes a second. So the ratio
of a call's kernel times on both tells how much of its time the memory takes, and no model has a part in that.
"""

from brrr_course.nouns.experiment import Axis, Experiment, Variant

REFERENCE = "h200"
"""The recording that every other device's times are held against."""

STREAMS, COMPUTE, OTHERS, BETWEEN, CACHED = GROUPS = ("streams", "compute", "others", "between", "cached")
TABLE = """
    streams copy 8500x9461 bfloat16; add 12214x6599 float32; gelu 941012x29 float32; exp 54231x853 bfloat16
    streams norm 74059x890 float32; matmul 2x24576x8192 bfloat16 nt; matmul 32x15360x5120 bfloat16 nt
    streams matmul 134x24576x8192 bfloat16 nt
    compute matmul 4096x4096x8192 bfloat16 nn; matmul 3099x15360x5120 bfloat16 nt; mm 1104x2048x8192 float32
    compute matmul 4909x4909x4909 bfloat16 nt; attention_causal 1x20x4001x128 bfloat16; attention 4x4x4096x64 bfloat16
    compute conv3x3_channels_last 16x128x57x57x160 bfloat16
    others rms_norm 50024x4096 bfloat16; log_softmax 562072x149 float32; layer_norm 15351x984 float32
    others softmax 16608x6299 bfloat16; transpose 104589x739 float32; cat 8191x2049 bfloat16; adam 15x512 float32
    others rms_norm 342484x47 float32; batch_norm 35147x639 float32; cumsum 3001x4099 float32
    others index_select 60272x512x23496 float32; index_add 20011x513x40009 float32; cross_entropy 4099x32003 bfloat16
    others matmul 448x10064x4016 bfloat16 nt
    between scale 34680x173 float32; tanh 924257x13 bfloat16; softmax_rows 12289x1009 bfloat16
    between matmul 44 of 1x768x768 bfloat16 nn; sort 1x3510619 float32; cast 882400x11 float32
    cached copy 184x16384 bfloat16; gelu 3979x768 float32; add 141x10667 float32; layer_norm 578x1120 bfloat16
    cached softmax 327x768 float32; matmul 512x4096x1024 bfloat16 nt; embedding 5003x129x777 float32
    cached sort 17x1021 float32; softmax_columns 509x307 float32
"""
"""Calls of the recordings `prediction`, `operators` and `operators_drawn` by what they do on the H200 alone.

Streams move 150 MB or more at 4 TB/s or more; what computes are products, attention and a convolution that move more
than the cache holds, at 0.6 TB/s or less; others are neither. Between are 45 to 60 MB, which the H200's L2 may hold and
the H100's hardly; cached are 25 MB or less.
"""
LINES = [line.split(maxsplit=1) for line in TABLE.strip().splitlines()]
CALLS = {group: tuple(name for kind, line in LINES if kind == group for name in line.split("; ")) for group in GROUPS}
NAMES = tuple(name for names in CALLS.values() for name in names)
REGIMES = ("memory", "a mix", "something else")


def memory_share(ratio: float, gain: float) -> float:
    """The share of a call's time on the slower memory that its memory takes, by how much faster it is on the faster.

    >>> memory_share(1.5, 1.5), memory_share(1.0, 1.5), round(memory_share(1.2, 1.5), 2)
    (1.0, 0.0, 0.5)

    ratio: the slower time over the faster; gain: the faster bandwidth over the slower.
    """
    return (1 - 1 / ratio) / (1 - 1 / gain)


def regime(ratio: float, gain: float) -> str:
    """What sets the pace: the memory for two thirds of the time or more, for a third or less something else.

    >>> regime(1.4, 1.43), regime(1.2, 1.43), regime(0.98, 1.43)
    ('memory', 'a mix', 'something else')
    """
    share = memory_share(ratio, gain)
    return REGIMES[0 if share >= 2 / 3 else 1 if share > 1 / 3 else 2]


EXPERIMENT = Experiment(
    title="The same calls, another memory",
    question="How much faster does a call get where only the memory is faster?",
    axes=(Axis("call", NAMES, label="call", scale="category", quick=(CALLS[STREAMS][0], CALLS[CACHED][0])),),
    variants=(Variant("eager", "the call's kernels", "cuda", prepare_s=1.0),),
    field="kernel_s",
    package=__name__,
    anchors=({"call": CALLS[STREAMS][0]}, {"call": CALLS[COMPUTE][0]}),
)
