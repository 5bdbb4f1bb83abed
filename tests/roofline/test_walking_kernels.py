"""Kernels that no sweep holds, by how they go through their elements; and what no time is told of."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as f

from brrr import ArgumentError, Cost, array, cost, predict
from brrr.roofline.lowering import as_on_gpu

RECORDED = {
    ((5, 33, 49, 51), "float32", False): 33.6, ((8, 128, 63, 65), "bfloat16", False): 353.3,
    ((4, 59, 32, 49), "float32", False): 45.4, ((8, 29, 128, 96), "bfloat16", False): 52.5,
    ((8, 108, 24, 19), "bfloat16", False): 162.3, ((5, 25, 136, 81), "float32", False): 27.6,
    ((8, 64, 95, 97), "float32", True): 444.4, ((8, 64, 64, 24), "float32", True): 149.4,
}  # fmt: skip
"""µs of bilinear interpolation to twice the sides on an H100, forward, or forward and backward, as `operators` has
them."""


def image(*shape: int, dtype: str = "float32", last: bool = False, wanted: bool = False) -> torch.Tensor:
    x = torch.zeros(shape, dtype=getattr(torch, dtype))
    return (x.to(memory_format=torch.channels_last) if last else x).requires_grad_(wanted)


def busy(fn: Callable[..., Any], *args: Any, device: str = "h100", **how: Any) -> float:
    return predict(fn, *args, device=device, **how).busy_s or 0.0


def twice(x: torch.Tensor, mode: str = "bilinear") -> torch.Tensor:
    return f.interpolate(x, scale_factor=2, mode=mode)


@pytest.mark.parametrize(("shape", "dtype", "backward"), RECORDED)
def test_an_interpolation_takes_what_was_recorded(shape: tuple[int, ...], dtype: str, backward: bool) -> None:
    found = busy(twice, image(*shape, dtype=dtype, wanted=backward), backward=backward)
    assert found == pytest.approx(RECORDED[shape, dtype, backward] * 1e-6, rel=0.1)


def test_threads_of_places_go_through_images_and_channels_and_those_of_elements_do_not() -> None:
    first, last = busy(twice, image(16, 64, 56, 56)), busy(twice, image(16, 64, 56, 56, last=True))
    assert first > 5 * last  # some 12,544 threads, or 12.8 million
    assert busy(twice, image(32, 64, 56, 56)) == pytest.approx(2 * first, rel=0.25)  # twice the steps
    cubic = [busy(twice, image(1, 1152, 16, 16), "bicubic"), busy(twice, image(1, 64, 16, 16), "bicubic")]
    assert cubic[0] == pytest.approx(18 * cubic[1], rel=0.1)
    grid = image(4, 56, 56, 2)
    assert busy(f.grid_sample, image(4, 256, 56, 56), grid) > 3 * busy(f.grid_sample, image(4, 64, 56, 56), grid)
    around = busy(lambda x: f.pad(x, (3,) * 4, mode="reflect"), image(16, 64, 56, 56))
    assert around > 3 * 16 * 64 * (56**2 + 62**2) * 4 / 7e12  # places are calculated, whatever the bytes


def test_bags_go_by_their_look_ups() -> None:
    table, rows = array((100_000, 128)), torch.zeros(8192 * 40, dtype=torch.int64)
    few, many = (
        busy(lambda w, i, o: f.embedding_bag(i, w, o, mode="sum"), table, rows[: 8192 * n], torch.arange(8192) * n)
        for n in (20, 40)
    )
    assert many == pytest.approx(2 * few, rel=0.15)


def names(fn: Callable[..., Any], *args: Any) -> list[str]:
    found = as_on_gpu(cost(fn, *args).operators)
    return [each.name.removeprefix("aten.") for each in found if each.kind != "view"]


def test_a_sum_with_a_product_is_copied_first_and_one_row_comes_with_it() -> None:
    batch = array((64, 512, 512)), array((64, 512, 64)), array((64, 64, 512))
    assert names(torch.baddbmm, *batch) == ["copy_", "baddbmm_"]
    assert names(torch.addmm, array((8, 9)), array((8, 7)), array((7, 9))) == ["copy_", "addmm_"]
    assert names(torch.addmm, array(9), array((8, 7)), array((7, 9))) == ["addmm"]
    assert names(torch.addbmm, array((8, 9)), array((3, 8, 7)), array((3, 7, 9))) == ["copy_", *["addmm_"] * 3]
    assert busy(torch.baddbmm, *batch) > 1.5 * busy(torch.bmm, *batch[1:])


def test_distances_are_a_product_and_passes_over_all_pairs_or_a_block_a_pair() -> None:
    rows = array((4096, 64)), array((4096, 64))
    beside = ["pow", "sum", "ones_like"]
    assert names(torch.cdist, *rows) == [*beside, *beside, "mul", "cat", "cat", "mm", "clamp_min_", "sqrt_"]
    assert busy(torch.cdist, *rows) > 4 * 4096**2 * 4 / 3.35e12
    blocks = busy(lambda a, b: torch.cdist(a, b, p=1.0), array((1000, 64)), array((1000, 64)))
    assert 1e-3 < blocks < 4e-3  # a million blocks of 256 threads; a norm's take 1.7 ns each


def test_transforms_go_over_memory_once_a_side_and_complex_products_are_four() -> None:
    lines, planes = array((4096, 4096), "complex64"), array((64, 512, 512), "complex64")
    once = busy(torch.fft.fft, lines)
    assert busy(torch.fft.fft2, planes) == pytest.approx(2 * once, rel=0.05)
    assert busy(torch.fft.ifft2, planes) == pytest.approx(3 * once, rel=0.05)  # and one that scales
    assert busy(torch.fft.fft, array((16, 2**20), "complex64")) == pytest.approx(2 * once, rel=0.05)
    assert busy(torch.fft.fft, array((4096, 4099), "complex64")) > 5 * once  # a prime
    assert "not known" not in str(predict(torch.fft.rfft, array((4096, 4096)), device="h100"))
    wide, plain = array((2048, 2048), "complex64"), array((2048, 2048))
    assert busy(torch.mm, wide, wide) == pytest.approx(4 * busy(torch.mm, plain, plain), rel=0.15)


def test_a_mask_asks_for_another_kernel_in_short_types() -> None:
    mask = torch.ones(1024, 1024, dtype=torch.bool)
    for dtype, least, most in (("bfloat16", 2, 4), ("float32", 0.9, 1.2)):
        heads = [array((8, 16, 1024, 64), dtype)] * 3
        plain = busy(f.scaled_dot_product_attention, *heads)
        hidden = busy(lambda q, k, v: f.scaled_dot_product_attention(q, k, v, attn_mask=mask), *heads)
        assert least < hidden / plain < most


def test_channels_last_norms_go_by_their_bytes_and_gradients_of_convolutions_need_not_be_turned() -> None:
    ones = torch.ones(64)

    def norm(x: torch.Tensor) -> torch.Tensor:
        return f.batch_norm(x, None, None, ones, ones, training=True)

    first, last = (busy(norm, image(16, 64, 112, 112, dtype="float16", last=each)) for each in (False, True))
    assert first > 3 * last
    weight = image(64, 256, 1, 1, dtype="bfloat16", last=True, wanted=True)
    x = image(64, 256, 56, 56, dtype="bfloat16", last=True, wanted=True)
    step = predict(f.conv2d, x, weight, device="h100", backward=True)
    forward, backward = (each.device_s or 0.0 for each in step.operators if "convolution" in each.name)
    assert 2 < backward / forward < 4  # of the sweep's, which begin with a copy of the gradient from above, 4.8


def test_of_what_cannot_be_told_no_time_is_shown_unless_most_is_told() -> None:
    square = array((16, 512, 512))
    alone = predict(torch.linalg.cholesky, square, device="h100")
    assert alone.unknown == ("aten.linalg_cholesky_ex",) and not alone.bounded
    assert "not known: aten.linalg_cholesky_ex" in str(alone) and not re.search(r"\d s|\d [mµn]s", repr(alone))
    assert "at least" not in repr(alone) and "from the call" not in str(alone.details())
    within = predict(lambda a: (torch.linalg.eigh(a)[0], [a @ a for _ in range(60)]), square, device="h100")
    assert within.bounded and "not known: aten._linalg_eigh, at least" in repr(within)


def test_of_a_list_each_is_predicted_by_itself() -> None:
    x, work = array((1000, 1000)), Cost(1e9, 1e9)
    found = predict([(torch.relu, x), work, lambda: torch.relu(torch.ones(8))], device="h100")
    assert [each.period_s for each in found[:2]] == [predict(torch.relu, x, device="h100").period_s,
                                                     predict(work, device="h100").period_s]  # fmt: skip
    assert len(found) == 3 and found[0].basis != found[1].basis and predict([], device="h100") == []
    with pytest.raises(ArgumentError, match="nothing besides a list"):
        predict([work], x)  # type: ignore[call-overload]


def test_indices_sectors_and_crowds_are_paid_for() -> None:
    x, end = image(8, 16, 257, 64, dtype="bfloat16"), image(8, 16, 1, 64, dtype="bfloat16")
    cut, whole = (
        busy(lambda a: torch.cat((a, end), 2), a) for a in (x[:, :, :-1], image(8, 16, 256, 64, dtype="bfloat16"))
    )
    assert cut > 2 * whole  # a cache that was cropped
    maps = array((4, 128, 256, 256), "bfloat16")
    once, both = (busy(lambda x, dims=dims: torch.roll(x, (4,) * len(dims), dims), maps) for dims in ((2,), (2, 3)))
    assert both == pytest.approx(2 * once, rel=0.05)
    assert once > 2 * busy(torch.clone, maps)
    rows, norms = array((8192, 4096), "bfloat16"), array((8192, 1), "bfloat16")
    spread = busy(lambda x, y: x / y.expand_as(x), rows, norms)
    assert spread == pytest.approx(busy(torch.div, rows, norms), rel=0.02)  # a row read as it is


def test_additions_to_one_place_wait_for_each_other() -> None:
    twice, eightfold = (
        busy(lambda x, n=n: f.interpolate(x, scale_factor=n, mode="bilinear"), image(4, 21, 512 // n, 512 // n,
             wanted=True), backward=True) for n in (2, 8)
    )  # fmt: skip
    assert eightfold > 8 * twice  # as many elements, each place with sixteen times as many


def test_attention_that_drops_out_is_one_kernel_as_on_a_gpu() -> None:
    heads = [image(2, 4, 128, 64, dtype="bfloat16", wanted=True)] * 3
    assert all(
        "softmax" not in name for name in names(lambda *x: f.scaled_dot_product_attention(*x, dropout_p=0.1), *heads)
    )
    layer = torch.nn.TransformerEncoderLayer(64, 4, batch_first=True)
    found = [each.kind for each in cost(layer, image(2, 32, 64), backward=True).operators]
    assert found.count("attention") == 2


def test_losses_that_torch_writes_as_several_kernels_are_several() -> None:
    x, y = array(3_000_000), array(3_000_000)
    assert names(f.soft_margin_loss, x, y) == ["neg", "mul", "exp", "log1p", "mean"]
    assert names(lambda x, y: f.smooth_l1_loss(x, y, reduction="none"), x, y) == ["smooth_l1_loss"]
    logits = busy(f.binary_cross_entropy_with_logits, x, y)
    assert logits > 2 * busy(f.binary_cross_entropy, x, y)  # five kernels, or two


def test_what_lies_in_another_order_is_copied_first_or_gone_through_one_by_one() -> None:
    x, index, source = image(512, 2048), torch.arange(256), image(256, 2048)
    assert names(lambda x: torch.index_add(x, 0, index, source), x) == ["index_add"]
    assert names(lambda x: torch.index_add(x, 0, index, source), image(2048, 512).t()) == ["clone", "index_add"]
    assert names(lambda x: x.index_add_(0, index, source), image(2048, 512).t()) == ["index_add_"]
    assert names(torch.fft.rfft, image(8, 64, 64).transpose(1, 2)) == ["clone", "_fft_r2c"]
    assert names(torch.fft.rfft, image(64, 64).t()) == ["_fft_r2c"]  # a distance between lines is enough
    norm = torch.nn.BatchNorm1d(256)
    assert busy(norm, image(32, 4096, 256).transpose(1, 2)) > 3 * busy(norm, image(32, 256, 4096))
