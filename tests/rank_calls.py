"""What tests send to ranks: functions of a module that the processes can import, without torch until one needs it."""

import os
import time
from collections.abc import Mapping
from typing import Any


def nothing(rank: Any, *args: Any) -> None:
    """Takes the place of joining the others, where no call needs them."""


def number(rank: Any, plus: int) -> int:
    return int(rank.number + plus)


def die(rank: Any, who: int, code: int) -> int:
    if rank.number == who:
        os._exit(code)
    return sleep(rank)


def die_alone(rank: Any) -> int:
    import torch.distributed as dist

    if rank.number == 1:
        os._exit(7)
    dist.barrier()
    return 0


def unlike(rank: Any) -> tuple[float, float, float]:
    """The errors that are seen of right gradients, where none was exchanged, and where one layer's are halved."""
    right = rank.held["after"].error(rank.held["after"].run())
    alone = rank.held["after"].error(rank.held["alone"].run())
    module = rank.held["after"].run()
    next(module.parameters()).grad /= 2
    return right, alone, rank.held["after"].error(module)


def sent(rank: Any) -> int:
    """Bytes of the buffer that its all-reduce works on."""
    (summed,) = (each.cell_contents for each in rank.held["all-reduce"].run.__closure__)
    return int(summed.nbytes)


def sleep(rank: Any) -> int:
    time.sleep(600)
    return 0


def refuse(rank: Any, error: Exception) -> int:
    if rank.number == 1:
        raise error
    return sleep(rank)


def wrong_on_one(rank: Any, point: Any) -> Mapping[str, Any]:
    """Ways whose result is right, wrong on the second rank, or no number there."""
    from brrr_course.experiments.ranks import RankCall

    errors = {"all-reduce": 0.0, "all-gather": 0.5, "send": float("nan")}
    return {name: RankCall(lambda: None, lambda _, error=error: error * rank.number) for name, error in errors.items()}
