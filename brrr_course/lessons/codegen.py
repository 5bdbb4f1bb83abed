"""The kernel that torch.compile wrote: `generated("cos_cos")`, live where there is a compiler, else as recorded.

python -m brrr_course.lessons.codegen  # on a GPU: writes what its compiler makes
"""

import re
import sys
import textwrap
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from html import escape
from pathlib import Path
from typing import Any

from brrr.core import units
from brrr.core.errors import ArgumentError, NotRecordedError
from brrr.core.heavy import torch
from brrr.core.measurement import Badge, DeviceKind
from brrr.core.recordings import own_root, search_path
from brrr.gpu import is_cpu, is_gpu, tensors_on
from brrr.gpu.device import this_device
from brrr.kernels.elementwise.kernel import Elementwise
from brrr_course.experiments.checked import has_cpp_compiler
from brrr_course.lessons.waiting import Comparison
from brrr_course.nouns.experiment import HAVE
from brrr_course.nouns.source import quick
from brrr_course.sources import source
from brrr_course.view.display import caption_html, static

FOLDER, ELEMENTS, WIDTH = "generated", 2**20, 1024
RECORDED = "recorded:h200"
WORKS = {
    "cos_cos": "x.cos().cos()",
    "chain": "torch.relu(x * scale + r)",
    "softmax": "softmax over the rows of x, written with five operators",
}
"""What is compiled, by name, as the reader would write it."""

_KERNEL = re.compile(r"async_compile\.(?:triton|cpp_pybinding|cpp)\((?P<head>.*?)'''(?P<body>.*?)'''", re.DOTALL)


@dataclass(frozen=True)
class GeneratedCode:
    """The kernels that torch.compile generated for a piece of work, with their origin; shows itself in a notebook.

    `whole` is all that the compiler wrote; `kernels` is the part of it that runs on the device.
    """

    name: str
    badge: Badge
    whole: str

    @property
    def kernels(self) -> tuple[str, ...]:
        """Each kernel's own text: of Triton, from its `@triton.jit` on; of C++, without what it includes."""
        return tuple(_own_text(found["body"]) for found in _KERNEL.finditer(self.whole))

    @property
    def language(self) -> str:
        """`python` for Triton, `cpp` for C++."""
        return "python" if "@triton.jit" in self.whole else "cpp"

    def __repr__(self) -> str:
        count = len(self.kernels)
        head = f"{WORKS[self.name]}: {count} kernel{'' if count == 1 else 's'} by torch.compile"
        return "\n\n".join([head, *self.kernels, str(self.badge)])

    def _repr_html_(self) -> str:
        code = "".join(f"<pre style='margin:4px 0;line-height:1.35'>{escape(each)}</pre>" for each in self.kernels)
        return f"<div style='overflow-x:auto'>{code}</div>{caption_html(str(self.badge))}"


def generated(name: str, on: str | None = None) -> GeneratedCode:
    """Show the kernels that torch.compile generates for a piece of work.

    >>> generated("cos_cos", on="recorded:h200").language  # doctest: +SKIP
    'python'

    It compiles now on a GPU, or on a CPU with a C++ compiler; where nothing can be compiled it shows what was recorded.

    Parameters
    ----------
    name : {"cos_cos", "chain", "softmax"}
        The piece of work.
    on : str, optional
        Where it runs, as `source` of `explore`.

    Returns
    -------
    GeneratedCode
        It shows the kernels in a notebook; `whole` is all that the compiler wrote.

    Raises
    ------
    ArgumentError
        For another name.
    NotRecordedError
        If none was recorded.
    """
    if name not in WORKS:
        raise ArgumentError("generated", "name", name, f"one of {', '.join(WORKS)}")
    chosen = source(on).name
    if chosen in HAVE["Triton"] or (is_cpu(chosen) and has_cpp_compiler() and not quick()):
        return compiled_now(name, tensors_on(chosen))
    return recorded(name, RECORDED if is_cpu(chosen) or is_gpu(chosen) else chosen)


