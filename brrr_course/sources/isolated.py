"""A point measured in a process of its own, where a variant may end its process or leave the GPU unusable in it.

torch.compile's max-autotune was seen to do so after a few shapes, by a launch failure that every later call meets.
What dies with it is measured once more without it, and the failure stands in the recording in place of its times.
"""

import base64
import json
import pickle
import sys
from collections.abc import Mapping
from dataclasses import replace

from brrr.core.errors import BrrrError, UnavailableError
from brrr.core.private import python
from brrr_course.sources.first_call import last_line
from brrr_course.sources.plan import Step
from brrr_course.sources.rows import Timed
from brrr_course.sources.timers import measure_point

TIMEOUT_S = 600.0


def measure_step(step: Step) -> Mapping[str, Timed | BrrrError]:
    """Measure all variants of a step on this machine, interleaved; in a process of its own where one asks for it."""
    risky = [name for name in step.variants if step.experiment.variant(name).isolated]
    if not risky:
        return measure_point(step.experiment, step.variants, step.point, budget_s=step.budget_s, fewest=step.fewest,
                             precision=step.precision)  # fmt: skip
    try:
        return _in_process(step)
    except UnavailableError as died:
        safe = replace(step, variants=tuple(name for name in step.variants if name not in risky))
        return {**dict.fromkeys(risky, died), **(_in_process(safe) if safe.variants else {})}


def _in_process(step: Step) -> dict[str, Timed | BrrrError]:
    asked = json.dumps(
        [step.experiment.name, step.variants, dict(step.point), step.budget_s, step.fewest, step.precision]
    )
    answer = last_line(python("brrr_course.sources.isolated", asked), str(step), TIMEOUT_S)
    found = pickle.loads(base64.b64decode(answer))  # our own process wrote it
    assert isinstance(found, dict)
    return found


def main(asked: str) -> None:
    """Measure what is asked for, see that the GPU still answers, and print the answer."""
    from brrr_course.experiments import experiment

    name, variants, point, budget_s, fewest, precision = json.loads(asked)
    found = measure_point(experiment(name), variants, point, budget_s=budget_s, fewest=fewest, precision=precision)
    still_answers()
    print(base64.b64encode(pickle.dumps(found)).decode())


def still_answers() -> None:
    """Raise the launch failure that stayed with CUDA's context, if one did: then no time taken here counts."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


if __name__ == "__main__":
    main(sys.argv[1])
