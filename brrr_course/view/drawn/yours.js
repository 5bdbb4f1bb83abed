// Measures the reader's own GPU by WebGPU, from a page alone: `measure` times the kernels of data/wgsl, and tells what it could not.
//
// A browser's clock goes in steps of 0.1 ms and more, so nothing short is timed by itself: the time of a call is a slope, what more calls take
// longer than fewer, which also leaves out what waiting itself costs. Time stamps, where there are any, only check that.

import elementwise from "../../../data/wgsl/elementwise.wgsl";
import counting from "../../../data/wgsl/launch.wgsl";
import naive from "../../../data/wgsl/matmul.wgsl";
import tiled from "../../../data/wgsl/tiled.wgsl";

const powers = (...exponents) => exponents.map((exponent) => 2 ** exponent);
// What is measured, places of the experiments' axes; `elements` are those of `repeat`, `side` those of `gemm`: the most that fit, on a processor
// the fewest.
export const SIZES = {
  run_ahead: powers(10, 14, 16, 18, 20, 22, 24), repeat: powers(0, 2, 3, 4, 5, 6, 7, 9), elements: powers(16, 20, 24),
  fusion: powers(10, 14, 18, 20, 22, 24, 26), matmul: powers(6, 7, 8, 9, 10, 11, 12, 13),
  gemm: [1, 32, 64, 128, 129, 256, 512, 1024, 2048], side: powers(9, 11),
};
const SHARE = { launch: 2, repeat: 8, copy: 1, fusion: 12, run_ahead: 6, gemm: 7, matmul: 9 }; // of the time, in this order
const SHORTEST = 0.03, LONGEST = 0.5, TICKS = 100; // timed at once: s, and steps of the clock; a browser takes a GPU away that is kept for seconds
const AGREE = 0.05, WARM = 2; // it is warm when two rounds agree so far, or after so many seconds, or an eighth of the experiment's
const FACTOR = 1 + 1.5 / 128, ADDEND = 1.25 / 128; // float32 holds both, and 512 steps stay in its range
// Products in `run_ahead`; results that are checked; numbers, which the inputs repeat: a prime, so that no row of a matrix is like another.
const CHAIN = 20, SEEN = 64, DRAWN = 65521;
const AHEAD = 64; // dispatches handed over at once: the GPU begins with these while the host records the next ones
const FEW = 3; // of many alike are named
const LIMITS = ["maxBufferSize", "maxStorageBufferBindingSize", "maxComputeWorkgroupsPerDimension"];

const INSECURE = "WebGPU needs a secure page: open this one by https, from localhost or as a file.";
const NONE = "This browser has no WebGPU. Chrome and Edge have it from 113 on (on Linux from 144 on), Safari from 26 on, Firefox from 141 on, not on Linux.";
const NO_ADAPTER = "This browser has WebGPU but found no GPU for it; chrome://gpu or, in Firefox, about:support says why. A newer driver may help.";
const SLOW = "one call takes too long", LATE = "no time was left", LARGE = "it does not fit into the memory that a page may take";

// Times of the GPU behind `gpu`, in at most so many seconds; an Error with a sentence for the reader where nothing could be measured. `lab` holds
// what there is so far, whatever becomes of it: `result` tells it.
export async function measure({
  progress = () => {}, stopped = () => false, seconds = 30, gpu = globalThis.navigator?.gpu, clock = performance, sizes = {}, rounds = 7, lab = {},
} = {}) {
  const now = () => clock.now() / 1000, hides = () => { lab.hides += document.hidden; }, pipelines = new Map();
  Object.assign(lab, { now, stopped, rounds, end: now() + seconds, sizes: { ...SIZES, ...sizes }, pipelines, rows: [], said: [], notes: {}, left: 0, hides: +document.hidden });
  await open(lab, gpu);
  document.addEventListener("visibilitychange", hides);
  try {
    progress({ share: 0, experiment: "preparing" });
    await prepare(lab);
    for (const experiment in SHARE) await sweep(lab, experiment, progress);
  } catch (ended) {
    await Promise.race([lab.gone, pause(100)]).catch(() => {}); // where the GPU is lost, that is the reason
    lab.said.push(lab.ended = (lab.lost ?? ended.message) + (lab.rows.length ? " What was measured until then is kept." : ""));
  }
  document.removeEventListener("visibilitychange", hides);
  lab.closing = true;
  lab.device.destroy();
  if (!lab.rows.length) throw new Error(lab.said.at(-1) ?? `Nothing was measured: ${LATE}.`);
  return result(lab);
}

