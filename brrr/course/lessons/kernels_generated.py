"""The kernel that torch.compile wrote: `generated("cos_cos")`, live where there is a compiler, else as recorded.

python -m brrr.course.lessons.kernels_generated  # on a GPU: writes what its compiler makes
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from brrr.core.errors import ArgumentError, NotRecordedError
from brrr.core.paths import recordings_root
from brrr.core.values import Badge, DeviceKind
from brrr.course.nouns.source import quick
from brrr.course.sources.named import source

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
        badge = f"<div style='opacity:.75;font-size:90%'>{escape(str(self.badge))}</div>"
        return f"<div style='overflow-x:auto'>{code}</div>{badge}"


def generated(name: str, on: str | None = None) -> GeneratedCode:
    """What torch.compile makes of a piece of work: compiled now on a GPU, or on a CPU with a C++ compiler.

    >>> generated("cos_cos", on="recorded:h200").language  # doctest: +SKIP
    'python'

    name: `cos_cos`, `chain` or `softmax`. on: a source's name (default: the lesson's). Where nothing can be compiled,
    and where `BRRR_QUICK=1` asks for little, the recorded one is shown. ArgumentError for another name;
    NotRecordedError where none was recorded.
    """
    if name not in WORKS:
        raise ArgumentError("generated", "name", name, f"one of {', '.join(WORKS)}")
    chosen = source(on).name
    if chosen == "cuda" or (chosen == "cpu" and has_cpp_compiler() and not quick()):
        return compiled_now(name, "cuda" if chosen == "cuda" else "cpu")
    return recorded(name, RECORDED if chosen == "cpu" else chosen)


def has_cpp_compiler() -> bool:
    """Whether torch.compile finds a C++ compiler for the CPU."""
    return any(shutil.which(each) for each in (os.environ.get("CXX", ""), "g++", "clang++", "cl") if each)


def compiled_now(name: str, kind: DeviceKind) -> GeneratedCode:
    """Compile, and keep what the compiler writes; the result is checked against the operators one by one."""
    from datetime import date
    from unittest import mock

    import torch
    from torch._inductor import config
    from torch._inductor.graph import GraphLowering

    from brrr.course.experiments.checked import compiled
    from brrr.gpu.device import this_device

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
    import torch

    from brrr.course.experiments.cos_cos.work import cos_cos
    from brrr.course.experiments.fusion.work import SCALE, WORKS

    device = "cuda" if kind == "cuda" else "cpu"
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
    path = (root or recordings_root()) / slug / FOLDER / f"{name}.txt"
    if not path.is_file():
        raise NotRecordedError(
            f"generated: {path} is not there; `python -m brrr.course.lessons.kernels_generated` makes it on a GPU"
        )
    origin, _, whole = path.read_text(encoding="utf-8").partition("\n")
    device, day, torch = origin.removeprefix("# ").split(" · ")
    return GeneratedCode(name, Badge("RECORDED", device, day, torch), whole)


def write(root: Path, kind: DeviceKind = "cuda") -> list[Path]:
    """Compile every piece of work here and write what was generated, its origin in the first line."""
    from brrr.gpu.device import this_device

    folder = root / this_device(kind).slug / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name in WORKS:
        code = compiled_now(name, kind)
        origin = " · ".join((code.badge.device, code.badge.date, code.badge.torch))
        paths.append(folder / f"{name}.txt")
        paths[-1].write_text(f"# {origin}\n{code.whole.rstrip()}\n", encoding="utf-8")
    return paths


if __name__ == "__main__":
    for each in write(Path(sys.argv[1]) if len(sys.argv) > 1 else recordings_root()):
        print(each)
