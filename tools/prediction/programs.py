"""Ten steps of whole networks, written down before any was predicted, and what a loop of them takes.

python -m tools.prediction.programs OUT           # measure and predict those that OUT does not hold yet
python -m tools.prediction.programs OUT --judge   # the table of what OUT holds; nothing runs

Networks come from torchvision and transformers with random weights; torch's settings are its own: float32 is multiplied
in full, convolutions are in TF32. Predictions rest on this machine's own peaks (`brrr calibrate`).
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from brrr.core import units
from brrr.core.measurement import Processor

FILE = "programs.jsonl"
WITHIN, ENOUGH = 0.15, 8
BUDGET_S = 0.6

Step = Callable[[], Any]


@dataclass(frozen=True)
class Program:
    """One step: what runs, in words; the network, its batch, tokens or pixels, its data type, and how it runs.

    `cached`: so many tokens lie in the cache of keys and values before each step.
    """

    network: str
    layers: int
    batch: int
    size: int
    dtype: str
    training: bool = False
    cached: int = 0

    @property
    def name(self) -> str:
        """As the table shows it."""
        how = "training" if self.training else f"decoding after {self.cached}" if self.cached else "inference"
        return f"{self.network} of {self.layers} layers, {how}, {self.batch} x {self.size}, {self.dtype}"


PROGRAMS = (
    Program("resnet50", 50, 64, 224, "float32", training=True),
    Program("resnet50", 50, 64, 224, "float32"),
    Program("resnet50", 50, 1, 224, "bfloat16"),
    Program("bert", 12, 16, 128, "float32", training=True),
    Program("bert", 12, 32, 128, "bfloat16"),
    Program("llama", 16, 1, 2048, "bfloat16"),
    Program("llama", 16, 1, 1, "bfloat16", cached=1024),
    Program("llama", 16, 64, 1, "bfloat16", cached=1024),
    Program("vit_b_16", 12, 64, 224, "bfloat16"),
    Program("vit_b_16", 12, 32, 224, "float32", training=True),
)


def network(of: Program) -> torch.nn.Module:
    """With random weights: BERT-base; a Llama of 2048 channels, 32 heads and 8 of keys; or a network of torchvision."""
    if of.network == "bert":
        from transformers import BertConfig, BertForSequenceClassification

        return BertForSequenceClassification(BertConfig(num_hidden_layers=of.layers, num_labels=10))
    if of.network == "llama":
        from transformers import LlamaConfig, LlamaForCausalLM

        return LlamaForCausalLM(LlamaConfig(
            hidden_size=2048, intermediate_size=8192, num_hidden_layers=of.layers, num_attention_heads=32,
            num_key_value_heads=8, vocab_size=32000,
        ))  # fmt: skip
    import torchvision

    found: torch.nn.Module = getattr(torchvision.models, of.network)()
    return found


def step_of(of: Program, device: str = "cuda") -> Step:
    """The step: forward, or forward, backward and the optimiser's; in inference without gradients."""
    torch.manual_seed(0)
    model = network(of).to(device, getattr(torch, of.dtype)).train(of.training)
    text = of.network in ("bert", "llama")
    x = torch.randint(1000, (of.batch, of.size), device=device)
    if not text:
        x = torch.randn(of.batch, 3, of.size, of.size, device=device, dtype=getattr(torch, of.dtype))
    if of.training:
        return _training(model, x, torch.randint(10, (of.batch,), device=device))
    if of.cached:
        return _decoding(model, x, of.cached)

    def forward() -> Any:
        with torch.no_grad():
            return _logits(model(x))

    return forward


def _logits(found: Any) -> torch.Tensor:
    result = found if isinstance(found, torch.Tensor) else found.logits
    assert isinstance(result, torch.Tensor)
    return result


def _training(model: torch.nn.Module, x: torch.Tensor, target: torch.Tensor) -> Step:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(_logits(model(x)), target)
        loss.backward()
        optimizer.step()
        return loss

    return step