const pause = (ms) => new Promise((then) => setTimeout(then, ms));

// -- the device -------------------------------------------------------------------------------------------------------

async function open(lab, gpu) {
  if (!gpu) throw new Error(globalThis.isSecureContext === false ? INSECURE : NONE);
  const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
  if (!adapter) throw new Error(NO_ADAPTER);
  const limits = Object.fromEntries(LIMITS.map((name) => [name, adapter.limits[name]])), stamps = adapter.features.has("timestamp-query");
  const { vendor, architecture, description, device: model, isFallbackAdapter } = adapter.info, date = new Date().toISOString().slice(0, 10);
  const software = Boolean(isFallbackAdapter) || /swiftshader|llvmpipe|lavapipe|basic render|warp/i.test([vendor, architecture, description, model]);
  const agent = navigator.userAgent, [, name, version] = agent.match(/(Edg|Firefox|Version)\/(\d+)/) ?? agent.match(/(Chrome)\/(\d+)/) ?? ["", agent, ""];
  const browser = `${{ Edg: "Edge", Version: "Safari" }[name] ?? name} ${version}`;
  lab.about = { vendor, architecture, description: description || model, browser, date, software, limits };
  const device = lab.device = await adapter.requestDevice({ requiredFeatures: stamps ? ["timestamp-query"] : [], requiredLimits: limits });
  if (software) lab.said.push("A processor plays this GPU: its times show the shapes, not a GPU's speed.");
  lab.gone = device.lost.then(({ reason, message }) => {
    if (!lab.closing) throw new Error(lab.lost = `The GPU was lost (${[reason, message].filter(Boolean).join(": ")}).`);
  });
  lab.gone.catch(() => {}); // whoever waits for the GPU hears of it
  device.addEventListener("uncapturederror", ({ error }) => { lab.trouble ??= ` (${error.message})`; });
  if (stamps) lab.stamps = device.createQuerySet({ type: "timestamp", count: 2 });
}

// Inputs x and r, results y and z: as long as the largest point needs, and as there is memory.
async function prepare(lab) {
  const { device, sizes } = lab, read = "read-only-storage", kinds = [read, read, "storage", "uniform"];
  lab.bindings = device.createBindGroupLayout({ entries: kinds.map((type, binding) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } })) });
  lab.layout = device.createPipelineLayout({ bindGroupLayouts: [lab.bindings] });
  lab.tick = ticks(lab.now);
  lab.shortest = Math.min(LONGEST, Math.max(SHORTEST, TICKS * lab.tick));
  const memory = (navigator.deviceMemory ?? 4) * 2 ** 25; // of each of the four: an eighth of the machine's in all, which a GPU may share
  const side = Math.max(...sizes.side), products = [...sizes.matmul.map((n) => n * n), side * side, ...sizes.gemm.map((columns) => columns * side)];
  const wanted = 4 * Math.max(...sizes.run_ahead, ...sizes.fusion, ...sizes.elements, ...products);
  lab.bytes = 4 * Math.floor(Math.min(wanted, memory, device.limits.maxBufferSize, device.limits.maxStorageBufferBindingSize) / 4);
  while (!(await buffers(lab))) lab.bytes = 16 * Math.floor(lab.bytes / 32);
  lab.drawn = { x: fill(lab, lab.x), r: fill(lab, lab.r) };
  lab.numbers = stored(device, Float32Array.from({ length: 8 }, (_, i) => (i < 4 ? FACTOR : ADDEND)), GPUBufferUsage.UNIFORM);
  const fit = (values, numbers) => values.filter((value) => 4 * numbers(value) <= lab.bytes).at(lab.about.software ? 0 : -1);
  Object.assign(lab, { elements: fit(sizes.elements, (elements) => elements), side: fit(sizes.side, (n) => n * n) });
}

