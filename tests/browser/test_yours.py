"""The reader's own GPU, measured in Chromium, where a processor plays it: the kernels, the times, and what is told."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium_here import CHROMIUM

from brrr.core.errors import RecordingError
from brrr_course import explore, guess
from brrr_course.experiments import fusion, gemm, matmul, repeat, run_ahead
from brrr_course.nouns.table import written
from brrr_course.sources import laptops

pytestmark = pytest.mark.browser

BUILT = Path(repeat.__file__).parents[1] / "view" / "drawn" / "built"
SCRIPTS = [(BUILT / f"{name}.bundle.js").read_text("utf-8") for name in ("scene", "own")]
FLAGS = ["--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-features=Vulkan",
         "--use-vulkan=swiftshader", "--ignore-gpu-blocklist", "--enable-unsafe-swiftshader"]  # fmt: skip
SET_UP = """let device, at, calls = 0, leap = 0, host = 0, busy = 0;
const around = (it, key, call, f = it[key]) => { it[key] = function (...all) { return call(f.bind(this), ...all); }; };
const on = change => ({requestAdapter: async () => { const it = await navigator.gpu.requestAdapter();
  around(it, 'requestDevice', async (f, all) => { change(device = await f(all)); return device; }); return it; }});
const sized = sizes => ({matmul: [], gemm: [], run_ahead: [], repeat: [], fusion: [1004], elements: [1004], side: [72],
  ...sizes});
