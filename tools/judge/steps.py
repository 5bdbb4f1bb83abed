"""Twelve programs whose memory is predicted before they run: what each calls again and again, on any device.

Chosen on 30 November 2026 for what takes memory in them, before any was measured; none is left out afterwards.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as f
from torch.utils.checkpoint import checkpoint

Step = Callable[[], Any]
WORDS = 32_000


class Adapted(nn.Module):
    """A layer that stays as it is, and two narrow ones that learn (LoRA)."""

    def __init__(self, layer: nn.Linear, rank: int = 16) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down, self.up = nn.Linear(layer.in_features, rank, False), nn.Linear(rank, layer.out_features, False)

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both."""
        return cast(Tensor, self.layer(x) + self.up(self.down(x)))


class Block(nn.Module):
    """A transformer's block: attention, then two products with a GELU between them, each behind a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norm, self.second = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, cache: tuple[Tensor, Tensor] | None = None, place: int = 0) -> Tensor:
        """Attention to what came before; with a cache of keys and values, in which this one's stand from `place` on."""
        q, k, v = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in self.qkv(self.norm(x)).chunk(3, -1))
        if cache is not None:
            for kept, new in zip(cache, (k, v), strict=True):
                kept[:, :, place : place + new.shape[2]] = new
            k, v = cache
        seen = f.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return cast(Tensor, x + self.narrow(f.gelu(self.wide(self.second(x)))))


class Language(nn.Module):
    """Words to words through blocks."""

    def __init__(self, width: int = 768, layers: int = 12, again: bool = False) -> None:
        super().__init__()
        self.words, self.norm, self.head = nn.Embedding(WORDS, width), nn.LayerNorm(width), nn.Linear(width, WORDS)
        self.blocks = nn.ModuleList(Block(width, width // 64) for _ in range(layers))
        self.again = again

    def forward(self, words: Tensor, cache: Any = None, place: int = 0) -> Tensor:
        """The scores of the next words; with `again` each block is computed again in the backward pass."""
        x = self.words(words)
        for block, kept in zip(self.blocks, cache or [None] * len(self.blocks), strict=True):
            x = checkpoint(block, x, use_reentrant=False) if self.again else block(x, kept, place)
        return cast(Tensor, self.head(self.norm(x)))


class Recurrent(nn.Module):
    """Words to words through an LSTM of two layers."""

    def __init__(self, width: int = 1024) -> None:
        super().__init__()
        self.words, self.lstm = nn.Embedding(WORDS, width), nn.LSTM(width, width, 2, batch_first=True)
        self.head = nn.Linear(width, WORDS)

    def forward(self, words: Tensor) -> Tensor:
        """The scores of the next words."""
        return cast(Tensor, self.head(self.lstm(self.words(words))[0]))


class Bottleneck(nn.Module):
    """Three convolutions beside a way past them, as in ResNet-50."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        sizes = ((before, width, 1, 1), (width, width, 3, stride), (width, 4 * width, 1, 1))
        self.layers = nn.ModuleList(_normed(*each) for each in sizes)
        self.past = _normed(before, 4 * width, 1, stride) if stride > 1 or before != 4 * width else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Both ways, added."""
        found = x
        for place, layer in enumerate(self.layers):
            found = f.relu(layer(found), inplace=True) if place < 2 else layer(found)
        return f.relu(found.add_(self.past(x)), inplace=True)


def _normed(before: int, behind: int, size: int, stride: int) -> nn.Module:
    layer = nn.Conv2d(before, behind, size, stride, size // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(behind))


def resnet() -> nn.Module:
    """ResNet-50 (K. He et al., 2015)."""

    def blocks() -> Iterator[nn.Module]:
        before = 64
        for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
            for place in range(count):
                yield Bottleneck(before, width, 2 if place == 0 and width > 64 else 1)
                before = 4 * width

    first = [_normed(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*first, *blocks(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def training(
    device: str, model: nn.Module, make: Callable[..., Any], rows: int, *, length: int = 0, times: int = 1,
    autocast: bool = False, dtype: torch.dtype = torch.float32,
) -> Step:  # fmt: skip
    """A step over words, or over images where they have no length; `times` batches for each step of the optimizer."""
    model = model.to(device, dtype)
    inputs = torch.zeros(rows, length, dtype=torch.int64) if length else torch.zeros(rows, 3, 224, 224, dtype=dtype)
    inputs, classes = inputs.to(device), torch.zeros(rows, *[length] * bool(length), dtype=torch.int64, device=device)
    optimizer = make([each for each in model.parameters() if each.requires_grad])

    def step() -> None:
        optimizer.zero_grad()
        for _ in range(times):
            with torch.autocast(device, torch.bfloat16) if autocast else nullcontext():
                scores = model(inputs)
                loss = f.cross_entropy(scores.flatten(0, -2), classes.flatten())
            (loss / times).backward()
        if times > 1:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def inference(device: str, rows: int, length: int, places: int = 0) -> Step:
    """The scores of all words in bfloat16; with places, one word more behind the last but one of so many."""
    model = Language(1024, 16).to(device, torch.bfloat16).eval()
    words = torch.zeros(rows, length, dtype=torch.int64, device=device)
    shape = (rows, 16, places, 64)
    cache = [
        tuple(torch.zeros(shape, dtype=torch.bfloat16, device=device) for _ in "kv") for _ in range(16 * bool(places))
    ]
    return torch.no_grad()(partial(model, words, cache, places - 1))


def adapted(model: Language) -> Language:
    """With layers beside its attention that learn, and nothing else that does."""
    model.requires_grad_(False)
    for block in model.blocks:
        block.qkv, block.out = Adapted(cast(Any, block).qkv), Adapted(cast(Any, block).out)
    return model


ADAMW, SGD = torch.optim.AdamW, partial(torch.optim.SGD, lr=0.1, momentum=0.9)
FUSED = partial(ADAMW, fused=True)
PROGRAMS: dict[str, Callable[[str], Step]] = {
    "adamw": lambda on: training(on, Language(), ADAMW, 4, length=1024),
    "adamw fused": lambda on: training(on, Language(1280, 16), FUSED, 2, length=512),
    "sgd": lambda on: training(on, Language(), SGD, 8, length=512),
    "autocast": lambda on: training(on, Language(), ADAMW, 8, length=1024, autocast=True),
    "checkpointing": lambda on: training(on, Language(again=True), FUSED, 16, length=1024, autocast=True),
    "lora": lambda on: training(on, adapted(Language(1024, 24)), ADAMW, 4, length=1024, dtype=torch.bfloat16),
    "inference": lambda on: inference(on, 16, 1024),
    "decoding": lambda on: inference(on, 32, 1, places=2048),
    "resnet": lambda on: training(on, resnet(), SGD, 64),
    "long": lambda on: training(on, Language(1024, 4), ADAMW, 1, length=16_384, dtype=torch.bfloat16),
    "lstm": lambda on: training(on, Recurrent(), ADAMW, 32, length=256),
    "accumulation": lambda on: training(on, Language(), FUSED, 2, length=1024, times=4),
}
BATCHES: dict[str, Callable[[str, int], Step]] = {
    "adamw": lambda on, rows: training(on, Language(layers=4), ADAMW, rows, length=1024),
    "inference": lambda on, rows: inference(on, rows, 1024),
    "resnet": lambda on, rows: training(on, resnet(), SGD, rows),
}
"""Of which the largest batch is predicted, within a part of the device's memory."""