async function buffers(lab) {
  const { device } = lab, usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  device.pushErrorScope("out-of-memory");
  for (const name of "xryz") lab[name] = device.createBuffer({ size: lab.bytes, usage });
  const full = await Promise.race([device.popErrorScope(), lab.gone]);
  if (full) for (const name of "xryz") lab[name].destroy();
  return !full;
}

// Random numbers, again and again; returns what stands where.
function fill({ device, bytes }, buffer) {
  const drawn = Float32Array.from({ length: DRAWN }, () => 2 * Math.random() - 1), source = stored(device, drawn, GPUBufferUsage.COPY_SRC);
  submit(device, (encoder) => {
    for (let at = 0; at < bytes; at += 4 * DRAWN) encoder.copyBufferToBuffer(source, 0, buffer, at, Math.min(4 * DRAWN, bytes - at));
  });
  return (i) => drawn[i % DRAWN];
}

function stored(device, data, usage) {
  const buffer = device.createBuffer({ size: data.byteLength, usage: usage | GPUBufferUsage.COPY_DST });
  device.queue.writeBuffer(buffer, 0, data);
  return buffer;
}

function submit(device, record) {
  const encoder = device.createCommandEncoder();
  record(encoder);
  device.queue.submit([encoder.finish()]);
}

// The clock's step.
function ticks(now) {
  const seen = [now()];
  for (let time; seen.length < 10;) if ((time = now()) > seen.at(-1)) seen.push(time);
  return Math.min(...seen.slice(1).map((time, i) => time - seen[i]));
}

// -- what is measured -------------------------------------------------------------------------------------------------

const fma = (steps) => "v = fma(v, by.a, by.b);\n".repeat(steps); // by its name: one instruction
const stepped = (steps) => (x) => x * FACTOR ** steps + (ADDEND * (FACTOR ** steps - 1)) / (FACTOR - 1);
const SCALE = "v *= 1.75;\n", ADD = "v += r;\n", RELU = "v = max(v, vec4<f32>());\n", CHAINED = (x, r) => Math.max(0, 1.75 * x + r);

// By experiment: the variants at a point, each with its dispatches, and what is right at a place of the result.
const WORKS = {
  launch(lab) {
    const dispatches = [dispatch(lab, counting, "x", "y", 4, [1])];
    const work = { point: {}, dispatches, size: 1, result: "y", calls: 100, at: () => 100, tolerance: 0, flop: 1, bytes: 8 };
    return [{ ...work, variant: "alone", waits: true }, { ...work, variant: "among" }];
  },
  copy: (lab, elements) => [pointwise(lab, elements, "xy", [""], (x) => x)],
  repeat(lab, repeat) {
    const { elements } = lab, more = { variant: "webgpu-fma", point: { repeat, elements, dtype: "float32" }, flop: 2 * repeat * elements, tolerance: 4e-5 };
    return [{ ...pointwise(lab, elements, "xy", [fma(repeat)], stepped(repeat)), ...more }];
  },
  run_ahead: (lab, elements) => [{
    ...pointwise(lab, elements, `x${"yz".repeat(CHAIN / 2)}`, Array(CHAIN).fill(fma(1)), stepped(CHAIN)), flop: 2 * CHAIN * elements, passes: true,
  }],
  fusion(lab, elements) {
    const more = { point: { elements, dtype: "float32" }, flop: 3 * elements, bytes: 12 * elements }; // those that must move
    const way = (variant, buffers, steps) => ({ ...pointwise(lab, elements, buffers, steps, CHAINED), ...more, variant });
    return [way("webgpu-chain", "xyzy", [SCALE, ADD, RELU]), way("webgpu-chain-fused", "xy", [SCALE + ADD + RELU])];
  },
  gemm: (lab, columns) => [{ ...product(lab, lab.side, columns), point: { columns, size: lab.side, dtype: "float32" } }],
  matmul(lab, n) {
    const work = { ...product(lab, n, n), point: { size: n }, waits: true };
    return [{ ...work, variant: "webgpu-naive", dispatches: [dispatch(lab, naive, "x", "y", 4 * n * n, [Math.ceil(n / 16), Math.ceil(n / 16)])] }, work];
  },
};

