"""A decoder of a Llama's shape, written for reading: RMSNorm, rotary places, grouped-query attention, SwiGLU, a cache.

Its operators are those of `transformers`' LlamaForCausalLM, one after the other, with the output's weights tied to the
embedding's. The weights are random, drawn so that the numbers keep their size from layer to layer.

>>> model = Llama(SMALL, torch.float32, "cpu")
>>> cache = new_cache(SMALL, batch=2, length=10, like=model.embedding)
>>> prompt = torch.tensor([[3, 1, 4], [1, 5, 9]])
>>> model(prompt, cache).shape                                  # prefill: the logits of each sequence's last token
torch.Size([2, 8192])
>>> model(torch.tensor([[2], [6]]), cache, start=3).shape       # decode: one more token, behind three
torch.Size([2, 8192])
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

from brrr.core.errors import ArgumentError
from brrr_course.experiments.llama_sizes import SMALL, Shape

__all__ = ["SMALL", "Cache", "Llama", "Shape", "new_cache"]

EPSILON, SLOWEST = 1e-5, 500_000.0
"""What keeps a norm from dividing by zero; the base of the rotary angles."""

Cache = Sequence[tuple[torch.Tensor, torch.Tensor]]
"""Of each layer the keys and the values of all tokens so far: (batch, heads of keys, length, width of a head)."""


def new_cache(shape: Shape, batch: int, length: int, like: torch.Tensor) -> Cache:
    """A static cache: room for `length` tokens of each sequence, in the type and on the device of `like`."""
    size = (batch, shape.kv_heads, length, shape.head)
    return [(like.new_zeros(size), like.new_zeros(size)) for _ in range(shape.layers)]


class RMSNorm(nn.Module):
    """Each token's numbers over their root mean square, which is computed in float32, times a weight for each."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPSILON)
        return self.weight * wide.to(x.dtype)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Numbers i and i + half of each head, as a pair, turned by the angle of the token's place.

    >>> rotated(torch.tensor([1.0, 0.0]), torch.zeros(2), torch.ones(2))
    tensor([0., 1.])
    """
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Attention(nn.Module):
    """Grouped-query attention: several heads of queries look at the same head of keys and values, in the cache."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.head, kv = shape.head, shape.kv_heads * shape.head
        self.q, self.k = nn.Linear(shape.hidden, shape.hidden, bias=False), nn.Linear(shape.hidden, kv, bias=False)
        self.v, self.o = nn.Linear(shape.hidden, kv, bias=False), nn.Linear(shape.hidden, shape.hidden, bias=False)

    def forward(
        self, x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor], keys: torch.Tensor | None = None,
        values: torch.Tensor | None = None, start: int = 0,
    ) -> torch.Tensor:  # fmt: skip
        batch, count, _ = x.shape
        q, k, v = (part(x).view(batch, count, -1, self.head).transpose(1, 2) for part in (self.q, self.k, self.v))
        k = rotated(k, *turn)
        if keys is not None and values is not None:  # without a cache, as in training, only these tokens are seen
            keys[:, :, start : start + count] = k
            values[:, :, start : start + count] = v
            k, v = keys[:, :, : start + count], values[:, :, : start + count]
        shared = k.shape[1] != q.shape[1]  # asked for in vain, it may keep the kernel that needs no matrix away
        seen = F.scaled_dot_product_attention(rotated(q, *turn), k, v, is_causal=count > 1, enable_gqa=shared)
        seen = seen.transpose(1, 2).reshape(batch * count, -1)  # as a matrix, or torch multiplies sequence by sequence
        return self.o(seen).view(batch, count, -1)  # type: ignore[no-any-return]


class Adapted(nn.Module):
    """A layer whose weights stay, and beside it two narrow ones that learn what is added to it (LoRA)."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer, device = layer.requires_grad_(False), layer.weight.device
        self.down = nn.Linear(layer.in_features, rank, bias=False, device=device)
        self.up = nn.Linear(rank, layer.out_features, bias=False, device=device)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + self.up(self.down(x))  # type: ignore[no-any-return]


class SwiGLU(nn.Module):
    """The network of each layer: one projection, through SiLU, gates another."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(shape.hidden, shape.inner, bias=False) for _ in range(2))
        self.down = nn.Linear(shape.inner, shape.hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    """Attention and the network, a norm before each, their results added to what came in."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention_norm, self.attention = RMSNorm(shape.hidden), Attention(shape)
        self.network_norm, self.network = RMSNorm(shape.hidden), SwiGLU(shape)

    def forward(
        self, x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor], keys: torch.Tensor | None = None,
        values: torch.Tensor | None = None, start: int = 0,
    ) -> torch.Tensor:  # fmt: skip
        x = x + self.attention(self.attention_norm(x), turn, keys, values, start)
        return x + self.network(self.network_norm(x))  # type: ignore[no-any-return]


class Llama(nn.Module):
    """Tokens (batch, count) to the logits of each sequence's last one (batch, words); the cache is written."""

    def __init__(self, shape: Shape, dtype: torch.dtype, device: str, places: int = 2**15) -> None:
        super().__init__()
        self.shape = shape
        with torch.device("meta"):  # the weights are made once, on the device and in their type
            self.embedding = nn.Parameter(torch.empty(shape.words, shape.hidden))
            self.layers = nn.ModuleList(DecoderLayer(shape) for _ in range(shape.layers))
            self.norm = RMSNorm(shape.hidden)
        self.to(dtype).to_empty(device=device).requires_grad_(False)
        torch.manual_seed(0)
        for weight in self.parameters():
            if weight.dim() == 1:
                weight.normal_(1.0, 0.1)
            else:
                weight.normal_(0.0, 1.0 if weight is self.embedding else math.sqrt(2 / weight.shape[1]))
        half = torch.arange(0, shape.head, 2, device=device) / shape.head
        angles = torch.arange(places, device=device)[:, None] / SLOWEST**half
        self.cos, self.sin = (each(torch.cat((angles, angles), dim=1)).to(dtype) for each in (torch.cos, torch.sin))

    def forward(self, tokens: torch.Tensor, cache: Cache, start: int = 0) -> torch.Tensor:
        """tokens: several from the first on, or one more behind `start` of them, which the cache holds."""
        count = tokens.shape[1]
        if start and count > 1:
            raise ArgumentError("Llama", "tokens", f"{count} behind {start}", "one token, or all from the first on")
        turn = self.cos[start : start + count], self.sin[start : start + count]
        x = self.embedding[tokens]
        for layer, (keys, values) in zip(self.layers, cache, strict=True):
            x = layer(x, turn, keys, values, start)
        return F.linear(self.norm(x[:, -1]), self.embedding)
