"""What interrupts torch.compile: lines that end a graph, calls that compile again, functions that it gives up.

torch keeps what it met while it compiled. The trace tells what of it a step runs, and what the host takes for it.

>>> print(Interruption("graph break", "train.py:12, `print(loss)`", "a builtin", 2, 3e-5))
graph break at train.py:12, `print(loss)`: 2 a step, and the host takes 30 µs from there to the next graph (a builtin)
"""

import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from cProfile import Profile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from traceback import FrameSummary
from typing import Any

from brrr.core import units
from brrr.core.files import PACKAGE
from brrr.diagnosis.calls import nested
from brrr.diagnosis.evidence import Evidence

REGION = "Torch-Compiled Region: "
"""How the profiler sees a compiled function; torch's numbers of the function and of its compilation follow."""


@dataclass(frozen=True)
class Interruption:
    """A line that interrupts torch.compile, torch's reason for it, and what it costs.

    kind: "graph break", "recompilation", or "not compiled". times: graphs that end there in a step; or compilations, in
    the whole diagnosis. seconds: of the host's in a step, from the last operator in front of the line until the graph
    behind it is entered; or of those compilations.
    """

    kind: str
    where: str
    why: str
    times: float = 1
    seconds: float = 0.0

    def __str__(self) -> str:
        took = units.seconds(self.seconds)
        cost = {"graph break": f"{self.times:.3g} a step, and the host takes {took} from there to the next graph",
                "recompilation": f"{self.times} times in this diagnosis, in {took}",
                "not compiled": "its function runs as written"}[self.kind]  # fmt: skip
        return f"{self.kind} at {self.where}: {cost} ({self.why})"


def compilations(since_s: float = 0.0) -> list[Any]:
    """What torch keeps of each compilation since a time, and of the next thousands; nothing where it keeps nothing."""
    log = sys.modules.get("torch._dynamo.utils")
    getattr(log, "set_compilation_metrics_limit", bool)(4096)  # by itself it forgets all but the last 64
    return [each for each in getattr(log, "get_compilation_metrics", list)() if each.start_time_us >= 1e6 * since_s]


def breaking(found: Evidence) -> list[Interruption]:
    """The lines that end the graphs of the steps: behind each, a region begins inside of another."""
    # what goes on behind a line torch names torch_dynamo_resume_in_FUNCTION_at_LINE; all else is called in one
    begins = {x.compile_id: f"{x.co_filename}:{re.sub('torch_dynamo_.*_', '', str(x.co_name))}" for x in compilations()}
    causes: dict[str | None, tuple[str, str]] = {}
    for each in getattr(sys.modules.get("torch._dynamo.utils"), "graph_break_reasons", ()):
        keys = [f"{x.filename}:{x.name if depth else x.lineno}" for depth, x in enumerate(each.user_stack)]
        causes |= dict.fromkeys(keys, (_at(each.user_stack), each.reason.partition("\n")[0]))
    ended, taken = 0, dict[tuple[str, str], list[float]]()
    for event, around in nested([each for each in found.events if not each.on_device]):
        if event.name.startswith(("aten::", "## Call CompiledFxGraph")) or event.sort == "runtime":
            ended = max(ended, event.end_ns)
        elif event.name.startswith(REGION):
            if any(each.name.startswith(REGION) for each in around):
                cause = causes.get(begins.get(event.name.removeprefix(REGION)), (event.name, "torch forgot its line"))
                taken.setdefault(cause, []).append(found.unprofiled_s(ended, event.start_ns))
            ended = event.start_ns
    times = ((cause, len(each) / found.steps, median(each)) for cause, each in taken.items())  # a hiccup is no line's
    return [Interruption("graph break", *cause, often, often * each_s) for cause, often, each_s in times]


def compiling_again(step: Callable[[], Any], since_s: float) -> list[Interruption]:
    """What was compiled again since a time, and what a step runs although torch has given it up."""
    with suppress(ValueError):  # another profiler is at work
        (seen := Profile()).runcall(step)
    runs = {(x.code.co_filename, x.code.co_firstlineno) for x in seen.getstats() if not isinstance(x.code, str)}
    numbered, compiled, made = dict[str, Any](), dict[Any, list[Any]](), list[Interruption]()
    for each in compilations():
        number = str(each.compile_id).partition("/")[0]
        if each.co_filename:  # which torch does not tell where its limit is reached
            numbered[number] = each.co_filename, each.co_firstlineno
        compiled.setdefault(numbered.get(number, ("", 0)), []).append(each)
    for function, every in compiled.items():
        if (every[-1].fail_type or "Skip") not in ("Skip", "SkipFrame") and function in runs:
            made.append(Interruption("not compiled", *_told(every[-1], function)))
        again = [x for x in every if x.recompile_reason and not x.fail_type and x.start_time_us >= 1e6 * since_s]
        took_s = sum(each.duration_us for each in again) / 1e6
        made += [Interruption("recompilation", *_told(each, function), len(again), took_s) for each in again[-1:]]
    return [each for each in made if not each.where.startswith(_not_the_users())]


def _not_the_users() -> tuple[str, str]:
    return str(Path(str(sys.modules["torch"].__file__)).parent), str(PACKAGE)


def _told(compiled: Any, function: Any) -> tuple[str, str]:
    """The line that torch names, else the function's first; why it failed, and which guard did."""
    guard, inside = compiled.recompile_reason or "", compiled.fail_user_frame_filename
    places = [function, *re.findall(r'File "(.+)", line (\d+)', guard)]
    places += [(inside, compiled.fail_user_frame_lineno)] if inside else []
    said = (compiled.fail_reason or "").partition("\n")[0], re.split("#|\n", guard.partition(": ")[2])[0].strip()
    return _at([FrameSummary(file, int(line), "") for file, line in places]), "; ".join(filter(None, said))


def _at(stack: Sequence[FrameSummary]) -> str:
    """The innermost line that is the user's, with its text."""
    own = [each for each in stack if not each.filename.startswith(_not_the_users())] or stack
    return f"{own[-1].filename}:{own[-1].lineno}" + f", `{own[-1].line}`" * bool(own[-1].line)