// n x n numbers of x by n x wide of r.
function product(lab, n, wide) {
  const { x, r } = lab.drawn, at = (i) => Array.from({ length: n }, (_, k) => x(Math.floor(i / wide) * n + k) * r(k * wide + (i % wide))).reduce((a, b) => a + b);
  const dispatches = [dispatch(lab, tiled, "x", "y", 4 * n * wide, [Math.ceil(wide / 64), Math.ceil(n / 64)], 4 * n * n)];
  const bytes = 4 * n * (n + 2 * wide), does = bytes + 2 * n * n * 64 * Math.ceil(wide / 64); // in whole tiles
  return { variant: "webgpu", dispatches, size: n * wide, result: "y", at, tolerance: 1e-4, flop: 2 * n * n * wide, bytes, does };
}

// Steps one after the other, each from a buffer into the next one.
function pointwise(lab, elements, buffers, steps, right) {
  const groups = Math.ceil(elements / 512), high = Math.ceil(groups / lab.device.limits.maxComputeWorkgroupsPerDimension); // 64 invocations, of eight elements
  const into = (step, i) => dispatch(lab, elementwise.replace("// STEPS", step), buffers[i], buffers[i + 1], 4 * elements, [Math.ceil(groups / high), high]);
  const dispatches = steps.map(into), at = (i) => right(lab.drawn.x(i), lab.drawn.r(i)), bytes = 8 * elements * steps.length;
  return { variant: "webgpu", point: { elements }, dispatches, size: elements, result: buffers.at(-1), at, tolerance: 1e-5, flop: 0, bytes };
}

// A kernel that does not compile gives a wrong result.
function dispatch({ device, pipelines, layout, bindings, ...lab }, code, from, into, size, grid, read = size) {
  if (!pipelines.has(code)) pipelines.set(code, device.createComputePipeline({ layout, compute: { module: device.createShaderModule({ code }) } }));
  const bound = [{ buffer: lab[from], size: read }, { buffer: lab.r, size }, { buffer: lab[into], size }, { buffer: lab.numbers }];
  const group = device.createBindGroup({ layout: bindings, entries: bound.map((resource, binding) => ({ binding, resource })) });
  return { pipeline: pipelines.get(code), group, grid };
}

// Of several cases of the same a reader is told in one sentence.
const note = ({ notes }, what, which) => (notes[what] ??= []).push(which);

// An experiment from its smallest point to its largest, as far as its share of the time goes.
async function sweep(lab, experiment, progress) {
  const names = Object.keys(SHARE), first = names.indexOf(experiment), rest = names.slice(first).reduce((sum, name) => sum + SHARE[name], 0);
  const most = lab.about.software ? lab.elements : 4 * Math.floor(lab.bytes / 16), values = { launch: [1], copy: [most] }[experiment] ?? lab.sizes[experiment];
  lab.due = lab.now() + ((lab.end - lab.now()) * SHARE[experiment]) / rest;
  const numbers = { matmul: (n) => n * n, gemm: (columns) => columns * lab.side }[experiment] ?? ((count) => count), last = {};
  let why = "", took = 0;
  for (const [k, value] of values.entries()) {
    const begun = lab.now();
    progress({ share: (first + k / values.length) / names.length, experiment, value });
    if (4 * numbers(value) > lab.bytes) why ||= LARGE;
    else if (k && begun + took > lab.due) why ||= LATE;
    if (!why) why = await point(lab, WORKS[experiment](lab, value).map((work) => ({ ...work, experiment })), last);
    if (why) note(lab, `${experiment} is left out, since ${why}, at`, value, lab.left++);
    took = lab.now() - begun;
  }
}

// -- times ------------------------------------------------------------------------------------------------------------

// The variants at a point, round by round, each checked before. Returns why it was left out; `last` holds what a FLOP or byte took each at the point before.
async function point(lab, works, last) {
  const right = [], size = ({ flop, bytes, does = flop + bytes }) => does, fits = (work) => !((last[work.variant] ?? 0) * size(work) * (work.waits ? 1 : 4) > LONGEST);
  const quick = works.filter(fits), samples = works.map(() => []);
  if (!quick.length) return SLOW;
  for (const work of quick) if (await checked(lab, work)) right.push(work);
  for (const work of right) if (!(await warm(lab, work))) return over(lab) ? LATE : SLOW;
  while (right.length && samples[0].length < lab.rounds) {
    while (document.hidden && !over(lab)) await Promise.race([pause(50), lab.gone]); // a browser slows down a tab that is not in front
    if (over(lab)) return LATE;
    const seen = lab.hides, round = [];
    for (const work of right) round.push(await sample(lab, work));
    if (seen === lab.hides) round.forEach((each, i) => samples[i].push(each));
  }
  for (const [i, work] of right.entries()) last[work.variant] = (await keep(lab, work, samples[i])) / size(work);
  return "";
}

