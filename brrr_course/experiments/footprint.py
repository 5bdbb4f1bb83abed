"""What a step of a language model holds in memory when it holds most, part by part: trained in several ways, or read.

A step is followed allocation by allocation, as torch's profiler tells them on a CPU and on a GPU. What is alive at the
peak belongs to a part by what it is (a parameter, a gradient, an optimiser's state, a cache's keys and values), else it
is an activation, where the forward pass made it and left it to the backward pass, or a temporary. Bytes are in
`peak_bytes`, and add up from variant to variant: those of `activations` are in those of `peak`, which are in those of
`reserved`, what the allocator has of the GPU. Out of memory, they are what was held, and what was asked for in vain.
"""

from __future__ import annotations

import copy
import math
import random
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from brrr.core.measurement import Estimate, Measurement, Point
from brrr.counting.cost import Cost
from brrr.gpu import is_cuda, is_gpu, waiting
from brrr_course.experiments.checked import PointInputs, relative
from brrr_course.experiments.lazily import nn, torch
from brrr_course.experiments.llama_sizes import SMALL, Shape
from brrr_course.nouns.experiment import OUT_OF_MEMORY, Axis, Experiment, Guide, Variant, Workload

if TYPE_CHECKING:
    from brrr_course.experiments.llama import Llama

MEDIUM = Shape(32000, 1024, 24, 16, 16, 2816, "float32")
"""On a GPU: 341 million weights, as many heads of keys as of queries."""

TRAINED = ("SGD", "AdamW", "bf16 autocast", "checkpointing", "LoRA", "lengths vary")
READ = ("inference", "decoding")
WAYS = (*TRAINED, *READ)
PARTS = ("parameters", "gradients", "state", "activations", "cache", "temporaries", "reserved")
RUNGS = {
    "parameters": "parameters", "gradients": "up to gradients", "state": "up to state",
    "activations": "up to activations", "cache": "up to keys and values", "peak": "a step",
}  # fmt: skip
BATCHES, SEQUENCES = (1, 2, 4, 8, 16, 32), (64, 256, 512, 2048, 8192)
CPU_TOKENS, CPU_SEQUENCE, GPU_SEQUENCE = 2048, 256, 512


def supports(variant: Variant, point: Point) -> bool:
    """A CPU's steps are short, a GPU's long; the longest are read, not trained; lengths vary where there is room."""
    way, batch, sequence = str(point["way"]), int(point["batch"]), int(point["sequence"])
    if not variant.on_gpu:
        return sequence <= CPU_SEQUENCE and batch * sequence <= CPU_TOKENS and way != "lengths vary"
    return sequence >= GPU_SEQUENCE and (way in READ or sequence < max(SEQUENCES)) and (
        way != "lengths vary" or (sequence > GPU_SEQUENCE and batch < max(BATCHES)))  # fmt: skip


def cost(variant: Variant, point: Point) -> Cost:
    """About two FLOP for each weight and token, thrice in training, with checkpoints once more; a part has none."""
    if variant.implementation != "peak":
        return Cost(0.0, 0.0)
    shape, way = MEDIUM if variant.on_gpu else SMALL, str(point["way"])
    tokens = int(point["batch"]) * (1 if way == "decoding" else int(point["sequence"]))
    passes = 1 + 2 * (way in TRAINED) + (way == "checkpointing")
    return Cost(2.0 * shape.weights * tokens * passes, 4.0 * shape.weights)


