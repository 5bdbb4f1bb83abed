"""The course's one picture of a GPU, which grows by lessons: host and stream, memories, cache, multiprocessors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from brrr.core.errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from brrr.drawing.style import Picture

Part = Literal["overhead", "memory", "compute", "latency"]
Detail = Literal["gpu", "link", "dram", "l2", "sm"]
DETAILS: tuple[Detail, ...] = get_args(Detail)
"""Each shows what those before it show, and one thing more."""

TITLES: dict[Part | None, str] = {
    None: "A GPU and its host",
    "overhead": "Overhead-bound: the GPU waits for the next kernel launch",
    "memory": "Memory-bound: arithmetic waits for the next bytes",
    "compute": "Compute-bound: kernels and bytes wait for arithmetic",
    "latency": "Latency-bound: too little is under way to fill each wait",
}

TOLD: dict[Detail, str] = {
    "gpu": "The host, a computer with a CPU, runs your program and puts kernel launches into a stream, a queue: what "
    "that costs is host overhead. The GPU takes one kernel after the other from it. Its memory keeps the numbers, and "
    "how many bytes a second come from there to where they are computed is the bandwidth. As a town: an office writes "
    "orders on paper, a road leads from a warehouse to a factory.",
    "link": "The host has a memory of its own, pageable or pinned. Between it and the GPU's memory lies PCIe, a link "
    "much narrower than the way from the GPU's memory to its arithmetic.",
    "dram": "The GPU's memory is DRAM, and how many bytes a second it hands out is the DRAM bandwidth.",
    "l2": "Between DRAM and arithmetic lies the L2 cache, smaller and faster.",
    "sm": "What computes is a row of multiprocessors (SM). Each holds some thread blocks, made of warps of 32 threads, "
    "of which some wait; shared memory; and tensor cores.",
}

_BLUE, _ORANGE, _GREEN, _INK, _FAINT, _PAPER = "#0072B2", "#D55E00", "#009E73", "#24292f", "#6a737d", "#ffffff"
_LIGHT = {_BLUE: "#e3eff7", _ORANGE: "#fbe9de", _GREEN: "#d9efe6"}
_FADED = 0.3


def factory(highlight: Part | None = None, *, detail: Detail = "gpu") -> Picture:
    """The picture of a GPU; `highlight` brings out what is slow: "overhead", "memory", "compute" or "latency".

    >>> factory("memory").alt[:49]
    'Memory-bound: arithmetic waits for the next bytes'
    >>> "PCIe" in factory().alt, "PCIe" in factory(detail="link").alt
    (False, True)

    `detail` says how much is drawn: "gpu", then also the "link" to the host's memory, "dram", the "l2" cache, and
    "sm", the multiprocessors. ArgumentError for any other of either.
    """
    if highlight not in TITLES:
        raise ArgumentError("factory", "highlight", highlight, f"None or one of {', '.join(get_args(Part))}")
    if detail not in DETAILS:
        raise ArgumentError("factory", "detail", detail, f"one of {', '.join(DETAILS)}")
    from brrr.drawing import style

    drawn = style.figure(height=400)
    on = style.axes(drawn, left=0.0, bottom=0.0, right=1.0, top=1.0)
    on.set_xlim(0, 19)
    on.set_ylim(0, 10)
    on.axis("off")
    shown = DETAILS[: DETAILS.index(detail) + 1]
    town = Town(on, highlight, shown)
    town.draw()
    _write(on, 9.5, 9.5, TITLES[highlight], 12.5, _INK, bold=True)
    return style.picture(drawn, " ".join([f"{TITLES[highlight]}.", *(TOLD[each] for each in shown)]))


class Town:
    """The parts of the picture, each as strong as it is meant to be seen."""

    def __init__(self, on: Axes, highlight: Part | None, shown: tuple[Detail, ...]) -> None:
        self.on, self.shown = on, shown
        lit = "compute" if highlight == "latency" and "sm" not in shown else highlight
        self.overhead, self.memory, self.compute, self.latency = (
            1.0 if lit in (None, part) else _FADED for part in get_args(Part)
        )

    def draw(self) -> None:
        """Everything that is shown."""
        _box(self.on, 7.9, 0.5, 10.7, 8.3, "#f6f8fa", _FAINT, 1.0, 0)
        _write(self.on, 13.25, 8.42, "GPU (device)", 10.5, _INK, bold=True)
        self.host()
        self.stream()
        self.own_memory()
        if "link" in self.shown:
            self.link()
        if "l2" in self.shown:
            self.cache()
        if "sm" in self.shown:
            self.multiprocessors()
        else:
            self.arithmetic()

    def host(self) -> None:
        """The CPU, which issues the work."""
        _box(self.on, 0.4, 5.6, 3.7, 2.6, _LIGHT[_ORANGE], _ORANGE, self.overhead)
        self.name(2.25, 7.55, "HOST (CPU)", "runs your program", _ORANGE, self.overhead, "an office")

    def stream(self) -> None:
        """Launches that wait in the queue."""
        _arrow(self.on, (4.1, 6.9), (8.6, 6.9), _ORANGE, self.overhead)
        for x in (4.75, 5.65, 6.55):
            _box(self.on, x, 6.55, 0.6, 0.7, _PAPER, _ORANGE, self.overhead, 5)
        self.name(5.95, 8.05, "STREAM", "kernel launches", _ORANGE, self.overhead, "")
        _write(self.on, 5.95, 6.05, "orders on paper", 9.5, _FAINT, self.overhead, italic=True)

    def own_memory(self) -> None:
        """The GPU's memory, and its bandwidth as the width of an arrow."""
        name = "DRAM" if "dram" in self.shown else "MEMORY"
        _box(self.on, 8.6, 0.75, 9.3, 1.75, _LIGHT[_BLUE], _BLUE, self.memory)
        self.name(13.25, 2.1, name, "keeps the numbers", _BLUE, self.memory, "a warehouse")
        top = 3.35 if "l2" in self.shown else 4.9
        self.way(2.5, top, 0.22)
        named = "DRAM BANDWIDTH" if "dram" in self.shown else "BANDWIDTH"
        middle = (2.5 + top) / 2
        _write(self.on, 13.75, middle, named, 9.5, _BLUE, self.memory, bold=True, left=True)
        _write(self.on, 12.75, middle, "a road", 9.5, _FAINT, self.memory, italic=True, right=True)

    def link(self) -> None:
        """The host's own memory, and the narrow way from it to the GPU's."""
        _box(self.on, 0.4, 0.8, 3.7, 2.6, _LIGHT[_BLUE], _BLUE, self.memory)
        self.name(2.25, 2.9, "HOST MEMORY", "pageable, or pinned", _BLUE, self.memory, "another warehouse")
        _arrow(self.on, (4.1, 1.65), (8.6, 1.65), _BLUE, self.memory, both=True)
        self.name(6.0, 2.75, "PCIe", "the link", _BLUE, self.memory, "")

    def cache(self) -> None:
        """L2, which all of what computes shares."""
        _box(self.on, 8.6, 3.35, 9.3, 0.7, _LIGHT[_BLUE], _BLUE, self.memory)
        _write(self.on, 13.25, 3.7, "L2 CACHE", 10, _BLUE, self.memory, bold=True)
        self.way(4.05, 4.9, 0.4)

    def way(self, bottom: float, top: float, half: float) -> None:
        """An arrow up and down; its width stands for the bytes a second that pass."""
        from matplotlib.patches import Polygon

        x, head = 13.25, min(0.35, (top - bottom) / 3)
        right = [(half + 0.2, bottom + head), (half, bottom + head), (half, top - head), (half + 0.2, top - head)]
        edge = [(0.0, bottom), *right, (0.0, top), *[(-across, y) for across, y in reversed(right)]]
        self.on.add_patch(Polygon([(x + across, y) for across, y in edge], color=_BLUE, alpha=self.memory, zorder=3))

    def arithmetic(self) -> None:
        """What computes, as one box."""
        _box(self.on, 8.6, 4.9, 9.3, 3.2, _LIGHT[_GREEN], _GREEN, self.compute)
        self.name(13.25, 7.0, "COMPUTE", "runs one kernel after the other", _GREEN, self.compute, "a factory")

    def multiprocessors(self) -> None:
        """What computes, as a row of multiprocessors, the first of them with what is in it."""
        strong = max(self.compute, self.latency)
        _box(self.on, 8.6, 4.9, 6.2, 3.2, _LIGHT[_GREEN], _GREEN, strong)
        _write(self.on, 11.7, 7.83, "MULTIPROCESSOR (SM)", 9.5, _GREEN, strong, bold=True)
        for x, waits, has in ((8.8, True, "shared memory"), (11.8, False, "tensor cores")):
            self.block(x, waits, strong)
            _box(self.on, x, 5.02, 2.8, 0.55, _PAPER, _GREEN, self.compute)
            _write(self.on, x + 1.4, 5.29, has, 9.5, _INK, self.compute)
        for x in (15.0, 16.05, 17.1):
            _box(self.on, x, 4.9, 0.85, 3.2, _LIGHT[_GREEN], _GREEN, strong)
            _write(self.on, x + 0.425, 6.5, "SM", 9.5, _GREEN, strong, bold=True)
        _write(self.on, 18.27, 6.5, "...", 11, _GREEN, strong, bold=True)

    def block(self, x: float, waits: bool, alpha: float) -> None:
        """A thread block of three warps, of which some wait."""
        _box(self.on, x, 5.68, 2.8, 1.93, _PAPER, _GREEN, alpha)
        _write(self.on, x + 1.4, 7.3, "thread block", 9.5, _INK, alpha)
        for row in range(3):
            y, still = 6.92 - 0.3 * row, waits and row > 0
            self.on.plot([x + 0.35, x + 2.45], [y, y], color=_FAINT if still else _GREEN, alpha=alpha, linewidth=2.2,
                         linestyle=":" if still else "-", zorder=6)  # fmt: skip
        _write(self.on, x + 1.4, 5.95, "warps, two wait" if waits else "warps", 9.5, _INK, alpha)

    def name(self, x: float, y: float, name: str, does: str, colour: str, alpha: float, picture: str) -> None:
        """A part's name, what it does, and what it is in the picture of the town."""
        _write(self.on, x, y, name, 10.5, colour, alpha, bold=True)
        _write(self.on, x, y - 0.55, does, 9.5, _INK, alpha)
        if picture:
            _write(self.on, x, y - 1.05, picture, 9.5, _FAINT, alpha, italic=True)


