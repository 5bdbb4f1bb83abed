"""Each of brrr's calls on an accelerator that torch alone knows: it works there, or says what it lacks."""

from typing import Any
from unittest.mock import patch

import pytest

from tests.on_played import there

Faults = tuple[str, ...]
AWRY = ["negative events", "zero events", "no events", "no memory", "no streams"]
"""Faults that a timer by the host's clock shall not notice."""


def setting(*faults: str, launch_s: float = 2e-3) -> Any:
    from tests import played

    return played.as_new(launch_s=launch_s, bytes_per_s=1e12, flop_per_s=1e12, faults=set(faults))


@there
def test_its_kind_and_its_memory() -> None:
    import torch

    from brrr import gpu
    from brrr.gpu.device import default_device_kind, processor_for, this_device

    with setting():
        x = torch.ones(2**20, device="played")
        assert gpu.gpu_here() == default_device_kind() == processor_for("measure") == gpu.kind_of(x.device) == "played"
        assert gpu.is_gpu("played") and not gpu.is_cuda(x.device) and gpu.tensors_on("played") == "played"
        assert gpu.used_bytes("played") >= 2**22 and 0 < gpu.free_bytes("played") < 2**30
        assert this_device("played").name == "Played accelerator (PLAYED)" and this_device("played").slug == "played"


@there
@pytest.mark.parametrize("faults", [(), *((each,) for each in AWRY)], ids=lambda faults: "".join(faults) or "sound")
def test_it_is_timed_by_the_host_s_clock(faults: Faults) -> None:
    """2 ms a launch, told by nobody but the end of a wait; three launches a call."""
    import torch

    import brrr

    with setting(*faults):
        x = torch.ones(4, device="played")
        one, three = brrr.measure_together([lambda: x * 2, lambda: x * 2 * 2 * 2], budget_s=0.4)
    for found, launches in ((one, 1), (three, 3)):
        host, period, latency = found.host_s, found.period_s, found.latency_s
        assert host is not None and period is not None and latency is not None
        assert latency.median >= launches * 2e-3 and period.low < launches * 2.4e-3 and period.high > launches * 1.6e-3
        assert host.median < period.median / 2
        assert found.span_s is found.kernel_s is found.busy_s is None and "PLAYED" in found.device
        assert any("slope" in each for each in found.notes) and any("no kernel times" in each for each in found.notes)


@there
def test_a_wait_that_never_ends_is_an_error() -> None:
    import torch

    import brrr
    from brrr.core import time_limit
    from brrr.core.errors import UnavailableError

    with patch.object(time_limit, "HANGS_S", 0.2), setting("hang") as device:
        x = torch.ones(4, device="played")
        with pytest.raises(UnavailableError, match="has not ended"):
            brrr.measure(lambda: x * 2, budget_s=0.1)
        device.released.set()


@there
def test_a_wait_that_fails_is_passed_on() -> None:
    import torch

    import brrr

    with setting():
        x = torch.ones(4, device="played")
    with setting("failing"), pytest.raises(RuntimeError, match="played"):
        brrr.measure(lambda: x * 2, budget_s=0.1)


@there
def test_other_places_are_refused_by_name() -> None:
    import torch

    import brrr
    from brrr.core.errors import ArgumentError, UnavailableError

    with setting():
        x = torch.ones(4, device="played")
        with pytest.raises(ArgumentError, match=r"tensors on played.*device='played' measures there"):
            brrr.measure(lambda: x * 2, device="cpu", budget_s=0.1)
        for call in (brrr.measure, brrr.trace, brrr.diagnose):
            with pytest.raises(UnavailableError, match=r"device is 'mps', but torch .* has only 'played' here"):
                call(lambda: x * 2, device="mps")
        with pytest.raises(UnavailableError, match="calibrate: device is 'xpu', but"):
            brrr.calibrate("xpu")
        with pytest.raises(ArgumentError, match="'hot' except on CUDA"):
            brrr.measure(lambda: x * 2, cache="cold")


@there
def test_a_trace_shows_the_host_and_says_so() -> None:
    import torch

    import brrr

    with setting():
        x = torch.ones(4, device="played")
        found = brrr.trace(lambda: x * 2, calls=4)
    assert found.calls == 4 and found.idle_share is None and found.streams == ()
    assert "sees nothing of what" in found.text and found.period_s > 1e-3


@there
def test_a_diagnosis_waits_for_each_operator() -> None:
    """Of two operators one has a hundred times the work: it has nearly all of the step."""
    import torch

    import brrr
    from tests import played

    with played.as_new(launch_s=1e-4, bytes_per_s=1e9, flop_per_s=1e12):
        small, large = torch.ones(4, device="played"), torch.ones(2**21, device="played")
        found = brrr.diagnose(lambda: (small + 1, torch.relu(large)), peaks="h200")
    lines = {line.name.split()[0]: line.time_s for line in found.operators}
    assert lines["relu"] > 5 * lines.get("add", 0.0) and "Played" in found.device
    assert sum(lines.values()) <= 1.01 * found.steps * found.step_s
    assert any("waited for" in note for note in found.notes)


@there
def test_its_peaks_predict_it() -> None:
    """10 GB/s: what a relu takes at least is predicted from what was measured of copies."""
    import torch

    import brrr
    from tests import played

    with played.as_new(launch_s=1e-4, bytes_per_s=1e10, flop_per_s=1e11):
        peaks = brrr.calibrate(quick=True)
        x = torch.ones(2**22, device="played")
        said = brrr.predict(torch.relu, x, device=peaks)
    assert peaks.kind == "played" and not peaks.sweeps and peaks.bandwidth(3.2e7) < 1.01e10
    assert said.period_s > 0.9 * 2 * x.nbytes / 1e10 and "Played" in str(said)