def _decoding(model: torch.nn.Module, x: torch.Tensor, cached: int) -> Step:
    """One token more; the cache of keys and values is cut back to what it held."""
    with torch.no_grad():
        before = x.expand(-1, cached).contiguous()
        cache = model(before, use_cache=True, logits_to_keep=1).past_key_values

    def step() -> Any:
        with torch.no_grad():
            found = _logits(model(x, past_key_values=cache, use_cache=True))
            cache.crop(-x.shape[1])
            return found

    return step


def tried(of: Program, device: Processor = "cuda") -> dict[str, Any]:
    """What a step takes and what is predicted, in seconds; `error` where one of them did not work."""
    from brrr.core.errors import BrrrError
    from brrr.counting.tracing import cost
    from brrr.roofline.calibrate.host_cost import reference_call
    from brrr.roofline.device_model import peaks_here
    from brrr.roofline.predicting import predict
    from brrr.timing import measure_together
    from tools.prediction.host_speed import at_host_speed

    found: dict[str, Any] = {"program": of.name}
    try:
        peaks, step = peaks_here(device), step_of(of, device)
        for _ in range(2):
            step()
        measured, beside = measure_together([step, reference_call(device)], device=device, budget_s=BUDGET_S)
        assert measured.period_s and beside.host_s
        found |= {f"measured_{name}": getattr(getattr(measured, name), "median", None)
                  for name in ("period_s", "host_s", "span_s", "busy_s")}  # fmt: skip
        found |= {"relu_host_s": beside.host_s.median, "flags": sorted(measured.flags)}
        work = cost(step)
        now = predict(work, device=at_host_speed(peaks, beside.host_s.median))
        found |= {f"predicted_{name}": getattr(now, name) for name in ("period_s", "host_s", "span_s", "busy_s")}
        found |= {"bound": now.bound, "unknown": list(now.unknown), "operators": len(now.operators)}
        found["uncorrected_period_s"] = predict(work, device=peaks).period_s
        where = f"datasheet:{peaks.device}"
        found["datasheet_period_s"] = predict(work, device=where).period_s if device == "cuda" else None
    except (BrrrError, RuntimeError, ImportError, TypeError, AttributeError, AssertionError) as error:
        found["error"] = f"{type(error).__name__}: {error}"[:500]
    return found


def judged(rows: Sequence[dict[str, Any]]) -> str:
    """The table, and how many are within the limit."""
    lines = [["program", "measured", "predicted", "error", "from the datasheet", "measured busy, predicted", "bound"]]
    right = 0
    for row in rows:
        if "predicted_period_s" not in row:
            lines.append([row["program"], str(row.get("error", "not measured")), "", "", "", "", ""])
            continue
        measured, predicted = row["measured_period_s"], row["predicted_period_s"]
        right += abs(predicted / measured - 1) <= WITHIN
        sheet = row.get("datasheet_period_s")
        busy = [units.seconds(row[name]) if row.get(name) else "-" for name in ("measured_busy_s", "predicted_busy_s")]
        lines.append([
            row["program"], units.seconds(measured), units.seconds(predicted), f"{predicted / measured - 1:+.1%}",
            f"{sheet / measured - 1:+.1%}" if sheet else "-", ", ".join(busy), row["bound"],
        ])  # fmt: skip
    return "\n".join([*units.table(lines), f"{right} of {len(rows)} within {WITHIN:.0%}; {ENOUGH} are wanted of 10"])


def main(argv: Sequence[str]) -> int:
    """Measure what is missing, or judge what is there; 2 for a call that cannot be understood."""
    if not argv:
        print(__doc__, file=sys.stderr)
        return 2
    path = Path(argv[0]) / FILE
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    if "--judge" not in argv:
        path.parent.mkdir(parents=True, exist_ok=True)
        for each in PROGRAMS:
            if each.name in {row["program"] for row in rows if "error" not in row}:
                continue
            rows.append(tried(each))
            with path.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
            print(each.name, rows[-1].get("error", "measured"), flush=True)
            torch.cuda.empty_cache()
    print(judged(list({row["program"]: row for row in rows}.values())))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