def _box(on: Axes, x: float, y: float, width: float, height: float, face: str, edge: str, alpha: float,
         order: float = 2) -> None:  # fmt: skip
    from matplotlib.patches import Rectangle

    box = Rectangle((x, y), width, height, facecolor=face, edgecolor=edge, linewidth=1.2, alpha=alpha, zorder=order)
    on.add_patch(box)


def _arrow(on: Axes, start: tuple[float, float], end: tuple[float, float], colour: str, alpha: float, *,
           both: bool = False) -> None:  # fmt: skip
    style = {"arrowstyle": "<|-|>" if both else "-|>", "color": colour, "alpha": alpha, "linewidth": 1.8}
    on.annotate("", xy=end, xytext=start, zorder=3, arrowprops={**style, "shrinkA": 0, "shrinkB": 0})


def _write(on: Axes, x: float, y: float, text: str, size: float, colour: str, alpha: float = 1.0, *,
           bold: bool = False, italic: bool = False, left: bool = False, right: bool = False) -> None:  # fmt: skip
    across = "left" if left else "right" if right else "center"
    on.text(
        x, y, text, ha=across, va="center", fontsize=size, color=colour, alpha=max(alpha, 0.45), zorder=7,
        fontweight="bold" if bold else "normal", fontstyle="italic" if italic else "normal",
    )  # fmt: skip
