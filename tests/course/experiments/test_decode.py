"""The language model of `decode` and `prefill`: against transformers' Llama, against itself, and what is counted."""

import math

import pytest
import torch

from brrr.core.errors import ArgumentError
from brrr.counting.tracing import cost
from brrr.gpu.datasheet import hardware
from brrr_course.experiments import experiment
from brrr_course.experiments.decode import (
    LARGE,
    Call,
    CallInputs,
    Shape,
    bytes_floor_s,
    cost_of,
    flop_floor_s,
    least_flop,
    moved_bytes,
    way_of,
)  # fmt: skip
from brrr_course.experiments.llama import Llama, new_cache

TINY = Shape(words=64, hidden=32, layers=2, heads=4, kv_heads=2, inner=48, dtype="float32")
PARTS = (("attention_norm", "input_layernorm"), ("network_norm", "post_attention_layernorm"),
         ("attention.", "self_attn."), ("network.", "mlp."))  # fmt: skip


def model_of(shape: Shape = TINY) -> Llama:
    return Llama(shape, getattr(torch, shape.dtype), "cpu", places=64)


def tokens_of(batch: int, count: int) -> torch.Tensor:
    return torch.randint(TINY.words, (batch, count), generator=torch.Generator().manual_seed(1))


def renamed(name: str) -> str:
    """A weight's name in transformers."""
    if name == "embedding":
        return "model.embed_tokens.weight"
    for ours, theirs in PARTS:
        name = name.replace(ours, theirs)
    for part in ("self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o", "mlp.gate", "mlp.up", "mlp.down"):
        name = name.replace(f"{part}.weight", f"{part}_proj.weight")
    return f"model.{name}"


def test_it_is_the_llama_of_transformers() -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    model, tokens = model_of(), tokens_of(3, 20)
    config = transformers.LlamaConfig(
        vocab_size=TINY.words, hidden_size=TINY.hidden, num_hidden_layers=TINY.layers, num_attention_heads=TINY.heads,
        num_key_value_heads=TINY.kv_heads, intermediate_size=TINY.inner, rms_norm_eps=1e-5, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 5e5},
    )  # fmt: skip
    theirs = transformers.LlamaForCausalLM(config).eval()
    weights = {renamed(name): weight for name, weight in model.state_dict().items()}
    theirs.load_state_dict({**weights, "lm_head.weight": model.embedding})
    with torch.no_grad():
        expected = theirs(tokens).logits[:, -1]
    torch.testing.assert_close(model(tokens, new_cache(TINY, 3, 20, model.embedding)), expected, rtol=1e-4, atol=1e-4)