EXPERIMENT = Experiment(
    title="The memory of a step",
    question="Where does the memory go, and will it fit?",
    axes=(
        Axis("way", WAYS, label="way", scale="category"),
        Axis("batch", BATCHES, label="sequences in the batch", quick=(1, 4)),
        Axis("sequence", SEQUENCES, label="tokens in a sequence", quick=(64, 512)),
    ),
    variants=(
        *(Variant(name, label, timer="own", line=name) for name, label in RUNGS.items()),
        Variant("reserved", "what the allocator has", timer="own"),
        *(Variant.twin(name, "cpu", f"CPU, {label}", timer="own") for name, label in RUNGS.items()),
    ),
    package=__name__,
    needs="CUDA",
    resident=True,
    guides=(Guide("capacity", "the GPU's memory", "DATASHEET", "memory",
                  lambda hardware, _: hardware.memory_bytes if hardware else None, (*RUNGS, "reserved")),),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `footprint` experiment runs: a step of a decoder, followed allocation by allocation.

TOLERANCE = {True: 3e-2, False: 1e-5}
"""Of the first sequence's loss, against float64: in bfloat16, or in float32."""
RATE, RANK, TIMED, SHORTER = 1e-4, 8, 2, 7
"""The optimiser's rate, the rank of LoRA's adapters, steps that are timed, steps of other lengths before the last."""
Event = tuple[int, int, int]
"""When, where, and how many bytes: less than none where they are given back."""


def at_the_peak(events: Iterable[Event], forward_ns: int, backward_ns: int, gradients: set[int]) -> dict[str, int]:
    """The bytes of each part when most is held; the passes end at two times, behind which gradients lie where they do.

    >>> at_the_peak([(1, 100, 8), (5, 200, 4), (6, 300, 2), (7, 100, -8), (8, 300, -2)], 4, 9, {200})
    {'gradients': 4, 'activations': 8, 'temporaries': 2}
    """
    alive, blocks = dict[int, tuple[int, int]](), list[tuple[int, int, int, float]]()
    held = most = when = 0
    for ns, place, nbytes in sorted(events):
        held += nbytes
        most, when = max((most, when), (held, ns), key=lambda each: each[0])
        if nbytes > 0:
            alive[place] = ns, nbytes
        elif place in alive:
            blocks.append((place, *alive.pop(place), ns))
    blocks += [(place, *made, math.inf) for place, made in alive.items()]
    parts = dict.fromkeys(("gradients", "activations", "temporaries"), 0)
    for place, made_ns, nbytes, freed_ns in blocks:
        if made_ns <= when < freed_ns:
            is_gradient = place in gradients and made_ns <= backward_ns < freed_ns
            is_kept = made_ns <= forward_ns < freed_ns
            parts["gradients" if is_gradient else "activations" if is_kept else "temporaries"] += nbytes
    return parts


def losses(model: Llama, tokens: torch.Tensor, again: bool = False) -> torch.Tensor:
    """Each sequence's mean loss; `again`: a layer keeps only its input, and computes the rest again, going back."""
    from torch.utils.checkpoint import checkpoint

    turn = model.cos[: tokens.shape[1]], model.sin[: tokens.shape[1]]
    x = model.embedding[tokens]
    for layer in model.layers:
        x = checkpoint(layer, x, turn, use_reentrant=False) if again else layer(x, turn)
    logits = nn.functional.linear(model.norm(x), model.embedding)
    each = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    return each.view(len(tokens), -1).mean(1).float()


class Program:
    """A model, its optimiser and its cache, and a step of it in a way; gradients lie where `gradients` says."""

    def __init__(self, way: str, shape: Shape, tokens: torch.Tensor) -> None:
        from brrr_course.experiments.llama import Adapted, Llama, new_cache

        self.way, self.device, self.gradients, self.ended_ns = way, tokens.device.type, set[int](), 0
        reads = way in READ
        self.model = Llama(shape, torch.bfloat16 if reads else torch.float32, self.device, tokens.shape[1])
        self.model.requires_grad_(not reads and way != "LoRA")
        if way == "LoRA":
            for layer in self.model.layers:
                attention: Any = layer.attention
                attention.q, attention.v = (Adapted(each, RANK) for each in (attention.q, attention.v))
        self.trained = [each for each in self.model.parameters() if each.requires_grad]
        optimiser = torch.optim.SGD if way == "SGD" else torch.optim.AdamW
        rate = 0.0 if way == "lengths vary" else RATE  # what is checked is the loss of the weights as they were made
        self.optimiser = optimiser(self.trained, rate) if self.trained else None
        self.cache = new_cache(shape, len(tokens), tokens.shape[1], self.model.embedding) if way == "decoding" else []
        with torch.no_grad():  # all tokens but the last, sequence by sequence: their activations are no part of a step
            for at in range(len(tokens) if self.cache else 0):
                self.model(tokens[at : at + 1, :-1], [(k[at : at + 1], v[at : at + 1]) for k, v in self.cache])

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Each sequence's loss: of all its tokens, or of a word behind its last one."""
        if self.optimiser is None:
            with torch.no_grad():
                return self._word(tokens) if self.cache else losses(self.model, tokens)
        mixed = torch.autocast(self.device, torch.bfloat16) if self.way == "bf16 autocast" else nullcontext()
        with torch.profiler.record_function("forward"), mixed:
            found = losses(self.model, tokens, self.way == "checkpointing")
        found.mean().backward()
        self.ended_ns, grads = time.time_ns(), (each.grad for each in self.trained if each.grad is not None)
        self.gradients = {each.untyped_storage().data_ptr() for each in grads}
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return found.detach()

    def _word(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = self.model(tokens[:, -1:], self.cache, tokens.shape[1] - 1)
        return nn.functional.cross_entropy(logits.float(), tokens[:, 0], reduction="none")

    def reference(self, tokens: torch.Tensor) -> torch.Tensor:
        """The first sequence's loss in float64, without a cache."""
        from brrr_course.experiments.llama import new_cache

        wide, first = copy.deepcopy(self.model).double(), tokens[:1]
        wide.cos, wide.sin = wide.cos.double(), wide.sin.double()
        with torch.no_grad():
            if not self.cache:
                return losses(wide, first).double()
            cache = new_cache(wide.shape, 1, first.shape[1], wide.embedding)
            return nn.functional.cross_entropy(wide(first, cache), first[:, 0], reduction="none")

    def held(self) -> dict[str, int]:
        """The bytes of what stays from step to step."""
        states = [] if self.optimiser is None else [each for s in self.optimiser.state.values() for each in s.values()]
        found = {"parameters": [*self.model.parameters()], "state": states,
                 "cache": [each for both in self.cache for each in both]}  # fmt: skip
        return {part: sum(each.nbytes for each in tensors) for part, tensors in found.items()}


def memory_events(nodes: Iterable[Any], device: str) -> Iterator[Event]:
    """What a profiler saw being allocated and given back on a device, in an order that is not that of time."""
    for node in nodes:
        if node.name == "[memory]" and node.extra_fields.device.type == device:
            yield node.start_time_ns, node.extra_fields.ptr, node.extra_fields.alloc_size
        yield from memory_events(node.children, device)


class Found(NamedTuple):
    """What following a step finds: each part's bytes, seconds of steps, its losses, and whether memory ran out."""

    parts: dict[str, int]
    times_s: list[float]
    losses: torch.Tensor | None
    full: bool


def followed(program: Program, tokens: torch.Tensor) -> Found:
    """One step, its allocations followed; then some that are timed."""
    from torch.profiler import ProfilerActivity, profile

    from brrr.tracing.recording import without_chatter

    on_cuda, full, asked, found, times_s = is_cuda(program.device), False, 0, None, list[float]()
    if on_cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    with without_chatter(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        try:
            for _ in range(SHORTER if program.way == "lengths vary" else 0):
                program.step(tokens[:, : random.randint(tokens.shape[1] // 2, tokens.shape[1])])
            found = program.step(tokens)
        except torch.OutOfMemoryError as error:
            full, asked = True, _asked(str(error))
    assert seen.profiler is not None and seen.profiler.kineto_results is not None
    tree = seen.profiler.kineto_results.experimental_event_tree()
    forward_ns = max((node.end_time_ns for node in tree if node.name == "forward"), default=0)
    parts = program.held() | at_the_peak(memory_events(tree, program.device), forward_ns, program.ended_ns,
                                         program.gradients)  # fmt: skip
    peak = torch.cuda.max_memory_allocated() if on_cuda else sum(parts.values())
    parts["temporaries"] += max(0, peak - sum(parts.values())) + asked  # tables, libraries' workspaces
    parts["reserved"] = max(0, torch.cuda.max_memory_reserved() + asked - sum(parts.values())) if on_cuda else 0
    wait = waiting(program.device) or (lambda: None)
    for _ in range(0 if full else TIMED):
        wait()
        began = time.perf_counter()
        program.step(tokens)
        wait()
        times_s.append(time.perf_counter() - began)
    return Found(parts, times_s, found, full)


def _asked(said: str) -> int:
    """The bytes that were asked for in vain.

    >>> _asked("CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 139.80 GiB")
    1610612736
    """
    number = re.search(r"Tried to allocate ([\d.]+) ([KMG]?)i?B", said)
    return int(float(number[1]) * 1024 ** " KMG".index(number[2] or " ")) if number else 0


class Footprint(PointInputs):
    """A point's step, followed once for all parts; nothing of it is kept but numbers."""

    def __init__(self, way: str, batch: int, sequence: int, device: str) -> None:
        shape = MEDIUM if is_gpu(device) else SMALL
        tokens = torch.randint(shape.words, (batch, sequence), device=device)
        program = Program(way, shape, tokens)
        program.step(tokens if program.cache else tokens[:1, :16])  # loads, and makes the optimiser's state
        self.expected = program.reference(tokens)
        self.found = followed(program, tokens)

    def error(self, loss: Any) -> float:
        """The relative error of the first sequence's loss; out of memory there is none."""
        return 0.0 if self.found.full else relative(loss, self.expected, torch.float32)


def workload(variant: Variant, point: Point) -> Workload:
    """The loss of a step of the variant's point, and its bytes up to the variant's part."""
    way, batch, sequence = str(point["way"]), int(point["batch"]), int(point["sequence"])
    given = Footprint.of(way, batch, sequence, variant.processor)
    parts, times_s, loss, full = given.found
    at = PARTS.index("temporaries" if variant.implementation == "peak" else variant.implementation)
    nbytes = [*accumulate(parts[part] for part in PARTS)][at]
    measured = Measurement(peak_bytes=nbytes, period_s=Estimate.of(times_s) if times_s else None,
                           device=variant.device, flags=(OUT_OF_MEMORY,) * full)  # fmt: skip
    return Workload(lambda: None if loss is None else loss[:1], given.error,
                    TOLERANCE[way in ("bf16 autocast", *READ)], others={"measured": lambda: measured})  # fmt: skip
