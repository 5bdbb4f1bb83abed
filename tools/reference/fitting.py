"""Fit a sweep's regressions: how far a measured call tells of others, along each feature of its group.

For each group of alike calls, the hyperparameters of `brrr.roofline.sweeps.GaussianProcess` are those under which the
group's own times are most likely: the log marginal likelihood, by gradient ascent (C. E. Rasmussen and
C. K. I. Williams, Gaussian Processes for Machine Learning, MIT Press 2006, section 5.4.1).
"""

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import torch

from brrr.gpu import CUDA
from brrr.roofline.corrections import corrections_of
from brrr.roofline.peaks import Peaks
from brrr.roofline.sweeps import ADDED, Group

LEAST, MOST = 10, 1000
"""A group of fewer calls is not fitted; of one with more, only so many count, for a step takes the cube of them."""
START, START_OWN = (5.0, 0.6, 0.06, 3.0), (5.0, 0.4, 0.0, 0.7)
"""Scales, size, noise and mean from which the ascent begins, of what a group shares and of a name's own part."""
STEPS, RATE = 51, 0.15
BELIEF = 0.02
"""How much the logarithm of a scale is held to where it began: where the times say nothing, it stays."""


def fitted(peaks: Peaks, until_s: float = math.inf) -> Peaks:
    """The same peaks with the fits of their sweeps' groups, bare products left out; a note tells how many have none.

    `until_s`, a time of `time.perf_counter`, ends it. On two cores of a CPU it takes some three minutes.
    """
    corrections = corrections_of(peaks)
    groups = {("operators", name): corrections.group_of_operators(name) for name in corrections.operators}
    added = (name for name in corrections.products if name.endswith(ADDED))
    groups |= {("products", name): corrections.group_of_products(name) for name in added}
    groups = {key: group for key, group in groups.items() if len(group.calls) >= LEAST}
    device = CUDA if torch.cuda.is_available() else "cpu"
    fits = {key: fit(group, device) for key, group in groups.items() if time.perf_counter() < until_s}
    sweeps = {
        kind: replace(sweep, fits={name: fits[of, name] for of, name in fits if of == kind})
        for kind, sweep in peaks.sweeps.items()
    }
    note = f"fits: {len(fits)} of {len(groups)} groups of calls, for lack of time"
    return replace(peaks, sweeps=sweeps, notes=(*peaks.notes, note) if len(fits) < len(groups) else peaks.notes)


def fit(group: Group, device: str = "cpu") -> tuple[float, ...]:
    """A group's hyperparameters: scales, size, noise and mean, first of what it shares, then of a name's own part."""
    every = -(-len(group.calls) // MOST)
    places = {name: place for place, name in enumerate(dict.fromkeys(group.names))}
    names = torch.tensor([places[name] for name in group.names[::every]])
    features = group.points.shape[1]
    with torch.device(device):
        points = torch.tensor(group.points[::every], dtype=torch.float64)
        residuals = torch.tensor([group.residual(at) for at in range(0, len(group.calls), every)], dtype=torch.float64)
        logs = torch.tensor(_start(features), dtype=torch.float64).log().requires_grad_()
        diagonal = torch.eye(len(points), dtype=torch.float64)
    alike = (names[:, None] == names[None, :]).to(points)
    usual = math.log(START[0])
    likely, ascent = logs.detach().clone(), torch.optim.Adam([logs], lr=RATE)
    for _ in range(STEPS):
        ascent.zero_grad()
        shared, own = logs.exp().split([features + 3, features + 2])
        among = _covariance(points, shared[:-3], shared[-3], shared[-1]) + shared[-2] ** 2 * diagonal
        among = among + alike * _covariance(points, own[:-2], own[-2], own[-1])
        factor, failed = torch.linalg.cholesky_ex(among)
        if failed:  # calls that differ in nothing, and next to no noise: rounding decides
            break
        likely = logs.detach().clone()
        white = torch.linalg.solve_triangular(factor, residuals[:, None], upper=False)
        scales = torch.cat([logs[:features], logs[features + 3 : 2 * features + 3]])
        loss = white.square().sum() / 2 + factor.diagonal().log().sum() + BELIEF * (scales - usual).square().sum()
        loss.backward()
        ascent.step()
    found = [float(f"{value:.4g}") for value in likely.exp().tolist()]
    return (*found[:-1], 0.0, found[-1])


def _start(features: int) -> Sequence[float]:
    """Of every group; a name's own part has no noise of its own."""
    scale, size, noise, mean = START
    own_scale, own_size, _, own_mean = START_OWN
    return *[scale] * features, size, noise, mean, *[own_scale] * features, own_size, own_mean


def _covariance(points: torch.Tensor, scales: torch.Tensor, size: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
    """That of `brrr.roofline.sweeps`, with a gradient: distances of 0 have none without the least one."""
    scaled = points / scales
    squares = (scaled[:, None] - scaled[None, :]).square().sum(-1)
    distance = (3 * squares.clamp(min=1e-18)).sqrt()
    return size**2 * (1 + distance) * torch.exp(-distance) + mean**2
