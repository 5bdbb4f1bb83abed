"""Attention of one query: its bytes, the chain of its keys, and the products that grouped heads in float32 become."""

from pathlib import Path

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from brrr.counting.cost import Form, OperatorCost
from brrr.counting.description import array
from brrr.counting.tracing import cost
from brrr.gpu.datasheet import hardware
from brrr.roofline.corrections import kernel_time
from brrr.roofline.decoding import is_decoding
from brrr.roofline.device_model import model_of
from brrr.roofline.lowering import as_on_gpu
from brrr_course.nouns.table import read

ROOT = Path(__file__).resolve().parents[2]
WORKLOADS = ROOT / "data/recordings/h200/diagnosis"


def one_query(batch: int, heads: int, key_heads: int, keys: int, width: int, dtype: str = "bfloat16") -> OperatorCost:
    """As it is counted with a cache that holds more keys."""
    query, cache = array((batch, heads, 1, width), dtype), array((batch, key_heads, keys + 7, width), dtype)

    def attend(query: torch.Tensor, keys_: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(query, keys_[:, :, :keys], values[:, :, :keys], enable_gqa=True)

    (found,) = [each for each in cost(attend, query, cache, cache).operators if each.kind == "attention"]
    return found


def seconds(each: OperatorCost, device: str) -> float:
    found = kernel_time(each, model_of(device)).device_s
    assert found is not None
    return found


def test_keys_and_values_are_read_once_for_all_heads_that_share_them() -> None:
    found = one_query(4, 16, 2, 1000, 64)
    assert is_decoding(found)
    assert found.read_bytes == 2 * (4 * 16 * 64 + 2 * 4 * 2 * 1000 * 64)
    assert found.written_bytes == 2 * 4 * 16 * 64 + 4 * 4 * 16  # and the logarithm of each softmax's sum


@pytest.mark.parametrize("device", ["h100", "h200", "datasheet:h100", "datasheet:a100"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_it_is_never_faster_than_its_bytes(device: str, dtype: str) -> None:
    peak = hardware(device.removeprefix("datasheet:")).memory_bytes_per_s
    for batch, keys in ((1, 128), (64, 1024), (256, 2048), (16, 32768)):
        each = one_query(batch, 8, 8, keys, 64, dtype)
        assert seconds(each, device) > each.bytes / peak


def test_the_keys_of_few_heads_are_split_among_blocks() -> None:
    """Profiled on an H100 in a model's step: 7.5 µs with 2048 keys, 28.2 µs with 32768 (sums of two kernels)."""
    for keys, measured_s in ((2048, 7.5e-6), (32768, 28.2e-6)):
        assert seconds(one_query(1, 32, 8, keys, 64), "h100") == pytest.approx(measured_s, rel=0.15)
    split, unsplit = (seconds(one_query(1, 32, 8, 32768, 64, dtype), "h100") for dtype in ("bfloat16", "float32"))
    assert unsplit > 20 * split


def test_recorded_calls_take_what_is_predicted() -> None:
    """A query for each of 32 x 16 and 8 x 32 heads, in a CUDA Graph on an H200."""
    for file, sizes in (("workloads", (32, 16, 8192, 128)), ("unseen", (8, 32, 4096, 128))):
        name = f"decode {'x'.join(map(str, sizes))}"
        (row,) = [each for each in read(WORKLOADS / f"{file}.csv") if each["workload"] == name]
        batch, heads, keys, width = sizes
        found = seconds(one_query(batch, heads, heads, keys, width), "h200")
        assert found == pytest.approx(float(row["graph_s"]), rel=0.06)


@pytest.mark.parametrize("queries", [1, 40])
def test_grouped_heads_in_float32_are_the_products_that_torch_makes(queries: int) -> None:
    query, keys = array((2, 8, queries, 64)), array((2, 2, 40, 64))

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(query, key, value, is_causal=queries > 1, enable_gqa=True)

    made = as_on_gpu(cost(attend, query, keys, keys).operators)
    with sdpa_kernel(SDPBackend.MATH):
        told = [each for each in cost(attend, query, keys, keys).operators if each.kind != "view" and each.flop != 0]
    kernels = [each for each in made if each.kind not in ("view", "copy")]
    mask = [each for each in told if each.name == "aten.where"]  # of queries by keys: small
    told = [each for each in told if each not in mask]
    assert [each.name for each in kernels] == [each.name for each in told]
    assert [(each.read_bytes, each.written_bytes) for each in kernels] == [
        (each.read_bytes, each.written_bytes) for each in told
    ]
    assert [each.matmuls for each in kernels] == [each.matmuls for each in told]
    assert [each.name for each in made if each.kind == "copy"] == ["aten.clone"] * 2


def test_what_a_kernel_takes_stays_one() -> None:
    short = array((2, 8, 1, 64), "bfloat16"), array((2, 2, 40, 64), "bfloat16"), array((2, 2, 40, 64), "bfloat16")
    plain = array((2, 8, 1, 64)), array((2, 8, 40, 64)), array((2, 8, 40, 64))
    for given in (short, plain):
        operators = cost(lambda q, k, v: scaled_dot_product_attention(q, k, v, enable_gqa=True), *given).operators
        assert [each.kind for each in as_on_gpu(operators)] == ["attention"]
    by_hand = OperatorCost("attention", 8.0, 8.0, 8.0, "float32", (), "attention", form=Form("all", 8, 64))
    assert not is_decoding(by_hand) and as_on_gpu([by_hand]) == [by_hand]


def test_tensors_on_meta_count_as_on_a_device() -> None:
    """Torch chooses for them no kernel of attention; a model that is only described has them."""
    layer = torch.nn.MultiheadAttention(64, 4, batch_first=True)
    x = torch.ones(2, 24, 64)
    real = cost(lambda: layer(x, x, x, need_weights=False)).operators
    layer, x = layer.to("meta"), x.to("meta")
    assert cost(lambda: layer(x, x, x, need_weights=False)).operators == real
    assert any(each.kind == "attention" for each in real)