def compiled_now(name: str, kind: DeviceKind) -> GeneratedCode:
    """Compile, and keep what the compiler writes; the result is checked against the operators one by one."""
    from unittest import mock

    from torch._inductor import config
    from torch._inductor.graph import GraphLowering

    from brrr_course.experiments.checked import compiled

    written: list[str] = []
    function, inputs = _work(name, kind)
    with (
        mock.patch.object(GraphLowering, "save_output_code", staticmethod(written.append)),
        config.patch(force_disable_caches=True),
        torch.no_grad(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # that the caches are off, on purpose
        found = compiled(function)(*inputs)
    torch.testing.assert_close(found, function(*inputs), rtol=1e-4, atol=1e-5)
    badge = Badge("LIVE", this_device(kind).name, date.today().isoformat(), f"torch {torch.__version__}")
    return GeneratedCode(name, badge, "\n".join(written))


def _work(name: str, kind: DeviceKind) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    from brrr_course.experiments.cos_cos import cos_cos
    from brrr_course.experiments.fusion import SCALE, WORKS

    device = tensors_on(kind)
    x, r = (torch.randn(ELEMENTS // WIDTH, WIDTH, device=device) for _ in range(2))
    if name == "cos_cos":
        return cos_cos, (x.view(-1),)
    return WORKS[name].operators, (x, r, SCALE) if name == "chain" else (x,)


def _own_text(body: str) -> str:
    """A kernel without what the compiler writes around it: imports, decorators with tuning data, includes."""
    start = max(body.find("@triton.jit"), body.find('extern "C"'), 0)
    return textwrap.dedent(body[start:]).strip()


def recorded(name: str, chosen: str = RECORDED, root: Path | None = None) -> GeneratedCode:
    """What the compiler wrote on the recorded machine, with its origin."""
    slug = chosen.partition(":")[2] or "h200"
    paths = [each / slug / FOLDER / f"{name}.txt" for each in ([root] if root else search_path())]
    path = next((each for each in paths if each.is_file()), None)
    if path is None:
        raise NotRecordedError(
            f"generated: {paths[0]} is not there; `python -m brrr_course.lessons.codegen` makes it on a GPU"
        )
    origin, _, whole = path.read_text(encoding="utf-8").partition("\n")
    device, day, torch = origin.removeprefix("# ").split(" · ")
    return GeneratedCode(name, Badge("RECORDED", device, day, torch), whole)


def write(root: Path, kind: DeviceKind = "cuda") -> list[Path]:
    """Compile every piece of work here and write what was generated, its origin in the first line."""

    folder = root / this_device(kind).slug / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name in WORKS:
        code = compiled_now(name, kind)
        origin = " · ".join((code.badge.device, code.badge.date, code.badge.torch))
        paths.append(folder / f"{name}.txt")
        paths[-1].write_text(f"# {origin}\n{code.whole.rstrip()}\n", encoding="utf-8")
    return paths


def megakernel_plan(*, layers: int, batch: int, hidden: int) -> str:
    """Say how the one-kernel network divides its work on an H200, and how long it is predicted to take.

    >>> megakernel_plan(layers=8, batch=16, hidden=128).partition("  PREDICTED")[0]
    'hidden  128: 16 groups of  4 blocks, joined in a cluster         rows a group: 1'

    Parameters
    ----------
    layers, batch, hidden : int
        The network's layers, the input's rows, and the layers' width.

    Returns
    -------
    str
        One line.
    """
    from brrr.kernels.megakernel.device import plan, predicted_s
    from brrr.kernels.megakernel.plan import H200, NetworkShape

    network = NetworkShape(layers=layers, batch=batch, hidden=hidden)
    made = plan(network, H200)
    if made is None:
        raise ArgumentError("megakernel_plan", "hidden", hidden, "a network that one kernel on an H200 can hold")
    how = "through the L2 cache" if made.wide else "in a cluster"
    groups = f"{made.clusters(batch):>2} groups of {made.cluster:>2} blocks, joined {how:<20} rows a group: {made.rows}"
    return f"hidden {hidden:>4}: {groups}  PREDICTED on an H200: {units.seconds(predicted_s(made, network, H200))}"


if __name__ == "__main__":
    for each in write(Path(sys.argv[1]) if len(sys.argv) > 1 else own_root()):
        print(each)


# ---------------------------------------------------------------------------------------------------------------------
# `against_copy`: a kernel made by `elementwise`, measured here and now beside a copy of its result.


def against_copy(kernel: Elementwise) -> Comparison:
    """Compare the bytes per second of your own kernel with those of a copy, measured in turns on this machine.

    >>> import torch
    >>> from brrr.kernels.elementwise.kernel import elementwise
    >>> against_copy(elementwise("y = 2.0f * x", x=torch.ones(8)))  # doctest: +SKIP

    Parameters
    ----------
    kernel : Elementwise
        The kernel, with its inputs.

    Returns
    -------
    Comparison
        Bytes per second of both. The kernel's bytes are the compulsory ones (inputs and result once); a copy reads its
        array and writes it. On a CPU torch evaluates the line operator by operator, and the text says so. In the
        executed edition nothing is measured.
    """
    if static():
        return Comparison("Measured where you run this cell: it is not part of the recording.")

    from brrr.timing import measure_together

    on, result = tensors_on(kernel.device), kernel()
    found = measure_together([kernel, result.clone], device=on)
    moved = (kernel.bytes, 2 * result.numel() * result.element_size())
    rates = []
    for each, nbytes in zip(found, moved, strict=True):
        time = each.busy_s or each.period_s
        assert time is not None
        rates.append(nbytes / time.median)
    rows = tuple(
        (label, units.quantity(nbytes, "B"), units.quantity(rate, "B/s"))
        for label, nbytes, rate in zip((kernel.line, "a copy"), moved, rates, strict=True)
    )
    text = f"Your line moves its bytes at {units.percent(rates[0] / rates[1], 2)} of a copy's rate."
    if kernel.emulated:
        text += " Here torch runs it operator by operator, on the CPU: it is not one kernel, and pays for that."
    badge = " · ".join(("LIVE", this_device(on).name, date.today().isoformat(), f"torch {torch.__version__}"))
    return Comparison(text, ("", "must move", "a second"), rows, badge)
