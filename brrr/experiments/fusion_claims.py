"""What fusion gains by the bytes that it saves, and where it gains nothing."""

from __future__ import annotations

from brrr import units
from brrr.claim import Claim, Evidence, Status, Verdict, band_verdict, three_way
from brrr.errors import NotRecordedError
from brrr.experiment import Value
from brrr.experiments.fusion_ratios import best, counted, gains, together
from brrr.experiments.fusion_theory import KINDS, bytes_ratio, predicted_ratio
from brrr.experiments.judging import datasheet, over, shown

SOURCE = "Making Deep Learning Go Brrrr From First Principles, section 'Bandwidth'"
HERE = "this course"
WAYS = ("compile", "triton", "cuda")
POINTWISE, ALONG_ROWS = ("bias", "pseudo", "chain"), ("norm", "softmax")
ENOUGH, TINY = 0.9, 2**10
ORDER: tuple[Status, ...] = ("fails", "undecided", "holds")


def _reaches(evidence: Evidence, kinds: tuple[str, ...]) -> Verdict:
    """The best fused way of each kind gains at least 90 % of what the bytes predict; the worst kind decides."""
    parts, verdicts = [], []
    for kind in kinds:
        size, found = gains(evidence, kind, WAYS)
        way, gain = best(found)
        predicted = bytes_ratio(kind, size)
        verdicts.append(three_way(gain[1] / predicted, gain[2] / predicted, ENOUGH))
        parts.append(f"{KINDS[kind]} {shown(gain)} by {way}, predicted {units.ratio(predicted)}")
    return Verdict(min(verdicts, key=ORDER.index), "; ".join(parts))


def _pointwise(evidence: Evidence) -> Verdict:
    return _reaches(evidence, POINTWISE)


def _reductions(evidence: Evidence) -> Verdict:
    return _reaches(evidence, ALONG_ROWS)


def _kept(evidence: Evidence) -> Verdict:
    """The gain where the intermediate is needed: within a tenth of 4/3."""
    size, found = gains(evidence, "kept", WAYS)
    way, gain = best(found)
    predicted = bytes_ratio("kept", size)
    text = f"{shown(gain)} by {way}; predicted {units.ratio(predicted)}, where an intermediate kept to itself gives 2x"
    return band_verdict(gain, 0.9 * predicted, 1.1 * predicted, text)


def _arithmetic(evidence: Evidence) -> Verdict:
    """The best fused linear layer gains at most 1.15x."""
    size, found = gains(evidence, "linear", WAYS)
    way, gain = best(found)
    predicted = predicted_ratio(datasheet(evidence), "linear", size)
    at_most = units.ratio(predicted) if predicted else "unknown"
    text = f"{shown(gain)} by {way}; the bytes alone allow {units.ratio(bytes_ratio('linear', size))}"
    return band_verdict(gain, 0.0, 1.15, f"{text}, the roofline {at_most}")


def _tiny(evidence: Evidence) -> Verdict:
    """On a thousand elements the measured gain is more than a quarter off what the bytes predict."""
    point: dict[str, Value] = {"elements": TINY, "dtype": "float32"}
    predicted = bytes_ratio("chain", TINY)
    gain = over(evidence.get("chain eager period", **point), evidence.get("chain compile period", **point))
    text = f"{shown(gain)} by compile in a loop at {counted(TINY)}; predicted {units.ratio(predicted)}"
    off = tuple(each / predicted for each in gain)
    inside = band_verdict((off[0], off[1], off[2]), 0.75, 1.25, text)
    opposite: dict[Status, Status] = {"holds": "fails", "fails": "holds"}
    return Verdict(opposite.get(inside.status, inside.status), text)


def _library(evidence: Evidence) -> Verdict:
    """torch's own layer norm and softmax over the best fused form: within 15 %."""
    parts, worst = [], (1.0, 1.0, 1.0)
    for kind in ALONG_ROWS:
        found = {}
        for way in ("compile", "triton"):
            try:
                _, times = together(evidence, (f"{kind} library", f"{kind} {way}"))
            except NotRecordedError:
                continue
            found[way] = over(*times.values())
        if not found:
            raise NotRecordedError(f"{kind} library and its fused forms were not measured together on large arrays")
        way, ratio = best(found)
        parts.append(f"{KINDS[kind]} {shown(ratio)} of {way}")
        worst = max(worst, ratio, key=lambda each: abs(each[0] - 1))
    return band_verdict(worst, 0.85, 1.15, f"torch's own operator takes {'; '.join(parts)}")


CLAIMS = (
    Claim("as-the-bytes-say", "Fusion gains what the bytes say: eager bytes over compulsory ones.", SOURCE,
          "busy_s of eager over the best fused way: bias and ReLU, scale and bias, a chain of three; float32, most "
          "elements, hot; at least 90 % of the predicted ratio (CPU: period_s)", _pointwise),
    Claim("onto-a-reduction", "Operators can be fused onto a reduction.", SOURCE,
          "the same for layer norm and softmax", _reductions),
    Claim("kept-gains-less", "An intermediate that is needed twice must be written, and fusion gains less.", HERE,
          "busy_s of eager over the best fused way, two results, float32, most elements, hot; within a tenth of the "
          "ratio of bytes (CPU: period_s)", _kept),
    Claim("arithmetic-gains-nothing", "Fusing a ReLU onto work that arithmetic limits gains little.", HERE,
          "busy_s of eager over fused, linear layer and ReLU, float32, most elements, hot; at most 1.15x", _arithmetic),
    Claim("tiny-is-overhead", "On tiny arrays the bytes tell nothing of what fusion gains.", HERE,
          "period_s of eager over compile, a chain of three on 2^10 float32, hot; more than a quarter off the ratio of "
          "bytes", _tiny),
    Claim("library-is-fused", "torch's own layer norm and softmax are fused already.", HERE,
          "busy_s of torch's operator over the best fused way, float32, most elements, hot; within 15 %", _library),
)  # fmt: skip
