"""Stands in for `Live("cuda")` where there is no GPU: it answers from the recording, on the axes that a GPU has."""

from collections.abc import Sequence

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Measurement, Point
from brrr.tracing.timeline import Timeline
from brrr_course import sources
from brrr_course.nouns.experiment import Experiment
from brrr_course.sources.live import Live
from brrr_course.sources.recorded import Recorded


class RecordedGpu(Live):
    """Live in all but the measurement, which is the recorded one nearest to the point."""

    def __init__(self) -> None:
        super().__init__("cpu")
        self.name = self.kind = "cuda"
        self.recorded = Recorded("h200")

    def measure(self, experiment: Experiment, variant: str, point: Point) -> Measurement:
        wanted = tuple(experiment.point(**point).values())
        kept = self._measured.setdefault((experiment.name, variant), {})
        if wanted not in kept:
            self._require("measure", experiment, variant)
            known = self.recorded.known(experiment, variant)
            if not known:
                raise NotRecordedError(f"{variant} of {experiment.name} was not recorded")
            kept[wanted] = known[min(known, key=lambda point: sum(a != b for a, b in zip(point, wanted, strict=True)))]
        return kept[wanted]

    def measure_together(self, experiment: Experiment, variants: Sequence[str], point: Point) -> None:
        for variant in set(variants) & set(self.recorded.variants(experiment)) & set(self.variants(experiment)):
            self.measure(experiment, variant, point)

    def timeline(self, experiment: Experiment, variant: str, point: Point) -> Timeline:
        traced = self.recorded.traced(experiment, variant)
        return self.recorded.timeline(experiment, variant, traced[0] if traced else point)


sources._live["cuda"] = RecordedGpu()
