"""Programs of the kinds that people run, of transformers, torchvision and torch.nn, as `programs.toml` lists them.

>>> len(PROGRAMS) >= 30, PROGRAMS[0].name
(True, 'Llama decode, 1 sequence')

A program is a model, its inputs, and what a step of it does (`task`): inference, "generate", "decode" with a cache,
"static" with one of a fixed size, or training by an optimiser of that name. `fixes` are remedies that it can have.
"""

import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tools.diagnosis.workloads import TYPES, Call

DATA: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
Made = tuple[nn.Module, tuple[Any, ...]]


@dataclass(frozen=True)
class Program:
    """A step by its name. given: its lines in the list; captured: a CUDA Graph can hold it, but for its fault."""

    name: str
    given: Mapping[str, Any]
    fixes: tuple[str, ...] = ()
    captured: bool = True

    def call(self, device: str = "cuda", small: bool = False, scale: int = 1, fix: str = "") -> Call:
        """The step, from the same random numbers; small: for a test. scale: of how many times as many samples. fix: a
        remedy that it then has, or "graph": what a CUDA Graph can hold, without loader, copy and `.item()`."""
        torch.manual_seed(0)
        given = {**self.given, "rows": (min(self.given["rows"], 2) if small else self.given["rows"]) * scale}
        given |= {"small": small, "device": device, "dtype": TYPES[given.get("dtype", "float32")]}
        given |= {name: most for name, most in SMALL.items() if small and name in given}
        model, inputs = MODELS.get(given["model"], stock)(given)
        task = given.get("task", "")
        if task[:1].isupper():
            return trained(given, fix, model.to(device), inputs)
        return still(given, fix, model.to(device, given["dtype"]).eval().requires_grad_(False), inputs)


SMALL = {"length": 16, "side": 32, "width": 32, "count": 8, "wait_s": 0.005}


def trained(given: Mapping[str, Any], fix: str, model: nn.Module, inputs: tuple[Any, ...]) -> Call:
    """A step of training; its batch comes from a loader where that makes it wait."""
    model, device, name = model.to(given["dtype"]).train(), given["device"], given["task"]
    options: dict[str, Any] = {"fused": True} if fix == "fused optimiser" else {"foreach": given.get("foreach")}
    if fix == "graph" and name != "SGD" and device == "cuda":
        options["capturable"] = True
    optimiser = getattr(torch.optim, name)(model.parameters(), lr=1e-4, **options)
    slow, reads = "wait_s" in given and not fix, given.get("item") and not fix
    batches = loaded(inputs, given["wait_s"], device) if slow else None

    def step() -> object:
        batch = next(batches) if batches is not None else inputs
        with torch.autocast(device, dtype=torch.bfloat16) if given.get("autocast") else nullcontext():
            found: Any = model(*batch) if given["model"] not in DATA["model"] else model(*batch, labels=batch[0])
        found = found[0] if isinstance(found, tuple) else found  # a recurrent layer's states stand behind
        loss = found.loss if hasattr(found, "loss") else found.float().square().mean()
        loss.backward()
        if given.get("clip"):
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return loss.item() if reads else loss.detach()

    return step


class Slow(torch.utils.data.IterableDataset[Any]):
    """One batch again and again, each after a wait."""

    def __init__(self, batch: Any, wait_s: float) -> None:
        self.batch, self.wait_s = batch, wait_s

    def __iter__(self) -> Iterator[Any]:
        while True:
            time.sleep(self.wait_s)
            yield self.batch


def loaded(batch: Any, wait_s: float, device: str) -> Iterator[Any]:
    """From pinned memory to the device."""
    ready = [each.cpu().pin_memory() if device == "cuda" else each for each in batch]
    for each in torch.utils.data.DataLoader(Slow(ready, wait_s), batch_size=None):
        yield [one.to(device, non_blocking=True) for one in each]


def still(given: Mapping[str, Any], fix: str, model: Any, inputs: tuple[Any, ...]) -> Call:
    """A step of inference; also for one sample after another, or of a batch that is copied to the device."""
    x, task = inputs[0], given.get("task")
    if task in ("decode", "static"):
        return writing(model, x, task == "static")
    if task == "generate":
        options = {"max_new_tokens": 3 if given["small"] else 16, "pad_token_id": 0, "eos_token_id": None}
        return lambda: model.generate(x, attention_mask=torch.ones_like(x), do_sample=False, **options)
    if given.get("one_by_one") and fix != "batched":
        return lambda: torch.cat([model(each[None]) for each in x])
    if given.get("copied") and fix not in ("keep on device", "graph"):
        host = x.cpu().pin_memory() if fix == "pinned memory" and given["device"] == "cuda" else x.cpu()
        return lambda: model(host.to(given["device"], non_blocking=True))
    return (lambda: model(*inputs).logits) if given["model"] in DATA["model"] else lambda: model(*inputs)