const main = ({ times }) => (times.latency_s ?? times.period_s)[0];

function over(lab) {
  if (lab.stopped()) throw new Error("The reader stopped it.");
  return lab.now() > lab.end;
}

// Whether the result is right; else the reader is told.
async function checked(lab, work) {
  const places = [0, work.size - 1, ...Array.from({ length: SEEN }, () => Math.floor(work.size * Math.random()))], right = places.map(work.at);
  submit(lab.device, (encoder) => encoder.clearBuffer(lab[work.result]));
  issue(lab, work, work.calls ?? 1);
  const found = await read(lab, lab[work.result], places);
  work.error = Math.hypot(...right.map((each, i) => found[i] - each)) / Math.hypot(...right);
  if (work.error <= work.tolerance) return true; // and not where it is NaN
  lab.left++;
  lab.said.push(`${named(work)} is wrong by ${work.error.toPrecision(2)} and left out${lab.trouble ?? ""}.`);
  return false;
}

const named = ({ experiment, variant, point: { dtype, ...point } }) => [experiment, variant, ...Object.entries(point).flat()].join(" ");
const short = (seconds) => `${seconds.toExponential(1)} s`;

async function read({ device, gone }, buffer, places) {
  const staging = device.createBuffer({ size: 4 * places.length, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  submit(device, (encoder) => places.forEach((place, i) => encoder.copyBufferToBuffer(buffer, 4 * place, staging, 4 * i, 4)));
  await Promise.race([staging.mapAsync(GPUMapMode.READ), gone]);
  return new Float32Array(staging.getMappedRange());
}

// So many calls, handed over some at a time; where each is a pass of its own, at once; where stamps are wanted, in one pass.
function issue({ device }, { dispatches, passes }, count, timestampWrites) {
  const calls = Array(count).fill(dispatches), all = calls.flat(), ahead = timestampWrites ? all.length : AHEAD;
  for (const pass of passes ? calls : Array.from({ length: Math.ceil(all.length / ahead) }, (_, i) => all.slice(i * ahead, (i + 1) * ahead))) {
    submit(device, (encoder) => {
      const into = encoder.beginComputePass({ timestampWrites });
      for (const { pipeline, group, grid } of pass) {
        into.setPipeline(pipeline);
        into.setBindGroup(0, group);
        into.dispatchWorkgroups(...grid);
      }
      into.end();
    });
  }
}

// Seconds of so many calls: until the last was handed over, and until all were done.
async function timed(lab, work, count) {
  const start = lab.now();
  issue(lab, work, count);
  const host = lab.now() - start;
  await Promise.race([lab.device.queue.onSubmittedWorkDone(), lab.gone]);
  return [host, lab.now() - start];
}

// Seconds a call, the host's and all: a mean where each is waited for, else the slope between a quarter of the calls and all; and what all took.
async function sample(lab, work) {
  const { count, waits } = work, sums = [0, 0];
  for (let call = 0; waits && call < count; call++) (await timed(lab, work, 1)).forEach((each, i) => { sums[i] += each; });
  if (waits) return [sums[0] / count, sums[1] / count, sums[1]];
  const [host, done] = await timed(lab, work, count), few = await timed(lab, work, count / 4);
  return [host / count, (done - few[1]) / (0.75 * count), done];
}

// Finds how many calls last long enough, and runs them until two rounds agree; false where the fewest last too long.
async function warm(lab, work) {
  const fewest = (work.count = work.waits ? 1 : 4), least = lab.shortest * (work.waits ? 0.4 : 1);
  const until = lab.now() + Math.min(WARM, (lab.due - lab.now()) / 8);
  for (let before = 0; !over(lab);) {
    const [, each, all] = await sample(lab, work), lacks = (1.15 * least) / Math.max(all, lab.tick);
    if (all > LONGEST && work.count === fewest) return false;
    if (all < least) work.count = fewest * Math.ceil((work.count / fewest) * Math.min(16, Math.max(1.5, lacks)));
    else if (Math.abs(each - before) <= AGREE * each || lab.now() > until) return true;
    before = each;
  }
  return false;
}

// Median with the lowest and the highest, no closer than the clock can tell.
function estimate(values, grain) {
  const sorted = [...values].sort((a, b) => a - b), half = (sorted.length - 1) / 2, median = (sorted[Math.floor(half)] + sorted[Math.ceil(half)]) / 2;
  return [median, Math.max(0, Math.min(sorted[0], median - grain)), Math.max(sorted.at(-1), median + grain), sorted.length];
}

// Adds a row, unless the time is nothing but noise; returns it.
async function keep(lab, work, samples) {
  const { experiment, variant, point, flop, bytes, error, waits, passes, count } = work, grain = lab.tick / (waits ? Math.sqrt(count) : 0.75 * count);
  const [host_s, all] = [0, 1].map((i) => estimate(samples.map((each) => each[i]), grain)), [took, low, high] = all;
  lab.left += !(took > 0);
  if (high > 2 * low) note(lab, took > 0 ? "Noisy by more than a factor of two:" : "Too noisy to be kept:", `${named(work)} (${short(low)} to ${short(high)})`);
  const times = { [waits ? "latency_s" : "period_s"]: all };
  if ((waits || passes) && host_s[0] > 0) times.host_s = host_s; // 0: too short for this clock
  if (took > 0) lab.rows.push({ experiment, variant, point, times, flop, bytes, error });
  if (took > 0 && lab.stamps && !waits && !passes) await doubt(lab, work, took);
  return took;
}

// What time stamps say of a call, beside its slope.
async function doubt(lab, work, slope) {
  const { device, stamps } = lab, { dispatches } = work, buffer = device.createBuffer({ size: 16, usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC });
  issue(lab, work, work.count, { querySet: stamps, beginningOfPassWriteIndex: 0, endOfPassWriteIndex: 1 });
  submit(device, (encoder) => encoder.resolveQuerySet(stamps, 0, 2, buffer, 0));
  const { buffer: found } = await read(lab, buffer, [0, 1, 2, 3]), [begin, end] = new BigUint64Array(found), stamp = Number(end - begin) / 1e9 / work.count;
  if (work.variant === "among") lab.launch_s = slope; // which stamps do not see
  const likely = stamp > 0 && stamp <= 2 * slope && slope <= 2 * (stamp + (lab.launch_s ?? 0) * dispatches.length);
  if (!likely) note(lab, "Time stamps differ twofold or more:", `${named(work)} (${short(stamp)}, not ${short(slope)})`);
}

// -- the result -------------------------------------------------------------------------------------------------------

// What a `lab` has found so far, as data.
export function result({ rows, said, notes, left, ended, hides, about, tick }) {
  const some = (list) => list.slice(0, FEW).join(", ") + (list.length > FEW ? ` and ${list.length - FEW} more` : "");
  const all = [...said, ...Object.entries(notes).map(([what, values]) => `${what} ${some(values)}.`)];
  if (hides) all.push("The tab was hidden meanwhile: what was timed then was thrown away, and repeated while there was time.");
  const of = (name) => rows.filter(({ experiment }) => experiment === name), rate = (row, what) => row && row[what] / main(row);
  const launch = Object.fromEntries(of("launch").map(({ variant, times }) => [variant, times.latency_s ?? times.period_s]));
  const [copy] = of("copy"), peaks = { bytes_per_s: rate(copy, "bytes"), flop_per_s: rate(of("repeat").at(-1), "flop") };
  const better = (row) => of("matmul").filter(({ point }) => point.size === row.point.size).reduce((a, b) => (main(b) < main(a) ? b : a));
  const products = of("matmul").map((row) => (row.variant === "webgpu" ? { ...better(row), variant: "webgpu" } : row));
  return { device: { ...about, tick_s: tick }, said: all, left, ended, rows: [...["repeat", "fusion", "run_ahead", "gemm"].flatMap(of), ...products], launch, copy, peaks };
}
