"""The sizes of the decoders that `decode` and `prefill` run, and what follows from them."""

from typing import NamedTuple

from brrr.counting.cost import ITEMSIZE


class Shape(NamedTuple):
    """A model's sizes: the words it knows, its width, layers, heads of queries and of keys, and the network's width.

    >>> f"{LARGE.weights / 1e9:.2f} G weights, {LARGE.kv_bytes} B of keys and values a token"
    '1.24 G weights, 32768 B of keys and values a token'
    """

    words: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    inner: int
    dtype: str

    @property
    def head(self) -> int:
        """The width of a head."""
        return self.hidden // self.heads

    @property
    def kv(self) -> int:
        """The width of a layer's keys, and of its values."""
        return self.kv_heads * self.head

    @property
    def itemsize(self) -> int:
        """Bytes of a weight."""
        return ITEMSIZE[self.dtype]

    @property
    def weights(self) -> int:
        """How many weights there are; the output's are the embedding's."""
        layer = 2 * self.hidden * (self.hidden + self.kv + 1) + 3 * self.hidden * self.inner
        return self.layers * layer + self.hidden * (self.words + 1)

    @property
    def kv_bytes(self) -> int:
        """Bytes of one token's keys and values in all layers."""
        return 2 * self.layers * self.kv * self.itemsize


SMALL = Shape(8192, 256, 4, 8, 2, 1024, "float32")
LARGE = Shape(128256, 2048, 16, 32, 8, 8192, "bfloat16")
"""What runs on a CPU, and on a GPU: the second has the sizes of Llama 3.2 1B."""