def writing(model: Any, words: torch.Tensor, static: bool) -> Call:
    """One new word for each sequence behind as many as `words` has; the cache is as long as before when it is over."""
    from transformers import DynamicCache, StaticCache

    (rows, length), config = words.shape, model.config
    size = (rows, config.num_key_value_heads, length, config.hidden_size // config.num_attention_heads)
    cache = StaticCache(config, max_cache_len=length + 1) if static else DynamicCache(config=config)
    for layer in range(config.num_hidden_layers):
        cache.update(*(torch.randn(size, dtype=model.dtype, device=words.device) for _ in range(2)), layer)
    held = [(each, each.keys, each.values) for each in cache.layers]
    place = torch.full((rows, 1), length, device=words.device)

    def step() -> object:
        found = model(input_ids=words[:, :1], past_key_values=cache, position_ids=place, use_cache=True).logits
        for layer, keys, values in held:
            if static:
                layer.cumulative_length.fill_(length)
            else:
                layer.keys, layer.values = keys, values
        return found

    return step


# ---- models with inputs ----------------------------------------------------------------------------------------------


def numbers(given: Mapping[str, Any], *size: int) -> tuple[torch.Tensor]:
    """Random numbers for each sample, in the type of the weights."""
    return (torch.randn(given["rows"], *size, dtype=given["dtype"], device=given["device"]),)


def words(given: Mapping[str, Any], among: int, *size: int) -> tuple[torch.Tensor]:
    """Random words."""
    return (torch.randint(among, size, device=given["device"]),)


def stock(given: Mapping[str, Any]) -> Made:
    """A model of transformers where the list has its sizes, else one of torchvision for images."""
    with torch.device(given["device"]):
        if given["model"] not in DATA["model"]:
            import torchvision

            side = 64 if given["small"] and not given["model"].startswith(("vit", "swin")) else 224
            return getattr(torchvision.models, given["model"])(weights=None), numbers(given, 3, side, side)
        import transformers

        of = DATA["model"][given["model"]]
        sizes = {**of["full"], **given.get("sizes", {}), **(of["small"] if given["small"] else {})}
        config = transformers.AutoConfig.for_model(given["model"], **sizes)
        model = getattr(transformers, f"AutoModelFor{of['head']}").from_config(config)
    return model, words(given, sizes["vocab_size"], given["rows"], given["length"])


def twice(before: int, after: int) -> nn.Module:
    """Two convolutions, each with a norm."""
    parts = [(nn.Conv2d(n, after, 3, padding=1), nn.GroupNorm(8, after), nn.SiLU()) for n in (before, after)]
    return nn.Sequential(*parts[0], *parts[1])


class UNet(nn.Module):
    """Two convolutions, what the levels below make of half the sides, and two convolutions of both."""

    def __init__(self, before: int, width: int, *deeper: int) -> None:
        super().__init__()
        self.first, self.last = twice(before, width), twice(2 * width, width) if deeper else None
        if deeper:
            self.below, self.up = UNet(width, *deeper), nn.ConvTranspose2d(deeper[0], width, 2, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return x if self.last is None else self.last(torch.cat([x, self.up(self.below(F.max_pool2d(x, 2)))], 1))


class Recommender(nn.Module):
    """26 tables, a sum of each sample's rows of each, and a small network."""

    def __init__(self, rows: int, width: int = 64) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(26))
        self.top = nn.Sequential(nn.Linear(26 * width, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, chosen: torch.Tensor) -> object:
        return self.top(torch.cat([table(each) for table, each in zip(self.tables, chosen, strict=True)], 1))


class Messages(nn.Module):
    """What neighbours send is added up at each node, and goes through a layer; twice."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(2))

    def forward(self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(torch.zeros_like(x).index_add_(0, target, x[source])))
        return x


class Cells(nn.Module):
    """A recurrent layer, cell after cell."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(width, width)

    def forward(self, x: torch.Tensor) -> object:
        state = None
        for each in x.unbind(1):
            state = self.cell(each, state)
        return state


def layers(given: Mapping[str, Any]) -> Made:
    """Layers with a GELU each."""
    width = given["width"]
    parts = [part for _ in range(given["count"]) for part in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(*parts), numbers(given, width)


def bags(given: Mapping[str, Any]) -> Made:
    """Each sample looks up four rows of each table."""
    rows = 50 if given["small"] else 200_000
    return Recommender(rows), words(given, rows, 26, given["rows"], 4)


def messages(given: Mapping[str, Any]) -> Made:
    """A graph whose nodes have 16 edges each."""
    nodes = given["rows"]
    return Messages(128), (*numbers(given, 128), *words(given, nodes, 16 * nodes), *words(given, nodes, 16 * nodes))


def encoder(given: Mapping[str, Any]) -> Made:
    """Four layers of torch's own encoder."""
    width = 64 if given["small"] else 768
    one = nn.TransformerEncoderLayer(width, width // 64, 4 * width, batch_first=True)
    return nn.TransformerEncoder(one, 4, enable_nested_tensor=False), numbers(given, given["length"], width)


def unet(given: Mapping[str, Any]) -> Made:
    """A U-Net of four levels, and images."""
    wide = [(8 if given["small"] else 64) * 2**level for level in range(4)]
    return UNet(3, *wide), numbers(given, 3, given["side"], given["side"])


MODELS: Mapping[str, Callable[[Mapping[str, Any]], Made]] = {
    "layers": layers, "bags": bags, "messages": messages, "encoder": encoder, "unet": unet,
    "cells": lambda given: (Cells(given["width"]), numbers(given, given["length"], given["width"])),
    "lstm": lambda given: (nn.LSTM(given["width"], given["width"], 2, batch_first=True),
                           numbers(given, given["length"], given["width"])),
}  # fmt: skip
PROGRAMS = tuple(
    Program(each["name"], each, tuple(each.get("fixes", ())), each.get("captured", True)) for each in DATA["program"]
)
