"""The memory of a step, before it runs: against peaks counted by hand, and against torch's own allocator of a CPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import brrr
from brrr.counting.cost import Cost
from brrr.roofline.allocator import Allocator
from brrr.roofline.memory import Memory
from tests.refusals import refused

MIB = 2**20
WIDTH = 512
MATRIX = 4 * WIDTH * WIDTH  # a MiB


def memory(fn: Callable[..., Any], *args: Any, device: str = "cpu", **how: Any) -> Memory:
    found = brrr.predict(fn, *args, device=device, **how).memory
    assert found is not None and sum(found.parts.values()) == found.peak_bytes
    return found


def trained(make: Callable[..., Any], batches: int = 1) -> Memory:
    layers, x = [torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4)], torch.zeros(WIDTH, WIDTH)
    model = torch.nn.Sequential(*layers)
    optimizer = make(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        for _ in range(batches):
            model(x).sum().backward()
        optimizer.step()

    return memory(step)


def test_a_step_has_the_state_that_the_one_before_it_made() -> None:
    found = trained(lambda some: torch.optim.SGD(some, momentum=0.9, foreach=False))
    assert found.parts["parameters"] == found.parts["optimiser"] == 4 * MATRIX
    adam = trained(lambda some: torch.optim.AdamW(some, foreach=True))
    assert adam.parts["optimiser"] == pytest.approx(8 * MATRIX, rel=1e-4)
    assert adam.parts["gradients"] == 4 * MATRIX and adam.parts["temporaries"] >= 4 * MATRIX  # all at once


def test_gradients_lie_beside_activations_where_they_add_up() -> None:
    plain = lambda some: torch.optim.SGD(some, foreach=False)  # noqa: E731
    once, twice = (trained(plain, batches) for batches in (1, 2))
    # Alone, two layers' gradients are there when the last but one is computed; in the second batch, all four.
    assert (once.peak_bytes // MATRIX, twice.peak_bytes // MATRIX) == (11, 14)
    assert (once.parts["gradients"], twice.parts["gradients"]) == (2 * MATRIX, 4 * MATRIX)


@pytest.mark.parametrize(("kept", "parts"), [
    (False, {"inputs": MATRIX, "activations": 2 * MATRIX}),  # one result, and the next
    (True, {"gradients": MATRIX, "inputs": MATRIX, "activations": 4 * MATRIX, "temporaries": 2 * MATRIX}),
])  # fmt: skip
def test_what_a_backward_pass_needs_stays(kept: bool, parts: dict[str, int]) -> None:
    x = torch.zeros(WIDTH, WIDTH, requires_grad=kept)

    def chain() -> None:
        found = x.exp().exp().exp().exp()
        if kept:
            found.sum().backward()

    told = memory(chain).parts
    assert {name: nbytes // MATRIX * MATRIX for name, nbytes in told.items() if nbytes >= MATRIX} == parts


def test_a_checkpoint_keeps_its_inputs_alone() -> None:
    def run(again: bool) -> Memory:
        def part(x: torch.Tensor) -> torch.Tensor:
            return x.exp().exp().exp().exp()

        def chain(x: torch.Tensor) -> torch.Tensor:
            for _ in range(4):
                x = checkpoint(part, x, use_reentrant=False) if again else part(x)
            return x

        return memory(chain, brrr.array((WIDTH, WIDTH), requires_grad=True), backward=True)

    assert run(again=True).peak_bytes <= run(again=False).peak_bytes - 6 * MATRIX


def test_keys_and_values_are_a_cache_changed_in_place_or_grown() -> None:
    kept = torch.zeros(4, 64, WIDTH)
    new = torch.ones(4, 1, WIDTH)

    def written() -> torch.Tensor:
        kept[:, 3:4] = new
        return kept.sum()

    assert memory(written).parts["cache"] == kept.nbytes
    grown = {"k": torch.zeros(4, 8, WIDTH)}

    def joined() -> None:
        grown["k"] = torch.cat([grown["k"], new], 1)

    assert memory(joined).parts["cache"] == 4 * WIDTH * 4 * (9 + 10) and grown["k"].shape[1] == 8


def test_a_step_takes_no_less_than_what_it_leaves() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Dropout(0.5), torch.nn.Linear(64, 8))
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        model(torch.ones(32, 64)).square().mean().backward()
        optimizer.step()

    found = memory(step, device="datasheet:a100")
    step()
    left = [each for one in model.parameters() for each in (one, one.grad, *optimizer.state[one].values())]
    assert found.peak_bytes >= sum(each.nbytes for each in left if each is not None)


def test_a_gpu_adds_workspaces_segments_and_a_context() -> None:
    layer, x = torch.nn.Linear(WIDTH, WIDTH, bias=False), brrr.array((WIDTH, WIDTH))
    inferred = memory(layer, x, device="datasheet:a100")
    assert inferred.parts["workspace"] == 8_519_680 and inferred.reserved_bytes % (2 * MIB) == 0
    assert inferred.context_bytes > 700 * 10**6 and inferred.fits
    assert memory(layer, x, device="datasheet:h200", backward=True).parts["workspace"] == 2 * 32 * MIB
    assert brrr.predict(Cost(1.0, 1.0), device="datasheet:a100").memory is None


def test_the_allocator_cuts_keeps_and_joins() -> None:
    pool = Allocator(limit_bytes=42 * MIB)
    small, middle, large = (pool.allocate(each) for each in (1, 2 * MIB, 19 * MIB + 1))
    assert (small[1], middle[1], large[1]) == (512, 2 * MIB, 20 * MIB)  # a rest below a MiB is not cut off
    assert pool.reserved_bytes == (2 + 20 + 20) * MIB
    pool.give_back(*middle)
    assert pool.allocate(18 * MIB)[0] == middle[0]  # its segment is whole again
    pool.allocate(15 * MIB)  # beyond the limit, where nothing is free
    assert pool.most_bytes == (42 + 16) * MIB > pool.limit_bytes


def test_the_largest_batch_fits_and_one_much_larger_does_not() -> None:
    def make(rows: int) -> tuple[Any, ...]:
        return torch.relu, brrr.array((rows, MIB // 4))

    for limit in (64, 1000, 100_000):  # a row is a MiB, and so is its result
        found = brrr.largest_batch(make, device="datasheet:h200", memory_bytes=limit * MIB)
        assert limit / 2 * 0.97 - 1 <= found <= limit / 2
    assert brrr.largest_batch(make, device="datasheet:h200", memory_bytes=MIB) == 0
    with refused("device"):
        brrr.largest_batch(make, device="cpu")
