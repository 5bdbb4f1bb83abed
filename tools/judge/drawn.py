"""Operators and programs that chance drew out of documentation, two sets of them, beside what is predicted of them."""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any

import torch

from brrr.core.errors import BrrrError, TraceError
from brrr.counting.cost import Cost
from brrr.counting.parts import by_cudnn
from brrr.counting.tracing import cost
from brrr.roofline.peaks import Peaks, find_peaks
from brrr.roofline.predicting import predict
from tools.judge.rows import DEVICE, LOOP, Row
from tools.judge.whole import lines

Call = Callable[..., Any]
SETS = "unlisted", "unlisted_second"
"""A file of each holds what was drawn (.toml), a device's folder another of what was measured of it (.jsonl)."""
NEAR, LEAST = 0.2, 0.5
"""So near a program's time in a loop was wanted; no prediction below so much of the time without saying so."""


def cases(of: str) -> dict[str, dict[str, Any]]:
    """What was drawn for a set, by name; `make` builds one."""
    drawn = tomllib.loads(Path(__file__).with_name(f"{of}.toml").read_text(encoding="utf-8"))
    return {each["name"]: {"kind": kind, **each} for kind in ("operator", "program") for each in drawn[kind]}


def make(case: Mapping[str, Any], device: str) -> tuple[Call, list[Any], bool]:
    """A case on a device: what is called, with which tensors, and whether backward is run, too."""
    names = {**vars(torch), **globals(), "device": device}
    names |= {name: import_module(name) for name in ("transformers", "torchvision") if name in case["call"]}
    torch.manual_seed(0)
    with torch.device(device):
        call, args = (eval(" ".join(case[key].split()), names) for key in ("call", "args"))
    for place in case.get("gradients", ()):
        args[place].requires_grad_()
    return call, args, "gradients" in case


def inference(model: torch.nn.Module, run: Call, dtype: torch.dtype) -> Call:
    """A call without gradients."""
    return torch.no_grad()(partial(run, model.eval().to(dtype)))


def training(model: torch.nn.Module, loss: Call, autocast: bool = False) -> Call:
    """A step of AdamW; with `autocast` in bfloat16."""
    optimizer, device = torch.optim.AdamW(model.parameters()), next(model.parameters()).device.type
    for each in model.parameters():
        each.grad = torch.zeros_like(each)
    optimizer.step()  # its state is there from the first step on

    def step(*args: torch.Tensor) -> None:
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=autocast):
            found = loss(model, *args)
        found.backward()
        optimizer.step()

    return step


@torch.no_grad()
def decoding(model: Any, before: torch.Tensor, source: torch.Tensor | None = None) -> Call:
    """One token beside the cache of those before it, which is afterwards as it was."""
    model.eval().bfloat16()
    held = {} if source is None else {"encoder_outputs": model.get_encoder()(source)}
    name = "input_ids" if source is None else "decoder_input_ids"
    cache = model(**held, **{name: before}, use_cache=True).past_key_values

    @torch.no_grad()
    def step(token: torch.Tensor) -> Any:
        found = model(**held, **{name: token}, past_key_values=cache, use_cache=True).logits
        cache.crop(-1)
        return found

    return step


# ---- judging ----


def rows(folder: Path) -> Iterator[Row]:
    """Those of each set that the folder holds; what failed when it was measured is left out."""
    if peaks := find_peaks(folder):
        for of in SETS:
            for line in lines(folder, f"{of}.jsonl"):
                yield from of_line(line, counted(cases(of)[line["name"]]), peaks, of)


def counted(case: Mapping[str, Any]) -> Cost | None:
    """What a case costs; it is run once where values decide, as `cost` asks for."""
    call, args, backward = make(case, "cuda" if torch.cuda.is_available() else "cpu")
    for run in (False, True):
        with suppress(TraceError), by_cudnn():
            return cost(call, *args, backward=backward, run=run)
    return None


def of_line(line: Mapping[str, Any], work: Cost | None, peaks: Peaks, of: str = SETS[0]) -> Iterator[Row]:
    """Of one case: its time on the device; a program's in a loop, too, which without a prediction is not near."""
    group, name, said = f"{of} {line['kind']}s", line["name"], None
    with suppress(BrrrError):
        said = work and predict(work, device=peaks)
    yield Row(group, "predicted", name, said is not None)
    if said and said.busy_s and line["busy_s"]:
        off = said.busy_s / line["busy_s"] - 1
        yield Row(group, f"{DEVICE}, also at least", name, off)
        if not said.unknown:
            yield Row(group, DEVICE, name, off)
        yield Row(group, "half or more, or at least", name, bool(said.unknown) or off >= LEAST - 1)
    if line["kind"] == "program":
        off = said.period_s / line["period_s"] - 1 if said else inf
        yield Row(group, f"{LOOP}, within {NEAR:.0%}", name, abs(off) <= NEAR)
