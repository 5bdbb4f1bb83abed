"""The course's picture: the host issues launches, memory sends bytes, compute works; later lessons see more of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from brrr.core.errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from brrr.drawing.style import Picture

Highlight = Literal["overhead", "memory", "compute", "under-filled"]
Detail = Literal["gpu", "link", "dram", "l2", "sm"]

TITLES: dict[Highlight | None, str] = {
    None: "Host and GPU: what a program can wait for",
    "overhead": "Overhead-bound: the GPU waits for the next launch",
    "memory": "Memory-bound: the multiprocessors wait for the next bytes",
    "compute": "Compute-bound: launches and bytes wait for the arithmetic",
    "under-filled": "Under-filled: too few warps to hide the waits",
}
STAGES: dict[Detail, str] = {
    "gpu": "On the left is the host: its CPU runs your Python and launches kernels. Each kernel launch costs host "
    "overhead. An arrow with launches on it leads to the GPU: the stream, a queue of kernel launches. On the right is "
    "the GPU: compute does the arithmetic, memory holds your tensors. A wide arrow joins the two, the bandwidth in "
    "bytes per second. Small writing says what they are like: an office that writes orders on paper, a factory, a "
    "warehouse, a road with trucks.",
    "link": "The host has memory too, pageable and pinned. The PCIe link joins it to the GPU's memory: a thin arrow, "
    "with far less bandwidth than the wide one.",
    "dram": "The GPU's memory is DRAM (HBM), and the wide arrow is the DRAM bandwidth.",
    "l2": "Between DRAM and compute lies the L2 cache, which keeps what was used last. The arrow between L2 and "
    "compute, the L2 bandwidth, is wider still.",
    "sm": "Compute is a row of multiprocessors. One multiprocessor (SM) is drawn large, and the others are alike: it "
    "has thread blocks, each thread block made of warps; registers and shared memory; arithmetic units and tensor "
    "cores.",
}
"""What each stage adds, in order."""
BROUGHT_OUT: dict[Highlight | None, str] = {
    None: "",
    "overhead": " Brought out: the CPU and the stream, with only one launch in it.",
    "memory": " Brought out: the GPU's memory, and the way from it to compute.",
    "compute": " Brought out: compute.",
    "under-filled": " Brought out: the thread blocks; each SM has only one, with one warp; its other places are empty.",
}

WIDE, HIGH = 760, 496  # places in the drawing are CSS pixels from its lower left corner
Pair = tuple[str, str]  # the colour of a face, and of its edge
_ORANGE, _BLUE, _GREEN = ("#fbe9de", "#D55E00"), ("#e3eff7", "#0072B2"), ("#d9efe6", "#009E73")
_PURPLE, _GREY = ("#f7e9f1", "#CC79A7"), ("#f6f7f9", "#9aa4ae")
_INK, _FAINT, _PAPER = "#24292f", "#57606a", "#ffffff"


def factory(highlight: Highlight | None = None, *, detail: Detail = "gpu") -> Picture:
    """Draw a host and its GPU, and highlight what the work waits for.

    >>> factory("memory", detail="dram").alt[:57]
    'Memory-bound: the multiprocessors wait for the next bytes'

    Parameters
    ----------
    highlight : {"overhead", "memory", "compute", "under-filled"}, optional
        What is highlighted. By default nothing. An under-filled GPU shows in the warps; with less detail than "sm",
        "under-filled" highlights compute.
    detail : {"gpu", "link", "dram", "l2", "sm"}
        How much is drawn; each level adds to the one before.

    Returns
    -------
    Picture
        It shows itself in a notebook; `alt` says in words what it shows.

    Raises
    ------
    ArgumentError
        If a word is not one of these.
    """
    if highlight not in TITLES:
        raise ArgumentError("factory", "highlight", highlight, f"one of {', '.join(map(repr, TITLES))}")
    if detail not in STAGES:
        raise ArgumentError("factory", "detail", detail, "'gpu', 'link', 'dram', 'l2' or 'sm'")
    from brrr.drawing import style

    shown = list(STAGES)[: list(STAGES).index(detail) + 1]
    part = "compute" if highlight == "under-filled" and "sm" not in shown else highlight
    lit = {name: 1.0 if part in (None, name) else 0.35 for name in ("link", *filter(None, TITLES))}
    drawn = style.figure(WIDE, HIGH)
    on = style.axes(drawn, left=0.0, bottom=0.0, right=1.0, top=1.0)
    on.set_xlim(0, WIDE)
    on.set_ylim(0, HIGH)
    on.axis("off")
    _write(on, WIDE / 2, 474, TITLES[highlight], size=12.5, bold=True, at="center")
    _draw_gpu(on, lit["compute"], lit["memory"], shown)
    if "sm" in shown:
        blocks = max(lit["compute"], lit["under-filled"])
        _draw_multiprocessors(on, lit["compute"], blocks, (1, 0) if highlight == "under-filled" else (4, 4))
    _draw_host(on, lit["overhead"], foot=14 if "link" in shown else 236)
    # Where the GPU waits for the next launch, no other stands in the queue.
    _draw_stream(on, lit["overhead"], launches=1 if highlight == "overhead" else 3)
    if "link" in shown:
        _draw_link(on, lit["link"])
    says = " ".join(STAGES[stage] for stage in shown)
    return style.picture(drawn, f"{TITLES[highlight]}. {says}{BROUGHT_OUT[part]}")


def _draw_host(on: Axes, lit: float, foot: float) -> None:
    """The CPU, and what it pays for each launch."""
    _box(on, 12, foot, 178, 449 - foot, _GREY)
    _write(on, 24, 433, "Host", size=12, bold=True)
    _box(on, 24, 248, 154, 172, _ORANGE, lit)
    _lines(on, 34, 403, lit, "CPU", "runs your Python,", "launches kernels", like="an office that\nwrites orders")
    _lines(on, 34, 300, lit, "Host overhead", "what each launch", "costs the CPU")


def _draw_stream(on: Axes, lit: float, launches: int) -> None:
    """The queue between host and GPU: launches on an arrow."""
    _arrow(on, 178, 374, 334, "-|>", _ORANGE[1], lit)
    for n in range(launches):
        _box(on, 300 - 51 * n, 321, 47, 26, (_PAPER, _ORANGE[1]), lit, "launch")
    _write(on, 276, 403, "Stream", lit, bold=True, at="center")
    _write(on, 276, 377, "a queue of\nkernel launches", lit, at="center")
    _write(on, 276, 303, "orders on paper", lit, like=True, at="center")


def _draw_link(on: Axes, lit: float) -> None:
    """The host's memory, and the thin arrow from there to the GPU's."""
    _box(on, 24, 26, 154, 88, _PURPLE, lit)
    _write(on, 34, 98, "Host memory", lit, bold=True)
    _box(on, 33, 36, 74, 46, (_PAPER, _PURPLE[1]), lit, "pageable")
    _box(on, 111, 36, 58, 46, (_PAPER, _PURPLE[1]), lit, "pinned")
    _arrow(on, 178, 374, 59, "<|-|>", _PURPLE[1], lit)
    _write(on, 276, 98, "PCIe link", lit, bold=True, at="center")
    _write(on, 276, 80, "far less bandwidth", lit, at="center")
    _write(on, 276, 38, "a narrow road", lit, like=True, at="center")


def _draw_gpu(on: Axes, compute: float, memory: float, shown: list[Detail]) -> None:
    """Compute above, memory below, and the way between them."""
    _box(on, 362, 14, 386, 435, _GREY)
    _write(on, 374, 433, "GPU", size=12, bold=True)
    _box(on, 374, 236, 362, 184, _GREEN, compute)
    _write(on, 384, 406, "Compute", compute, bold=True)
    _write(on, 726, 406, "a factory", compute, like=True, at="right")
    _write(on, 470, 406, "does the arithmetic", compute)
    if "sm" not in shown:
        _cells(on, 386, 249, 15, 6, _GREEN[1], compute)
    name, road = ("DRAM (HBM)", "DRAM bandwidth") if "dram" in shown else ("GPU memory", "Bandwidth")
    _box(on, 374, 26, 362, 66, _BLUE, memory)
    _lines(on, 384, 76, memory, name, "holds your tensors", like="a warehouse")
    _cells(on, 570, 38, 7, 2, _BLUE[1], memory)
    _lines(on, 470, 144, memory, road, "bytes per second", like="a road with trucks")
    _draw_way(on, 92, 162 if "l2" in shown else 236, 40, memory)
    if "l2" in shown:
        _box(on, 374, 162, 362, 32, _BLUE, memory)
        _write(on, 384, 178, "L2 cache", memory, bold=True)
        _write(on, 470, 178, "keeps what was used last", memory)
        _draw_way(on, 194, 236, 60, memory)
        _write(on, 470, 215, "L2 bandwidth", memory, bold=True)


def _draw_way(on: Axes, foot: float, top: float, width: float, lit: float) -> None:
    """A thick upright arrow with two heads: bytes go both ways."""
    from matplotlib.patches import Polygon

    half, shaft, head = width / 2, 0.3 * width, 12
    right = [(half, top - head), (shaft, top - head), (shaft, foot + head), (half, foot + head)]
    around = [(0, top), *right, (0, foot), *((-across, up) for across, up in reversed(right))]
    corners = [(430 + across, up) for across, up in around]
    on.add_patch(Polygon(corners, facecolor=_faded(_BLUE[1], lit), edgecolor="none", zorder=3))


def _draw_multiprocessors(on: Axes, lit: float, blocks: float, warps: tuple[int, int]) -> None:
    """A row of four: the first large, with names and two thread blocks; the others narrow, with the same in them."""
    plain = (_PAPER, _GREEN[1])
    _box(on, 381, 243, 222, 150, plain, lit)
    _write(on, 492, 382, "multiprocessor (SM)", lit, at="center")
    for x, count in zip((388, 495), warps, strict=True):
        _draw_block(on, x, 101, blocks, count, ("thread block", "warp"))
    _box(on, 388, 275, 84, 22, plain, lit, "registers")
    _box(on, 478, 275, 118, 22, plain, lit, "shared memory")
    _box(on, 388, 248, 110, 22, _GREEN, lit, "arithmetic units")
    _box(on, 503, 248, 93, 22, _GREEN, lit, "tensor cores")
    for x in (610, 653, 696):
        _box(on, x, 243, 34, 150, plain, lit)
        _write(on, x + 17, 382, "SM", lit, at="center")
        _draw_block(on, x + 4, 26, blocks, warps[0])
        _box(on, x + 4, 275, 26, 22, plain, lit)
        _box(on, x + 4, 248, 26, 22, _GREEN, lit)


def _draw_block(on: Axes, x: float, width: float, lit: float, warps: int, names: Pair = ("", "")) -> None:
    """A thread block with up to four warps, and empty places for the rest; without a warp, the block's empty place."""
    _box(on, x, 302, width, 69, _GREEN, lit, empty=not warps)
    if not warps:
        return
    _write(on, x + width / 2, 359, names[0], lit, at="center")
    gap = max(3, width / 17)
    wide = (width - 3 * gap) / 2
    for n in range(4):
        left, up, there = x + gap + (wide + gap) * (n % 2), 328 - 22 * (n // 2), n < warps
        _box(on, left, up, wide, 18, (_PAPER, _GREEN[1]), lit, names[1] if there else "", empty=not there)


def _cells(on: Axes, x: float, y: float, columns: int, rows: int, edge: str, lit: float) -> None:
    """Many alike, side by side."""
    for n in range(columns * rows):
        _box(on, x + 23 * (n % columns), y + 23 * (n // columns), 18, 18, (_PAPER, edge), lit)


def _arrow(on: Axes, left: float, right: float, y: float, shape: str, colour: str, lit: float) -> None:
    line = {"arrowstyle": shape, "color": _faded(colour, lit), "linewidth": 2, "shrinkA": 0, "shrinkB": 0}
    on.annotate("", xy=(right, y), xytext=(left, y), arrowprops={**line, "mutation_scale": 13}, zorder=3)


def _box(
    on: Axes, x: float, y: float, width: float, height: float, colours: Pair, lit: float = 1.0, name: str = "",
    *, empty: bool = False,
) -> None:  # fmt: skip
    """A box with its name in the middle; an empty place has no face, and a dotted edge."""
    from matplotlib.patches import Rectangle

    face, edge = (_faded(colour, lit) for colour in colours)
    line = {"facecolor": "none", "linestyle": ":"} if empty else {"facecolor": face}
    on.add_patch(Rectangle((x, y), width, height, edgecolor=edge, linewidth=1.2, zorder=3, **line))
    _write(on, x + width / 2, y + height / 2, name, lit, at="center")


def _lines(on: Axes, x: float, y: float, lit: float, term: str, *says: str, like: str = "") -> None:
    """A term, what it does, and in small writing what it is like, from `y` down."""
    _write(on, x, y, term, lit, bold=True)
    for n, line in enumerate((*says, *like.split("\n")), 1):
        _write(on, x, y - 17 * n, line, lit, like=n > len(says))


def _write(
    on: Axes, x: float, y: float, text: str, lit: float = 1.0, *,
    size: float = 9.5, bold: bool = False, like: bool = False, at: Literal["left", "center", "right"] = "left",
) -> None:  # fmt: skip
    """Text; a term is bold, what it is like slanted and grey. Faded text stays readable."""
    if text:
        on.text(
            x, y, text, ha=at, va="center", fontsize=max(size, 10.5 if bold else 0), zorder=5,
            color=_faded(_FAINT if like else _INK, max(lit, 0.75)),
            fontweight="bold" if bold else "normal", fontstyle="italic" if like else "normal",
        )  # fmt: skip


def _faded(colour: str, lit: float) -> tuple[float, ...]:
    """A colour mixed with the paper's white: unlike a transparent one, it hides what lies below."""
    from matplotlib.colors import to_rgb

    return tuple(1 - lit * (1 - share) for share in to_rgb(colour))
