"""What the `decode` experiment runs: one step of the model, in each way, on caches full of random keys and values."""

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any

import torch

from brrr.core.errors import UnavailableError
from brrr.core.measurement import Estimate, Measurement, Point
from brrr.diagnosis.diagnosing import diagnose
from brrr.gpu import is_cpu, waiting
from brrr.gpu.precision import float32_products
from brrr.running.graphs import capture
from brrr_course.experiments.checked import PointInputs, compile_now, compiled, refuse_too_large, relative
from brrr_course.experiments.decode import COMPILE_WAYS, CONTEXTS, call_at, shape_of
from brrr_course.experiments.decode.llama import Llama, new_cache
from brrr_course.experiments.decode.theory import Call, Shape, cost_of, needed_bytes
from brrr_course.experiments.limits import LIMITS, added_up, limits_of
from brrr_course.experiments.utilisation.work import loop
from brrr_course.nouns.experiment import Run, Variant, Workload

TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.1}
"""Sixteen layers round their numbers to bfloat16 at every operator: 3 %. A wrong token gives 140 %."""

KEYS = 2.5
"""Keys so long that a query sees few of them: among thousands alike, one that is missed would not show."""


@lru_cache(maxsize=2)
def model_of(shape: Shape, device: str) -> Llama:
    """The model, made once for all points: a recording on a GPU measures the CPU's too."""
    return Llama(shape, getattr(torch, shape.dtype), device, places=CONTEXTS[-1])


class CallInputs(PointInputs):
    """What the ways of a point share: model, tokens, a full cache, the logits to compare with, the compiled call."""

    def __init__(self, shape: Shape, call: Call, device: str) -> None:
        self.model, self.call = model_of(shape, device), call
        beside = needed_bytes(shape, call) - shape.itemsize * shape.weights
        refuse_too_large(beside, device, f"beside the model's weights, {call}")
        torch.manual_seed(call.batch)
        self.tokens = torch.randint(shape.words, (call.batch, call.new), device=device)
        self.cache = new_cache(shape, call.batch, call.context, self.model.embedding)
        for keys, values in self.cache:
            keys.normal_(0.0, KEYS)
            values.normal_()

    def run(self) -> torch.Tensor:
        """The call, operator by operator."""
        found: torch.Tensor = self.model(self.tokens, self.cache, self.call.context - self.call.new)
        return found

    @cached_property
    def compiled(self) -> Run:
        """The call under torch.compile, which takes it whole."""
        made: Run = compiled(lambda: self.run(), fullgraph=True)  # its code is copied, a method's is not
        compile_now(made)
        return made

    @cached_property
    def limits(self) -> tuple[dict[str, float], float]:
        """The seconds of the step's kernels by limit, and of the step, from one diagnosis."""
        found = diagnose(self.run, device=self.tokens.device.type, budget_s=0.1)
        return limits_of(found), found.step_s

    @cached_property
    def expected(self) -> torch.Tensor:
        """The logits to compare with."""
        small = self.model.shape.dtype == "float32" or (self.call.batch == 1 and self.call.context <= CONTEXTS[0])
        return (self.wider() if small else self.run()).double()

    def error(self, found: Any) -> float:
        """||found - expected|| / ||expected||, of the logits."""
        return relative(found, self.expected, self.model.embedding.dtype)

    def wider(self) -> torch.Tensor:
        """The logits of the same weights in twice the bits: of a copy of the model, which goes at once."""
        shape, device = self.model.shape, self.tokens.device.type
        dtype = torch.float64 if shape.dtype == "float32" else torch.float32
        wide = Llama(shape, dtype, device, places=self.call.context)
        wide.load_state_dict(self.model.state_dict())
        cache = [(keys.to(dtype), values.to(dtype)) for keys, values in self.cache]
        with float32_products():
            found: torch.Tensor = wide(self.tokens, cache, self.call.context - self.call.new)
        return found


def workload(variant: Variant, point: Point) -> Workload:
    """One step for all readers."""
    return workload_of(variant, call_at(point))


def workload_of(variant: Variant, call: Call) -> Workload:
    """A call of the model in a way: `decode` and `prefill` have theirs from here."""
    shape, device = shape_of(variant), variant.processor
    given = CallInputs.of(shape, call, device)
    run, close = way_of(variant.way, given, device)
    told = {"measured": lambda: own(variant, given, run)} if variant.timer == "own" else {}

    return Workload(run, cost_of(shape, call), given.error, TOLERANCE[given.model.embedding.dtype],
                    synchronize=waiting(device), close=close, others=told)  # fmt: skip


def own(variant: Variant, given: CallInputs, run: Run) -> Measurement:
    """The kernels' seconds up to a limit, or what the driver reports of each second while the step runs in a loop."""
    if variant.way in LIMITS:
        return Measurement(busy_s=added_up(variant.way, *given.limits), device=variant.device)
    _, told = loop(run)
    if not told:
        raise UnavailableError("decode: the driver tells no utilisation here")
    return Measurement(busy_s=Estimate.of(told, 0.01), device=variant.device)  # it tells whole percents


def way_of(way: str, given: CallInputs, device: str) -> tuple[Run, Callable[[], None]]:
    """The call in a way, warm, and what frees what it holds beside its inputs."""
    run = given.compiled if way in COMPILE_WAYS else given.run
    if is_cpu(device) or way in ("eager", "compile", *LIMITS):
        run()
        return run, lambda: None
    held = capture(run)

    def release() -> None:
        torch.cuda.synchronize()
        held.graph.reset()
        held.output = None

    return held.replay, release
