"""The persistent megakernel on a GPU: right at any shape, on any stream, in a graph; anything else is refused."""

import dataclasses

import pytest
import torch

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.kernels.megakernel.device import gpu_of
from brrr.kernels.megakernel.megakernel import Megakernel
from brrr.kernels.megakernel.plan import NetworkShape, make_plan, wide_plans
from brrr.running.graphs import capture
from tests.gpu.measuring import aside

Layers = tuple[list[torch.Tensor], list[torch.Tensor]]
TOLERANCE = 1e-5
SHAPES = [
    *[(1, 1, 1), (4, 5, 2), (8, 1, 17), (2, 33, 33), (3, 3, 65), (8, 64, 128), (4, 257, 257), (8, 16, 512)],
    *[(2, 5, 1000), (2, 3, 4096)],
]


def network(layers: int, batch: int, hidden: int) -> tuple[Layers, torch.Tensor, torch.Tensor]:
    """Fresh random layers and input, and the result in float64."""
    weights = [torch.randn(hidden, hidden, device="cuda") * (2 / hidden) ** 0.5 for _ in range(layers)]
    biases = [torch.randn(hidden, device="cuda") * 0.3 for _ in range(layers)]
    x = torch.randn(batch, hidden, device="cuda")
    return (weights, biases), x, reference((weights, biases), x)


def reference(layers: Layers, x: torch.Tensor) -> torch.Tensor:
    result = x.double()
    for weight, bias in zip(*layers, strict=True):
        result = torch.relu(result @ weight.double().T + bias.double())
    return result


def error(y: torch.Tensor, expected: torch.Tensor) -> float:
    return float((y.double() - expected).norm() / expected.norm().clamp_min(1e-6))


@pytest.mark.parametrize("clusters", [True, False], ids=["clusters", "grid"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_shape_against_float64(shape: tuple[int, int, int], clusters: bool) -> None:
    layers, x, expected = network(*shape)
    made = Megakernel(*layers, shape[1], clusters=clusters)
    # room behind the end, to see that nothing is written there
    room = torch.full((x.numel() + 64,), float("nan"), device="cuda")
    out = room[: x.numel()].view_as(x)
    for _ in range(2):
        out.fill_(float("nan"))
        assert made(x, out) is out
        assert error(out, expected) < TOLERANCE
    assert room[x.numel() :].isnan().all()


FORCED = [  # cluster, rows, tile_rows, tile_quads, k_warps
    *[(1, 4, 2, 1, 1), (2, 2, 1, 2, 1), (4, 8, 4, 2, 1), (8, 8, 8, 2, 2), (16, 8, 8, 1, 2)],
    *[(8, 2, 2, 4, 4), (16, 2, 2, 1, 4), (8, 4, 1, 2, 4)],
]


@pytest.mark.parametrize("tiles", FORCED, ids=str)
def test_every_way_to_share_out(tiles: tuple[int, int, int, int, int]) -> None:
    gpu = gpu_of(torch.cuda.current_device())
    made = make_plan(256, gpu, *tiles)
    if made is None or made.cluster not in gpu.active_clusters:
        pytest.skip(f"no such plan on this GPU: {tiles}")
    for slots in (max(2, made.k_warps), made.slots):
        layers, x, expected = network(5, 2 * made.rows + 1, 256)
        kernel = Megakernel(*layers, x.shape[0], dataclasses.replace(made, slots=slots))
        assert max(error(kernel(x), expected) for _ in range(20)) < TOLERANCE


@pytest.mark.parametrize("shape", [(5, 5, 512), (2, 4, 1024), (3, 7, 300)], ids=str)
def test_all_blocks_share_out_the_columns(shape: tuple[int, int, int]) -> None:
    gpu, (layers, x, expected) = gpu_of(torch.cuda.current_device()), network(*shape)
    every = list(wide_plans(NetworkShape(*shape), gpu))
    if not every:
        pytest.skip("no clusters on this GPU")
    for made in every[:: max(1, len(every) // 4)]:
        kernel = Megakernel(*layers, shape[1], made)
        assert max(error(kernel(x), expected) for _ in range(20)) < TOLERANCE


@pytest.mark.parametrize(
    ("hidden", "parts", "slots", "message"),
    [(256, (8, 2, 2, 4, 2), 5, "same warps in every turn"), (64, (2, 2, 2, 1), 200, "")],
)
def test_a_ring_that_does_not_suit_its_warps_or_does_not_fit_is_refused(
    hidden: int, parts: tuple[int, ...], slots: int, message: str
) -> None:
    gpu = gpu_of(torch.cuda.current_device())
    made = make_plan(hidden, gpu, *parts) if gpu.active_clusters else None
    if made is None:
        pytest.skip("no clusters on this GPU")
    with pytest.raises(UnavailableError, match=message):
        Megakernel(*network(2, 6, hidden)[0], 6, dataclasses.replace(made, slots=slots))


@pytest.mark.parametrize("overlap", [False, True])
def test_calls_that_need_each_other(overlap: bool) -> None:
    layers, x, _ = network(8, 16, 128)
    plan = Megakernel(*layers, 16).plan
    if plan is None:
        pytest.skip("no clusters on this GPU")
    made, y, expected = Megakernel(*layers, 16, dataclasses.replace(plan, overlap=overlap)), x, x
    for _ in range(10):
        y, expected = made(y), reference(layers, expected).float()
    assert error(y, expected.double()) < 10 * TOLERANCE


def test_in_a_graph_and_on_another_stream() -> None:
    layers, x, expected = network(8, 16, 256)
    made = Megakernel(*layers, 16)
    graph = capture(made, x)
    assert error(graph(x), expected) < TOLERANCE
    new = torch.randn_like(x)
    assert error(graph(new), reference(layers, new)) < TOLERANCE
    with aside():
        y = made(new)
    assert error(y, reference(layers, new)) < TOLERANCE


def test_a_nan_stays_in_its_row() -> None:
    layers, x, expected = network(3, 9, 100)
    x[4, 17] = float("nan")
    y = Megakernel(*layers, 9)(x)
    assert y[4].isnan().all()
    rows = [row for row in range(9) if row != 4]
    assert error(y[rows], expected[rows]) < TOLERANCE


def test_what_is_refused() -> None:
    layers, x, _ = network(2, 6, 64)
    made = Megakernel(*layers, 6)
    for wrong in (
        x[:5],
        x.double(),
        x.cpu(),
        x.T.contiguous().T,
        torch.zeros(6 * 64 + 1, device="cuda")[1:].view(6, 64),
    ):
        with pytest.raises(ArgumentError):
            made(wrong)
    with pytest.raises(ArgumentError, match="another tensor"):
        made(x, x)
