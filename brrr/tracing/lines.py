"""The lines of a program's own code as spans in torch's profiler: an operator's line is the innermost around it.

Only what `LineSpans` stands around pays for them: a microsecond where a line begins, a tenth of one where any function
is called. What runs later is recognised by the order of its operators.
"""

import linecache
import os
import re
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from importlib.metadata import packages_distributions
from types import FrameType
from typing import Any

from brrr.core.files import PACKAGE
from brrr.core.heavy import torch

LINE, HEAD = "brrr_line: ", "`for "
"""How a span begins, which goes on with the file, the number and the text of its line; and the text of a loop."""
DATA, ITEM = " (data)", re.compile(r"`(?:for (?=.+ in )|(?=.+ = .*\bnext\())(.+?) (?:in|=) ")
"""How a mark ends that follows a line which took data from an iterator; the names that such a line gives the item."""
MADE, GIVEN = " (made)", re.compile(r"`(?!for )(\w+)(?:, \w+)*(?:: [^=]+)? = ")
"""The same of a line that made an array, a picture or bytes without torch, and the (first) name that it gave."""
MOST, DEEPEST, SHOWN, LOOKS = 10_000, 100, 60, 64
"""How often a line, and a function, is told before that is left to what stands around; lines around each other; and
characters of a line's text; how often it is looked at what an iterator gives."""
LEARNED = 2
"""Steps of each optimiser until all lines are known; in the first one it makes its state."""
PLAIN = str.maketrans({'"': "'", "\\": "/"})
installed = cache(packages_distributions)
INSTALLED = re.compile(r"[/\\](?:(?:site|dist)-packages|lib[/\\]python3[^/\\]*)[/\\]")


@cache
def is_users(file: str) -> bool:
    """Whether a source file is of none that is installed: torch, brrr, the standard library, another package.

    The profiler leaves away what a path begins with where modules are found.

    >>> is_users("train.py"), is_users("random.py"), is_users("torch/nn/modules/module.py"), is_users("<string>")
    (True, False, False, False)
    """
    if os.path.isabs(file):
        return not (INSTALLED.search(file) or file.startswith((str(PACKAGE), os.path.dirname(os.__file__))))
    top = re.split(r"[/\\.]", file)[0]
    return not (file.startswith("<") or top in sys.stdlib_module_names or top in {PACKAGE.name, *installed()})


class LineSpans:
    """A span of the profiler around each line of the user's that this thread runs meanwhile.

    >>> with LineSpans() as lines:
    ...     lines.open
    {}

    Nothing is told where a debugger, or a measurement of coverage, follows the lines already.
    """

    def __init__(self) -> None:
        self.no_data = int, float, str, type(None), torch.nn.Module, torch.nn.Parameter
        self.mark, self.process = marker(), os.getpid()
        self.told, self.steps = Counter[int | str](), Counter[int]()
        self.open: dict[FrameType, tuple[str, Any]] = {}

    def __enter__(self) -> "LineSpans":
        if sys.gettrace() is None:
            sys.settrace(self._heard)
        return self

    def __exit__(self, *_: object) -> None:
        if sys.gettrace() == self._heard:
            sys.settrace(None)
        for frame in [*self.open][::-1]:
            self._end(frame)

    def stepped(self, optimiser: Any, *_: object) -> None:
        """Ends it when all optimisers have made enough steps: a hook behind each of them."""
        self.steps[id(optimiser)] += 1
        if min(self.steps.values()) == LEARNED:
            self.__exit__()

    def _heard(self, frame: FrameType, event: str, arg: Any) -> Any:
        """What Python calls where a function is called, and in the user's where a line begins, and at its end."""
        code, caller = frame.f_code, frame.f_back
        if event == "line":
            self._at(frame)
        elif event == "return":
            self._end(frame)
        elif event == "call":
            self.told[id(code)] += 1
            often = self.told[id(code)] > MOST
            if not often and caller in self.open and not caller.f_trace_lines:
                self._at(caller)
            if often or not is_users(code.co_filename) or len(self.open) >= DEEPEST:
                return None
            if os.getpid() != self.process:  # a worker of a loader's
                return sys.settrace(None)
        return self._heard

    def _at(self, frame: FrameType) -> None:
        """A line begins, or goes on; one that always does is heard of again where it calls something new."""
        name = _name(frame.f_code.co_filename, frame.f_lineno)
        self.told[name] += 1
        frame.f_trace_lines = self.told[name] <= MOST or HEAD in name  # what a loop does tells more than its head
        if frame not in self.open or self.open[frame][0] != name:
            self._end(frame)
            self.open[frame] = name, self.mark(name)
            self.open[frame][1].__enter__()

    def _end(self, frame: FrameType) -> None:
        if frame in self.open:
            name, span = self.open.pop(frame)
            span.__exit__(None, None, None)
            items = re.findall(r"\w+", "".join(ITEM.findall(name))) if self.told[name] < LOOKS else ()
            if not all(isinstance(frame.f_locals.get(each), self.no_data) for each in items):
                with self.mark(f"{name}{DATA}"):
                    pass
            given = GIVEN.findall(name) if self.told[name] < LOOKS else ()
            if given and is_outside(frame.f_locals.get(given[0])):
                with self.mark(f"{name}{MADE}"):
                    pass


def is_outside(value: Any) -> bool:
    """Whether a value is data that torch has not made: an array, a picture, bytes, or a row of such.

    >>> is_outside([b"a file"]), is_outside("a text"), is_outside(torch.ones(2))
    (True, False, False)
    """
    while isinstance(value, list | tuple) and value:
        value = value[0]
    array = hasattr(value, "__array_interface__") and getattr(value, "shape", None) != ()
    return array or isinstance(value, bytes | bytearray | memoryview)


@cache
def _name(file: str, line: int) -> str:
    """A span's name, without what the profiler writes into its file unescaped."""
    text = " ".join(linecache.getline(file, line).split())
    text = f"`{text if len(text) <= SHOWN else f'{text[: SHOWN - 3]}...'}`" * bool(text)
    return f"{LINE}{file.removeprefix(f'{os.getcwd()}{os.sep}')}:{line} {text}".translate(PLAIN).rstrip()


def marker() -> Callable[[str], Any]:
    """torch's quick annotation where this version has it: the public one costs the host several microseconds."""
    try:
        from torch._C._profiler import _RecordFunctionFast
    except ImportError:
        return torch.profiler.record_function
    return _RecordFunctionFast