const hide = hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
  document.dispatchEvent(new Event('visibilitychange')); };"""


@pytest.fixture(scope="module")
def page(chromium: Any) -> Iterator[Any]:
    """A page with nothing in it, whatever its address is."""
    started = chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
    body = "<!doctype html><meta charset=utf-8><body>" + "".join(f"<script>{each}</script>" for each in SCRIPTS)
    opened = started.new_page()
    opened.route("**/*", lambda route: route.fulfill(body=body, content_type="text/html"))
    opened.context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield opened
    started.close()


@pytest.fixture
def measure(page: Any) -> Any:
    """A function that measures with these options, written in JavaScript; what comes back, or what the error says."""

    def measured(options: str, address: str = "http://localhost/") -> Any:
        call = f"own.measure({{rounds: 3, seconds: 100, sizes: sized(), {options}}}).catch(error => error.message)"
        for _ in range(5):  # beside other programs
            page.goto(address)
            found = page.evaluate(f"async () => {{ {SET_UP} return {call}; }}")
            if isinstance(found, str) or not (told(found, "Too noisy to be kept") or told(found, "takes too long")):
                break
        return found

    return measured


def told(result: Any, words: str) -> bool:
    return any(words in each for each in result["said"])


def test_each_kernel_is_right_where_its_size_is_no_multiple_of_a_workgroup_s(measure: Any) -> None:
    """With at most three workgroups in a dimension, so that a second one is needed."""
    limits = "{maxBufferSize: 2 ** 20, maxStorageBufferBindingSize: 2 ** 20, maxComputeWorkgroupsPerDimension: 3}"
    sizes = "sized({matmul: [64, 100], gemm: [1, 100], run_ahead: [1004], repeat: [1, 65]})"
    found = measure(f"gpu: on(() => Object.defineProperty(device, 'limits', {{value: {limits}}})), sizes: {sizes}")
    assert not told(found, "wrong") and found["device"]["software"] and told(found, "A processor plays this GPU")
    assert len({(row["experiment"], row["variant"]) for row in found["rows"]}) == 7 and len(found["rows"]) == 11
    assert all(row["error"] < 1e-5 for row in found["rows"]) and min(found["peaks"].values()) > 0
    for times in (*found["launch"].values(), *(each for row in found["rows"] for each in row["times"].values())):
        assert times[1] <= times[0] <= times[2] and times[3] == 3


def test_a_wrong_result_is_left_out_and_told(measure: Any) -> None:
    words = [("fma(v", "fma(x[0]"), ("sum +=", "sum ="), ("x, sums[3]", "x, sums[2]"), ("v += r;", "v += nothing;")]
    code = "code" + "".join(f".replaceAll{each}" for each in words)
    broken = f"gpu: on(() => around(device, 'createShaderModule', (make, {{code}}) => make({{code: {code}}})))"
    found = measure(f"{broken}, sizes: sized({{matmul: [64], repeat: [2]}})")
    assert found["rows"] == [] and len(found["launch"]) == 2 and told(found, "unresolved value 'nothing'")
    assert sum("is wrong by" in each for each in found["said"]) == found["left"] == 5
    assert told(found, "matmul webgpu size 64 is wrong")


def test_a_lost_gpu_is_told_and_what_was_measured_is_kept(measure: Any) -> None:
    lost = "gpu: on(() => 0), sizes: sized({repeat: [1]}), progress: it => it.experiment === '%s' && device.destroy()"
    found = measure(lost % "fusion")
    assert told(found, "The GPU was lost (destroyed") and told(found, "What was measured until then is kept.")
    assert [row["experiment"] for row in found["rows"]] == ["repeat"]
    assert measure(lost % "launch").startswith("The GPU was lost (destroyed")


def test_what_was_timed_in_a_hidden_tab_is_thrown_away_and_repeated(measure: Any) -> None:
    """The clock leaps ahead by ten seconds when the tab is hidden, a few times in the midst of a round."""
    leaps = "if (at === 'fusion' && ++calls % 7 === 0 && calls < 50) { leap += 10_000; hide(true); hide(false); }"
    gpu = f"gpu: on(() => around(device.queue, 'onSubmittedWorkDone', done => {{ {leaps} return done(); }}))"
    clock = "clock: {now: () => performance.now() + leap}, progress: each => { at = each.experiment; }"
    found = measure(f"{gpu}, {clock}, seconds: 1000, rounds: 9")
    assert told(found, "The tab was hidden meanwhile") and len(found["rows"]) == 2
    assert all(row["times"]["period_s"][2] < 0.01 and row["times"]["period_s"][3] == 9 for row in found["rows"])


def test_without_a_gpu_one_is_told_how_to_get_it(measure: Any) -> None:
    assert "found no GPU" in measure("gpu: {requestAdapter: async () => null}")
    assert "This browser has no WebGPU" in measure("gpu: null")
    assert "needs a secure page" in measure("", "http://brrr.test/")


def test_a_reader_may_stop_it_and_time_may_run_out(measure: Any) -> None:
    found = measure("progress: each => { at = each.experiment; }, stopped: () => at === 'fusion'")
    assert told(found, "The reader stopped it. What was") and found["rows"] == [] and len(found["launch"]) == 2
    late = "clock: {now: () => performance.now() + leap}, progress: ({value}) => { leap += value === 2008 ? 1e6 : 0; }"
    found = measure(f"{late}, sizes: sized({{fusion: [1004, 2008, 4016]}})")
    assert told(found, "fusion is left out, since no time was left, at 2008, 4016.")
    assert len(found["rows"]) == found["left"] == 2


@pytest.mark.parametrize("rounded", ["0n", "each - each % 65536n"])
def test_time_stamps_only_check(rounded: str, measure: Any) -> None:
    """Browsers round them, and some give zeros, which is told."""
    made = f"BigUint64Array.from(new BigUint64Array(range), each => {rounded}).buffer"
    shim = f"range => {{ range = range(); return range.byteLength === 16 ? {made} : range; }}"
    buffers = f"(make, asked) => {{ const made = make(asked); around(made, 'getMappedRange', {shim}); return made; }}"
    found = measure(f"gpu: on(() => around(device, 'createBuffer', {buffers}))")
    assert len(found["rows"]) == 2 and (told(found, "Time stamps differ") or rounded != "0n")


# -- what a reader can send, by one click


def offered(page: Any, change: str = "0", address: str = "http://localhost/") -> Any:
    """What stands below a figure, in a browser that is changed so."""
    page.goto(address)
    page.evaluate(f"() => {{ {change}; own.offer(figures.select(document.body)); }}")
    return page.locator(".own")


def copied(own: Any) -> Any:
    own.get_by_role("button", name="Copy what to send").click()
    own.get_by_role("button", name="Copied: now paste it into an issue").wait_for()
    return json.loads(own.page.evaluate("navigator.clipboard.readText()"))


@pytest.fixture
def forgetful(page: Any) -> Iterator[Any]:
    yield page
    page.goto("http://localhost/")
    page.evaluate("localStorage.clear()")


@pytest.mark.parametrize(("change", "said", "known"), [
    ("Object.defineProperty(navigator, 'gpu', {value: null})", "This browser has no WebGPU.", set()),
    ("GPUAdapter.prototype.requestDevice = async () => { throw Error('none to be had'); }", "none to be had",
     {"vendor", "limits"}),
])  # fmt: skip
def test_what_failed_is_copied_with_all_that_is_known(change: str, said: str, known: set[str], forgetful: Any) -> None:
    own = offered(forgetful, change)
    assert own.get_by_role("button").all_inner_texts() == ["Measure my own GPU"]
    own.get_by_role("button").click()
    own.get_by_text(said).wait_for()
    sent = copied(own)
    assert said in sent["shown"] and sent["agent"] == forgetful.evaluate("navigator.userAgent") and sent["rows"] == []
    assert known <= sent["device"].keys() and sent["device"].get("vendor", "google") == "google"


def test_what_never_ends_is_copied_meanwhile_and_after_the_page_was_taken_away(forgetful: Any) -> None:
    own = offered(forgetful, "GPUQueue.prototype.onSubmittedWorkDone = () => new Promise(() => {})")
    own.get_by_role("button").click()
    own.get_by_text("%, launch").wait_for()
    sent = copied(own)
    assert sent["shown"] == "0 %, launch" and sent["device"]["limits"]
    again = offered(forgetful)
    assert "did not end" in again.inner_text() and copied(again) == sent


def test_where_a_page_may_not_copy_a_reader_does(forgetful: Any) -> None:
    own = offered(forgetful, address="http://brrr.test/")
    own.get_by_role("button").click()
    own.get_by_role("button", name="Copy what to send").click()
    assert "secure page" in json.loads(own.get_by_role("textbox", name="Copy what to send").input_value())["shown"]


def test_what_was_measured_and_sent_is_a_line_of_the_table(forgetful: Any, tmp_path: Path) -> None:
    own, sent, table = offered(forgetful), tmp_path / "sent.json", tmp_path / "laptops.csv"
    table.write_text(written(laptops.COLUMNS, []), "utf-8")
    own.get_by_role("button").click()
    own.get_by_text("%, fusion").wait_for()
    own.get_by_role("button", name="Stop").click()
    own.get_by_text("The reader stopped it.").wait_for()
    found = copied(own)
    sent.write_text(json.dumps(found), "utf-8")
    with pytest.raises(RecordingError, match="a processor played this GPU"):
        laptops.add(sent, table=table)
    found["device"]["software"] = False
    sent.write_text(json.dumps(found), "utf-8")
    assert "google, swiftshader" in laptops.add(sent, table=table)
    (line,) = laptops.read(table)
    assert all(line[name] for name in ("launch_alone_s", "flop_per_s", "flop_per_s_at", "tick_s"))
    assert offered(forgetful).get_by_role("button").all_inner_texts() == ["Measure my GPU again"]


# -- the times


def test_what_is_measured_are_places_of_the_axes(page: Any) -> None:
    page.goto("http://localhost/")
    sizes = page.evaluate("own.SIZES")
    assert set(sizes.pop("elements")) <= set(repeat.ELEMENTS) and set(sizes.pop("side")) <= set(gemm.SIZES)
    assert len(sizes) == 5
    for each in (matmul, gemm, run_ahead, repeat, fusion):
        assert set(sizes[each.__name__.rpartition(".")[2]]) <= set(each.EXPERIMENT.axes[0].values)


PLAYED = """on(() => {
  around(device.queue, 'onSubmittedWorkDone', async done => { await done(); host += 3 + busy; busy = 0; });
  around(GPUComputePassEncoder.prototype, 'dispatchWorkgroups', (go, ...grid) => { busy += 0.04; go(...grid); }); })"""
"""A GPU that takes 40 µs a dispatch, and 3 ms until one hears that all are done, by a clock that only this moves."""


CLOCK = "clock: {now: () => (host += 0.0003)}"


@pytest.mark.parametrize("step", [0.001, 0.1, 1])
@pytest.mark.parametrize("rounded", ["floor", "round"])
def test_slopes_are_right_whatever_steps_the_clock_goes_in(step: float, rounded: str, measure: Any) -> None:
    """Each reading moves the clock by 0.3 µs, which is all that the host takes."""
    clock = f"{{now: () => Math.{rounded}((host += 0.0003) / {step}) * {step}}}"
    found = measure(f"gpu: {PLAYED}, clock: {clock}, sizes: sized({{run_ahead: [1024]}})")
    measured = [*(row["times"]["period_s"] for row in found["rows"]), *found["launch"].values()]
    for times, right_s in zip(measured, (120e-6, 40e-6, 800e-6, 3040e-6, 40e-6), strict=True):
        assert times[0] == pytest.approx(right_s, rel=0.02) and times[1] / 1.001 < right_s < times[2] * 1.001
    assert all(each[0] > 0 for row in found["rows"] for each in row["times"].values())
    assert found["device"]["tick_s"] == pytest.approx(step / 1000, rel=0.5)


DRAWN = """([scene, found]) => {
  localStorage.setItem('brrr-yours', JSON.stringify(found));
  const figure = figures.draw(document.body, scene, {own}), text = at => document.querySelector(at).textContent;
  document.querySelector('details').open = true;
  figure.again();
  const rows = [...document.querySelectorAll('tbody tr')].map(row => [...row.children].map(cell => cell.textContent));
  return {said: text('.say'), badge: text('.badge'), alt: document.querySelector('svg').ariaLabel,
          rows: rows.filter(([name]) => name.includes('your GPU')), names: text('.names')};
}"""
"""A figure with what was measured beside it: its sentence, badge and table, and its text for who does not see it."""


def test_a_speed_up_is_drawn_where_both_were_measured(page: Any, measure: Any) -> None:
    """Three dispatches in place of one: in the sentence, in the table; and nothing where its base is missing."""
    found = measure(f"gpu: {PLAYED}, {CLOCK}, sizes: sized({{fusion: [1024, 16384]}})")
    chain = {"chain compile": "chain eager", "bias compile": "bias eager"}
    at, asked = {"elements": 16384, "dtype": "float32"}, guess("It is faster by ...", unit="x", answer="3x")
    shown = explore("fusion", at=at, show={"speedup": chain}, unlock=asked, source="recorded:h200").panel.figure.scene
    drawn = page.evaluate(DRAWN, [shown, found])
    name = "scale, add and ReLU on your GPU, in one pass, over one pass each"
    assert [row[:2] for row in drawn["rows"]] == [[f"{name}, 1024", "3×"], [f"{name}, 16384", "3×"]]
    assert drawn["said"].endswith(" On your own GPU: 3×.") and drawn["alt"].endswith(f"Beside them: {name}.")
    assert "yours," in drawn["names"] and found["device"]["browser"] in drawn["badge"]
    page.reload()
    found["rows"][1]["times"]["period_s"][1] = 0  # as where the clock cannot tell
    assert page.evaluate(DRAWN, [shown, found])["rows"][0][2] == "3× and more"
    page.reload()
    found["rows"] = [row for row in found["rows"] if row["variant"] != "webgpu-chain"]
    drawn = page.evaluate(DRAWN, [shown, found])
    assert drawn["rows"] == [] and "own GPU" not in drawn["said"] and "Beside them" not in drawn["alt"]


def test_a_guess_is_asked_of_what_was_measured_too(page: Any, measure: Any) -> None:
    """Two tiles in a row for one; another size than the figure's is told, a place that was not measured is not."""
    tiled = PLAYED.replace("0.04", "4 * grid[0]")
    found = measure(f"gpu: {tiled}, {CLOCK}, sizes: sized({{gemm: [64, 128], fusion: []}})")
    asked, told = guess("It takes ... times as long", unit="x", answer="3x"), []
    few = {"columns": (64, 128, 256), "size": (512, 2048)}
    for columns in (128, 256):
        at = {"columns": columns, "size": 2048, "dtype": "float32"}
        shown = explore("gemm", at=at, lines=["nn"], values=few, versus={"columns": 64}, unlock=asked,
                        source="recorded:h200")  # fmt: skip
        page.reload()
        told.append(page.evaluate(DRAWN, [shown.panel.figure.scene, found])["said"])
    assert told[0].endswith(" On your own GPU, at size 72: 2×.") and "own GPU" not in told[1]