def test_a_prompt_at_once_is_the_same_as_token_by_token() -> None:
    model, tokens = model_of(), tokens_of(3, 12)
    at_once, one_by_one = (new_cache(TINY, 3, 12, model.embedding) for _ in range(2))
    expected = model(tokens, at_once)
    for place in range(12):
        found = model(tokens[:, place : place + 1], one_by_one, place)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    for ours, theirs in zip(one_by_one, at_once, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_each_sequence_is_read_alone_and_every_token_before_counts() -> None:
    model, tokens = model_of(), tokens_of(2, 8)
    found = model(tokens, new_cache(TINY, 2, 8, model.embedding))
    alone = model(tokens[1:], new_cache(TINY, 1, 8, model.embedding))
    torch.testing.assert_close(found[1:], alone, rtol=1e-4, atol=1e-4)
    tokens[0, 0] = (tokens[0, 0] + 1) % TINY.words
    other = model(tokens, new_cache(TINY, 2, 8, model.embedding))
    assert torch.equal(other[1], found[1]) and not torch.allclose(other[0], found[0], rtol=1e-2)


def test_the_cache_may_be_longer_than_the_text() -> None:
    model, tokens = model_of(), tokens_of(2, 6)
    exact, long = new_cache(TINY, 2, 6, model.embedding), new_cache(TINY, 2, 9, model.embedding)
    torch.testing.assert_close(model(tokens, long), model(tokens, exact))
    assert all(not keys[:, :, 6:].any() for keys, _ in long)


def test_several_tokens_behind_others_are_refused() -> None:
    model = model_of()
    with pytest.raises(ArgumentError, match="one token, or all from the first on"):
        model(tokens_of(1, 2), new_cache(TINY, 1, 9, model.embedding), start=3)


def test_the_weights_are_drawn_so_that_numbers_keep_their_size() -> None:
    model = model_of(TINY._replace(hidden=256, heads=8))
    weights = dict(model.named_parameters())
    assert float(weights["layers.0.network.up.weight"].std()) == pytest.approx(math.sqrt(2 / 256), rel=0.05)
    assert float(model.norm.weight.std()) == pytest.approx(0.1, rel=0.3)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("call", [Call(2, 1, 40), Call(1, 12, 12), Call(1, 1, 1)])
def test_the_operators_are_those_that_brrr_counts(dtype: str, call: Call) -> None:
    shape = TINY._replace(dtype=dtype)
    model = model_of(shape)
    cache, tokens = new_cache(shape, call.batch, call.context, model.embedding), tokens_of(call.batch, call.new)
    counted, told = cost(lambda: model(tokens, cache, call.context - call.new)), cost_of(shape, call)
    seen = [each for each in counted.operators if each.kind != "view"]
    assert [each.name.removesuffix("_for_cpu") for each in seen] == [each.name for each in told.operators]
    assert [each.flop for each in seen] == [each.flop for each in told.operators]
    assert [each.kind for each in seen] == [each.kind for each in told.operators]
    assert [each.read_bytes for each in seen] == [each.read_bytes for each in told.operators]
    assert counted.lines == told.lines and counted.bytes == pytest.approx(told.bytes, rel=0.03)


def test_what_is_moved_and_computed() -> None:
    one, many = Call(1, 1, 128), Call(256, 1, 2**15)
    assert LARGE.weights == sum(each.numel() for each in meta(LARGE).parameters()) == pytest.approx(1.236e9, rel=1e-3)
    assert sum(moved_bytes(LARGE, one)) == pytest.approx(2 * LARGE.weights + 129 * 32768 + 2 * 128256)
    assert 256 * 2**15 * LARGE.kv_bytes == pytest.approx(275e9, rel=1e-3)
    assert least_flop(LARGE, one) == pytest.approx(2 * LARGE.weights, rel=0.02)
    assert least_flop(LARGE, Call(1, 2048, 2048)) < cost_of(LARGE, Call(1, 2048, 2048)).flop
    h100 = hardware("h100")
    assert bytes_floor_s(h100, one) == pytest.approx(0.739e-3, rel=0.01) and bytes_floor_s(None, one) is None
    assert (flop_floor_s(h100, one) or 1) < (bytes_floor_s(h100, one) or 0) < (bytes_floor_s(h100, many) or 0)


def meta(shape: Shape) -> Llama:
    return Llama(shape, torch.bfloat16, "meta", places=1)


def test_the_second_way_of_a_point_takes_the_cache_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """It must not be refused for the memory that the first one holds."""
    decode, at = experiment("decode"), {"batch": 2, "context": 300}
    first = decode.workload("cpu-eager", at)
    monkeypatch.setattr("brrr_course.experiments.checked.free_bytes", lambda device: 0)
    second = decode.workload("cpu-eager", at)
    assert second.check() < 1e-4 and first.cost == second.cost


def test_a_wrong_result_is_found_out() -> None:
    for call in (Call(1, 1, 100), Call(3, 1, 40), Call(1, 9, 9)):
        given = CallInputs(TINY, call, "cpu")
        run, close = way_of("eager", given, "cpu")
        assert given.error(run()) < 1e-5
        given.model.cos, given.model.sin = given.model.cos.roll(1, 0), given.model.sin.roll(1, 0)
        assert not given.error(run()) < 0.02
        given.model.cos, given.model.sin = given.model.cos.roll(-1, 0), given.model.sin.roll(-1, 0)
        close()
