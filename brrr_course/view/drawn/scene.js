// Draws a scene: data in, a figure out. The same source is inlined in a page (build.mjs makes an IIFE of it).
//
// A scene holds every place of its sliders, so nothing is asked of a kernel when one moves. A place is a number: the sliders' positions
// read as digits, the last one moving fastest. Lists named `at`, `texts` and `windows` have one entry for each place.
//
// The svg is drawn anew for each width, in units of a sixteenth of the page's type: letters are as large on a phone as on a desk, and grow with
// a slide's. So a length here is a CSS pixel wherever the page has not changed its type.
// Colours are classes (`hue-memory`), which scene.css knows; nothing here writes a style into markup, so a strict policy may forbid that.

import { axisBottom, axisLeft } from "d3-axis";
import { easeCubicOut } from "d3-ease";
import { scaleLinear, scaleLog } from "d3-scale";
import { select } from "d3-selection";
import "d3-transition";

import { placeOf, si } from "./numbers.js";

export { plain, rounded, si } from "./numbers.js";
export { select };

const GLIDE = 200; // ms: long enough to be seen, short enough to hold a key down
const NARROW = 560; // below this many pixels names are short and stand where they need no margin
const CLOSE = 24; // pixels: points nearer than this to each other share one value
const STEPS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -3, PageUp: 3 };
const LAYERS = ["regions", "axis y", "axis x", "axis when", "axis share", "titles", "roofs", "lines", "dots", "tiles", "timeline", "stack", "ghosts", "bars",
  "names", "marks", "pad"]; // from the back to the front
let count = 0; // of figures in this document, for ids

const keep = (value, low, high) => Math.min(Math.max(value, low), high);

// -- numbers and words ------------------------------------------------------------------------------------------------

const ruler = document.createElement("canvas").getContext("2d"); // it measures words without a layout
let face = "sans-serif"; // of the figure's texts, as the style sheet has it

/** From one value to another, their unit said once where it is the same. */
function span(low, high, unit) {
  if (high === Infinity) return `${si(low, unit)} and more`; // the amount over a time that may be nothing
  const [a, b] = [si(low, unit), si(high, unit)], same = a.split(" ")[1] === b.split(" ")[1];
  return a === b ? a : `${same ? a.split(" ")[0] : a} to ${b}`;
}

/** Pixels that a text takes. */
function wide(text, size = 12.5, weight = 400) {
  ruler.font = `${weight} ${size}px ${face}`;
  return ruler.measureText(text).width;
}

/** Words in rows of at most so many pixels. */
function rowsOf(text, width, size, weight = 400) {
  const rows = [""];
  for (const word of text.split(" ")) {
    const longer = rows.at(-1) ? `${rows.at(-1)} ${word}` : word;
    if (rows.at(-1) && wide(longer, size, weight) > width) rows.push(word);
    else rows[rows.length - 1] = longer;
  }
  return rows;
}

// -- the figure ---------------------------------------------------------------------------------------------------------

/** Draw `scene` into `el`. What comes back moves it, takes a guess, and removes it. `kept` may say where its sliders stood, which lines were
    hidden and whether predictions were shown; its `changed` is called with these after each of the reader's actions. `own` is the module own.js. */
export function draw(el, scene, kept = {}) {
  const id = `scene-${++count}`;
  const root = select(el).append("div").attr("role", "group").attr("class", "scene fresh").attr("aria-labelledby", `${id}-title`);
  const off = (scene.lines ?? []).filter((each) => each.on === false).map((each) => each.name);
  const state = { scene, width: 0, at: [...(kept.at ?? scene.sliders.map((each) => each.at))], hidden: new Set(kept.hidden ?? off), predicting: kept.predicting ?? scene.predictions, root, id, glides: false };
  const changed = () => kept.changed?.({ at: [...state.at], hidden: [...state.hidden], predicting: state.predicting });
  const head = root.append("header");
  head.append("h3").attr("id", `${id}-title`).text(scene.title);
  if (document.fullscreenEnabled) {
    const large = () => document.fullscreenElement === root.node(), size = head.append("button").attr("type", "button").attr("class", "enlarge").attr("aria-label", "Enlarge the figure").text("⤢");
    size.on("click", () => (large() ? document.exitFullscreen() : root.node().requestFullscreen()));
    root.on("fullscreenchange", () => size.attr("aria-label", large() ? "Close the large figure" : "Enlarge the figure").text(large() ? "✕ Close" : "⤢"))
      .on("keydown", ({ key }) => key === "Escape" && large() && document.exitFullscreen());
  }
  const said = root.append("p").attr("class", "say").attr("aria-live", "polite");
  const gauges = root.append("div").attr("class", "gauges");
  const plot = root.append("div").attr("class", "plot");
  const svg = plot.append("svg").attr("role", "group").attr("aria-label", alternative(scene));
  const dials = root.append("div").attr("class", "dials");
  if (scene.predictable) {
    const predict = root.append("label").attr("class", "predict");
    predict.append("input").attr("type", "checkbox").property("checked", scene.predictions).on("change", ({ target }) => { state.predicting = target.checked; paint(true); changed(); });
    predict.append("span").text("Predictions, dashed");
  }
  const fold = root.append("details");
  fold.append("summary").text("Details and data");
  const more = fold.append("p").attr("class", "more");
  const table = fold.append("div").attr("class", "table").attr("tabindex", 0); // it scrolls, by keys too
  const badge = root.append("p").attr("class", "badge").text(scene.badge);
  const { own } = kept, mine = scene.yours && own; // what measures the reader's own GPU, on the pages that have it
  if (mine) own.offer(root, kept.measured);
  const layers = new Map(LAYERS.map((name) => [name, svg.append("g").attr("class", name).attr("aria-hidden", name === "names" ? null : true)]));
  state.layer = (name) => layers.get(name);
  state.glide = (selection) => state.glides ? selection.transition("glide").duration(GLIDE).ease(easeCubicOut) : selection;

  function paint(glides) {
    const width = plot.node().clientWidth / unit();
    if (!width) return; // hidden, as under a cover: the observer calls again
    face = getComputedStyle(svg.node()).fontFamily;
    Object.assign(state, { width, narrow: width < NARROW, place: placeOf(state), glides: glides && moves() });
    let top = 0;
    for (const panel of [plane, tiles, timeline, stack, bars]) top += panel(state, top);
    svg.attr("width", `${width / 16}rem`).attr("height", `${top / 16}rem`).attr("viewBox", `0 0 ${width} ${top}`);
    say(said, scene.say, state.place, replied(state));
    if (mine) said.append("span").attr("class", "ink-yours").text(own.answer(state));
    say(more, scene.more, state.place);
    meter(gauges, scene, state.place);
    turn(dials, state, move);
    if (fold.property("open")) tabulate(table, state);
    foretell(foretold, state);
  }

  const foretold = root.append("div").attr("class", "table foretold");
  const recorded = { lines: scene.lines, y: scene.y, all: scene.all, roofs: scene.roofs };
  const beside = (found, glides = true) => {
    const drawn = (axes) => own.beside({ ...scene, ...recorded, ...axes }, found), plain = drawn({});
    const far = recorded.y.scale === "linear" && plain.y.domain[1] > 2 * recorded.y.domain[1]; // then the recorded lines would lie flat
    const { lines, badge: theirs, ...axes } = far ? drawn({ y: logged(recorded.y, recorded.lines), all: recorded.all && logged(recorded.all, recorded.lines) }) : plain;
    Object.assign(scene, axes, { lines: [...recorded.lines, ...lines] }, lines.length && recorded.roofs ? withRoofs(recorded.roofs, axes.y, found.peaks) : {});
    badge.text([scene.badge, theirs].filter(Boolean).join(" · "));
    svg.attr("aria-label", alternative(scene) + (lines.length ? ` Beside them: ${lines.map((each) => each.label).join("; ")}.` : ""));
    paint(glides);
  };

  function move(slider, position) {
    const last = scene.sliders[slider].texts.length - 1, wanted = keep(position, 0, last);
    if (wanted === state.at[slider]) return;
    state.at[slider] = wanted;
    root.classed("fresh", false); // so the hint goes with the first move
    paint(true);
    changed();
  }

  state.move = move;
  state.again = () => { paint(true); changed(); };
  fold.on("toggle", () => fold.property("open") && tabulate(table, state));
  const observer = new ResizeObserver(() => Math.abs(plot.node().clientWidth - state.width * unit()) > 0.5 && paint(false));
  observer.observe(plot.node());
  const forget = mine ? own.onMeasured(beside) : () => {};
  if (mine && own.remembered()) beside(own.remembered(), false);
  else paint(false);
  return {
    move,
    /** To the place where a slider reads so; where it has no such value, it stays. */
    go(name, text) {
      const slider = scene.sliders.findIndex((each) => each.name === name), position = scene.sliders[slider]?.texts.indexOf(text) ?? -1;
      if (position >= 0) move(slider, position);
    },
    /** The reader's answer: a number, or one of the parts; `text` is how it reads, `reply` what is said of it at its place. */
    guess(value, text, reply = "") {
      if (!scene.guess) return;
      Object.assign(scene.guess, { value, text, reply });
      paint(true);
    },
    /** All sliders at once, as somebody else moved them. */
    stand(at) {
      if (String(at) === String(state.at)) return;
      state.at = [...at];
      paint(true);
    },
    again: () => paint(false),
    remove() { observer.disconnect(); forget(); root.remove(); },
  };
}

const unit = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16; // CSS pixels of one of the figure's

const moves = () => !matchMedia("(prefers-reduced-motion: reduce)").matches;

/** What the figure shows, for those who do not see it: the same wherever the sliders stand. */
function alternative({ alt, title, x, y, lines, parts: shares, rows, bars: all }) {
  const names = [...(lines ?? []), ...(shares ?? []), ...(rows ?? []), ...(all ?? [])].map((each) => each.label);
  if (alt) return alt;
  const over = lines ? ` ${y.title} against ${x.title}.` : "";
  return `${title}:${over} ${names.join("; ")}. The values stand in the table below.`;
}

function replied({ scene: { guess }, place }) {
  return guess?.reply && place === guess.place ? `${guess.reply} ` : "";
}

function say(into, told, place, before = "") {
  into.text(before + (told.forms[told.at[place]] ?? "Not recorded here."));
}

function meter(into, { gauges = [] }, place) {
  const each = into.selectAll("div.gauge").data(gauges).join((enter) => {
    const gauge = enter.append("div").attr("class", "gauge");
    for (const name of ["name", "track", "value"]) gauge.append("span").attr("class", name);
    gauge.select(".track").append("span").attr("class", "fill");
    return gauge;
  });
  each.select(".name").text((d) => d.label);
  each.select(".fill").attr("class", (d) => `fill hue-${d.at[place][2]}`).style("width", (d) => `${(100 * d.at[place][0]) / d.max}%`);
  each.select(".value").attr("class", (d) => `value ink-${d.at[place][2]}`).text((d) => d.at[place][1]);
}

// -- sliders --------------------------------------------------------------------------------------------------------------

function turn(into, state, move) {
  const dials = into.selectAll("div.dial").data(state.scene.sliders).join((enter) =>
    enter.append("div").attr("class", (d) => `dial ${d.form}`).each(function (slider, i) {
      (slider.form === "choice" ? buttons : range)(select(this), slider, i, state, move);
    }));
  dials.each(function (slider, i) {
    const dial = select(this), position = state.at[i], text = slider.texts[position];
    dial.classed("alone", slider.texts.length < 2).select("output").text(text);
    dial.selectAll("input[type=radio]").property("checked", (_, k) => k === position);
    const input = dial.select("input[type=range]").attr("aria-valuetext", text);
    if (state.along?.slider !== i) return input.property("value", position);
    const { left, inner, pixels } = state.along; // it lies under the axis, so that its handle stands below the point
    dial.classed("along", true).style("padding-left", `${(left - 11) / 16}rem`).style("padding-right", `${(state.width - left - inner - 11) / 16}rem`);
    input.attr("min", 0).attr("max", inner).attr("step", "any").property("value", pixels[position]);
  });
}

function range(dial, slider, i, state, move) {
  const name = `${state.id}-${slider.name}`;
  dial.append("label").attr("for", name).text(slider.title).append("output").attr("for", name);
  dial.append("input").attr("type", "range").attr("id", name).attr("min", 0).attr("max", slider.texts.length - 1)
    .on("input", ({ target }) => {
      const along = state.along?.slider === i;
      move(i, along ? nearest(state.along.pixels, +target.value) : +target.value);
      if (along) target.value = state.along.pixels[state.at[i]];
    })
    .on("keydown", (event) => { // along an axis a key goes to the next value, not by a pixel
      const last = slider.texts.length - 1;
      const to = event.key === "Home" ? 0 : event.key === "End" ? last : state.at[i] + (STEPS[event.key] ?? NaN);
      if (Number.isNaN(to)) return;
      event.preventDefault();
      move(i, to);
    });
}

function buttons(dial, slider, i, state, move) {
  const label = `${state.id}-${slider.name}`;
  dial.append("span").attr("class", "name").attr("id", label).text(slider.title);
  const group = dial.append("div").attr("class", "choices").attr("role", "radiogroup").attr("aria-labelledby", label);
  const each = group.selectAll("label").data(slider.texts).join("label");
  each.append("input").attr("type", "radio").attr("name", `${state.id}-${slider.name}`).on("change", (_, d) => move(i, slider.texts.indexOf(d)));
  each.append("span").text((d) => d);
}

const nearest = (values, wanted) =>
  values.reduce((best, value, i) => (Math.abs(value - wanted) < Math.abs(values[best] - wanted) ? i : best), 0);

// -- lines and roofs --------------------------------------------------------------------------------------------------------

/** The panel of lines over x, with a roofline's roofs and regions below them. */
function plane(state, top) {
  const { scene, width, narrow, place, glide } = state;
  if (!scene.lines) return 0;
  const cut = placeOf(state, scene.x.along), position = state.at[scene.x.along];
  const labelled = scene.lines.filter((d) => d.kind !== "predicted" && !state.hidden.has(d.of)), named = labelled.length > 1 && !scene.roofs; // these have names of their own
  const names = (d) => rowsOf((state.hidden.has(d.name) ? "+ " : "") + d.short, narrow ? 84 : 170, 12.5, 700);
  const up = (state.up = scene.lines.some((d) => d.on === false && !state.hidden.has(d.name)) ? scene.all : scene.y); // with lines switched on it may be longer
  const left = Math.max(38, ...(narrow ? up.few : up.ticks).map(([, text]) => wide(text, 12) + 12));
  const right = named ? Math.max(...labelled.flatMap((d) => names(d).map((row) => wide(row, 12.5, 700)))) + 14 : 12;
  const listed = labelled.reduce((sum, d) => sum + 16 * names(d).length + 2, 0); // so high are the names alone
  const inner = width - left - right, height = Math.max(narrow ? 250 : 320, named ? listed - 8 : 0), foot = top + 22 + height;
  const scale = (axis) => (axis.scale === "log" ? scaleLog() : scaleLinear()).domain(axis.domain);
  const x = scale(scene.x).range([left, left + inner]), y = scale(up).range([foot, top + 22]);
  const points = new Map(scene.lines.map((d) => [d.name, d.cuts[cut] ?? []]));
  const seen = (d) => (d.kind !== "predicted" || state.predicting) && !state.hidden.has(d.name) && !state.hidden.has(d.of);
  const here = new Map(scene.lines.filter((d) => !d.kind && !state.hidden.has(d.name)).flatMap((d) => {
    const found = points.get(d.name).find((row) => row[0] === position);
    return found ? [[d.name, found]] : [];
  }));
  const pixels = (scene.x.at[cut]?.length ? scene.x.at[cut] : scene.x.at).map((value) => x(value) - left); // of each cut its own, or the same
  state.along = { slider: scene.x.along, left, inner, pixels };
  const box = { left, right: left + inner, top: top + 22, foot, inner, height };

  state.room = roomOf(left - 14, top + 4, width, foot + 2);
  axes(state, box, x, y, narrow ? scene.x.few : scene.x.ticks, narrow ? up.few : up.ticks);
  regions(state, box, x, cut);
  const nameRoofs = roofs(state, box, x, y, cut);

  const marks = state.layer("marks");
  const shown = scene.lines.filter(seen);
  for (const d of shown.filter((each) => !each.trail)) state.room.line(points.get(d.name).map((row) => [x(row[1]), y(row[2])]));
  glide(state.layer("lines").selectAll("path").data(shown, (d) => d.name).join("path").attr("class", (d) => `line pen-${d.hue} ${d.trail ? "trail" : (d.kind ?? "")}`))
    .attr("d", (d) => path(points.get(d.name).map((row) => [x(row[1]), y(row[2])])));
  const dots = shown.filter((d) => !d.kind).flatMap((d) => points.get(d.name).map((row) => ({ line: d, row })));
  glide(state.layer("dots").selectAll("circle").data(dots, (d) => `${d.line.name} ${d.row[0]}`).join("circle")
    .attr("class", (d) => `dot hue-${d.line.hue}`).classed("ahead", (d) => d.line.trail && d.row[0] > position)
    .classed("doubtful", (d) => d.line.doubtful?.[cut]?.includes(d.row[0])).attr("r", narrow ? 2 : 2.5))
    .attr("cx", (d) => x(d.row[1])).attr("cy", (d) => y(d.row[2]));

  if (named) endLabels(state, box, y, points, names, labelled);
  const values = [...here].map(([name, row]) => ({ line: scene.lines.find((d) => d.name === name), row })).sort((a, b) => a.row[2] - b.row[2]);
  const at = left + pixels[position], hue = scene.lines.find((d) => d.name === scene.base?.line)?.hue; // what the sentence compares with, along x
  glide(marks.selectAll("line.drop").data(values.slice(0, 1)).join("line").attr("class", "drop"))
    .attr("x1", at).attr("x2", at).attr("y1", foot).attr("y2", (d) => y(d.row[2]));
  glide(marks.selectAll("circle.here").data(values, (d) => d.line.name).join("circle").attr("class", (d) => `here hue-${d.line.hue}`).attr("r", 7))
    .attr("cx", (d) => x(d.row[1])).attr("cy", (d) => y(d.row[2]));
  const based = scene.base && !state.hidden.has(scene.base.line) && scene.base.at !== position ? points.get(scene.base.line).filter((row) => row[0] === scene.base.at) : [];
  glide(marks.selectAll("circle.base").data(based).join("circle").attr("class", `base pen-${hue}`).attr("r", 6)).attr("cx", (row) => x(row[1])).attr("cy", (row) => y(row[2]));
  for (const row of [...values.map((d) => d.row), ...based]) state.room.point(x(row[1]), y(row[2]));
  const starred = star(state, box, x, y, cut, position);
  valuesOf(state, x, y, values);
  brackets(state, box, y, here, at, place);
  starred();
  nameRoofs();
  const beside = (name, rows, text, size) => glide(marks.selectAll(`text.${name}`).data(rows.map((row) => ({ row, ...state.room.put(around(x(row[1]), y(row[2]), wide(text(row), size), size)) }))).join("text")
    .attr("class", `${name}${name === "base" ? ` ink-${hue}` : ""}`).attr("text-anchor", (d) => d.end).text((d) => text(d.row))).attr("x", (d) => d.x).attr("y", (d) => d.y);
  beside("base", based, (row) => si(row[2], scene.y.unit), 13);
  beside("doubt", dots.filter((d) => d.line.doubtful?.[cut]?.includes(d.row[0])).map((d) => d.row), () => "doubtful", 12);
  drag(state, box, pixels);
  return foot + (scene.sliders[scene.x.along].title === scene.x.title ? 26 : 40) - top;
}

const path = (points) => (points.length ? `M${points.map((each) => each.join()).join("L")}` : "");

const COVERED = 30, CROSSED = 1; // what it costs to cover a pixel of a text or point, or of a line

/** What stands in a panel, as boxes [left, top, right, bottom, cost of a pixel]; `put` gives of a text's places that which costs least, and takes it. */
function roomOf(...panel) {
  const taken = [];
  const covered = (a, b) => Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0])) * Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));
  const cost = (box) => COVERED * (covered(box, box) - covered(box, panel)) + taken.reduce((sum, each) => sum + each[4] * covered(box, each), 0);
  const text = (...box) => taken.push([...box, COVERED]);
  return {
    text,
    point: (x, y) => text(x - 7, y - 7, x + 7, y + 7),
    line: (points) => points.slice(1).forEach(([x, y], i) => {
      const [from, up] = points[i], parts = Math.ceil(Math.hypot(x - from, y - up) / 4);
      for (let k = 0; k < parts; k++) taken.push([-2, -2, 2, 2].map((d, side) => d + (side % 2 ? up + (k * (y - up)) / parts : from + (k * (x - from)) / parts)).concat(CROSSED));
    }),
    put(places) {
      const costs = places.map(({ boxes, far }) => boxes.reduce((sum, box) => sum + cost(box), far)), found = places[costs.indexOf(Math.min(...costs))];
      for (const box of found.boxes) text(...box);
      return found;
    },
  };
}

/** A text's place, its box with it: `y` is its first row's, `far` what it costs not to stand at the first place. */
function placed(x, y, end, broad, size, far = 0, below = 0) {
  const left = x - { start: 0, middle: broad / 2, end: broad }[end];
  return { x, y, end, far, boxes: [[left - 2, y - 0.8 * size, left + broad + 2, y + 0.25 * size + below]] };
}

/** The places of a text around a point, the best first: above it, and where the line climbs to the right, to its left. */
function around(x, y, broad, size, low = false) {
  const up = -14, down = 12 + 0.85 * size, [first, second] = low ? [down, up] : [up, down];
  const near = [["middle", 0, first], ["end", -10, -9], ["start", 10, -9], ["middle", 0, second], ["end", -13, 5], ["start", 13, 5], ["end", -9, down - 2], ["start", 9, down - 2]];
  const beyond = [up - 17, down + 17, up - 34, down + 34].flatMap((dy) => [["middle", 0, dy], ["end", -6, dy], ["start", 6, dy]]).concat([5, up, down].flatMap((dy) => [["end", -18 - broad, dy], ["start", 18 + broad, dy]]));
  return [...near, ...beyond].map(([end, dx, dy], i) => placed(x + dx, y + dy, end, broad, size, 12 * i + (i < near.length ? 0 : 120)));
}

/** The value at each point, the lowest of several and one under a roof below it; with those of two that are too close for a bracket stands their factor. */
function valuesOf(state, x, y, values) {
  const { scene, place, glide } = state, [bracket] = scene.marks ?? [], high = [...values].reverse();
  const texts = high.map(({ line, row }, i) => ({ name: line.name, hue: line.hue, row, text: si(row[2], scene.y.unit), low: scene.roofs || (i > 0 && i === high.length - 1) }));
  const pair = high.filter(({ line }) => bracket?.lines.includes(line.name));
  if (pair.length === 2 && y(pair[1].row[2]) - y(pair[0].row[2]) < CLOSE) texts.push({ name: "", hue: "ink", row: pair[0].row, text: bracket.texts[place] });
  const put = texts.map((d) => ({ ...d, ...state.room.put(around(x(d.row[1]), y(d.row[2]), wide(d.text, 14, 700), 14, d.low)) }));
  glide(state.layer("marks").selectAll("text.value").data(put, (d) => d.name).join("text").attr("class", (d) => `value ink-${d.hue}`)
    .text((d) => d.text).attr("text-anchor", (d) => d.end)).attr("x", (d) => d.x).attr("y", (d) => d.y);
}

function axes(state, box, x, y, along, up) {
  const { scene, glide } = state;
  const text = (ticks) => (value) => (ticks.find(([v]) => v === value) ?? [])[1];
  const bottom = axisBottom(x).tickValues(along.map(([v]) => v)).tickFormat(text(along)).tickSizeOuter(0).tickSize(5);
  const side = axisLeft(y).tickValues(up.map(([v]) => v)).tickFormat(text(up)).tickSizeOuter(0).tickSize(-box.inner).tickPadding(8);
  glide(state.layer("axis y").attr("transform", `translate(${box.left},0)`)).call(side);
  glide(state.layer("axis x").attr("transform", `translate(0,${box.foot})`)).call(bottom);
  const logs = [scene.x, state.up].filter((each) => each.scale === "log"), scales = logs.length > 1 ? " (log scales)" : logs[0] === state.up ? " (log scale)" : logs.length ? " (x: log scale)" : "";
  const titles = [{ text: scene.y.title + scales, x: box.left, y: box.top - 10, end: "start" }];
  up.forEach(([value, name]) => state.room.text(box.left - 8 - wide(name, 12), y(value) - 7, box.left - 8, y(value) + 7));
  state.room.text(box.left, box.top - 20, box.left + wide(titles[0].text, 12), box.top - 7);
  const own = scene.sliders[scene.x.along].title === scene.x.title; // then the slider below bears the name
  if (!own) titles.push({ text: scene.x.title, x: box.right, y: box.foot + 36, end: "end" });
  state.layer("titles").selectAll("text").data(titles).join("text").attr("class", "axis-title")
    .attr("x", (d) => d.x).attr("y", (d) => d.y).attr("text-anchor", (d) => d.end).text((d) => d.text);
}

/** Each line's name at its right end. A click hides the line; the name stays, struck through. */
function endLabels(state, box, y, points, names, labelled) {
  const { glide } = state;
  const ends = labelled.map((d) => ({ d, rows: names(d), y: y((points.get(d.name).at(-1) ?? [0, 0, state.up.domain[0]])[2]) }))
    .sort((a, b) => a.y - b.y);
  const half = (end) => 8 * end.rows.length;
  const apart = (end, other) => half(end) + half(other) + 2;
  ends.forEach((end, i) => { end.y = Math.max(end.y, i ? ends[i - 1].y + apart(end, ends[i - 1]) : box.top - 8 + half(end)); }); // so that no two overlap,
  ends.reverse().forEach((end, i) => { end.y = Math.min(end.y, i ? ends[i - 1].y - apart(end, ends[i - 1]) : box.foot + 2 - half(end)); }); // nor leave the figure
  for (const end of ends) state.room.text(box.right + 10, end.y - half(end), box.right + 10 + Math.max(...end.rows.map((row) => wide(row, 12.5, 700))), end.y + half(end));
  const toggle = (_, { d }) => {
    state.hidden[state.hidden.has(d.name) ? "delete" : "add"](d.name);
    state.again();
  };
  const labels = state.layer("names").selectAll("g").data(ends, (end) => end.d.name).join((enter) => {
    const g = enter.append("g").attr("role", "button").attr("tabindex", 0).attr("transform", (end) => `translate(${box.right + 10},${end.y})`);
    g.append("rect").attr("x", -4);
    g.append("text");
    return g.on("click", toggle).on("keydown", (event, end) => ["Enter", " "].includes(event.key) && (event.preventDefault(), toggle(event, end)));
  });
  labels.attr("class", (end) => `name ink-${end.d.hue}`).classed("off", (end) => state.hidden.has(end.d.name))
    .attr("aria-pressed", (end) => String(!state.hidden.has(end.d.name))).attr("aria-label", (end) => `line: ${end.d.label}`);
  labels.select("rect").attr("width", (end) => Math.max(...end.rows.map((row) => wide(row, 12.5, 700))) + 8)
    .attr("y", (end) => -half(end) - 4).attr("height", (end) => 2 * half(end) + 8);
  labels.select("text").selectAll("tspan").data((end) => end.rows.map((row) => [row, end.rows.length])).join("tspan").attr("x", 0)
    .attr("dy", ([, count], i) => (i ? 15 : 4.3 - 7.5 * (count - 1))).text(([row]) => row);
  glide(labels).attr("transform", (end) => `translate(${box.right + 10},${end.y})`);
}

/** From one line's point to another's, with how many times as much between them. */
function brackets(state, box, y, here, at, place) {
  const { scene, glide } = state;
  const found = (scene.marks ?? []).filter((d) => d.lines.every((name) => here.has(name))
    && Math.abs(d.lines.map((name) => y(here.get(name)[2])).reduce((a, b) => a - b)) >= CLOSE);
  const groups = state.layer("marks").selectAll("g.bracket").data(found).join((enter) => {
    const g = enter.append("g").attr("class", "bracket");
    g.append("path");
    g.append("text").attr("class", "factor");
    g.append("text").attr("class", "what");
    return g;
  });
  const size = state.narrow ? 18 : 22;
  groups.each(function (d) {
    const [a, b] = d.lines.map((name) => y(here.get(name)[2])).sort((one, other) => one - other), g = select(this), rows = rowsOf(d.label, state.narrow ? 86 : 150, 13);
    const broad = wide(d.texts[place], size, 800) * 1.15, all = Math.max(broad, ...rows.map((row) => wide(row, 13)));
    const places = [true, false].flatMap((told) => [16, -16, 64, -64].flatMap((aside) => {
      const high = told ? 16 * rows.length + 6 : 0, edge = at + aside, side = Math.sign(aside), middle = (a + b - high) / 2 + 8;
      return [middle, a + 24, b - high - 8, a - high - 4, b + size].map((first, i) => {
        const found = placed(edge + 8 * side, first, side > 0 ? "start" : "end", told ? all : broad, size, 12 * i + (told ? 0 : 100) + 8 * Math.abs(aside), high);
        return { ...found, told, side, edge, boxes: [...found.boxes, [edge - 4, a, edge + 4, b]] };
      });
    }));
    const { x: left, y: first, end, told, side, edge } = state.room.put(places);
    glide(g.select("path")).attr("d", `M${edge - 5 * side},${a} H${edge} V${b} H${edge - 5 * side}`);
    glide(g.select("text.factor").attr("font-size", size).text(d.texts[place]).attr("text-anchor", end)).attr("x", left).attr("y", first);
    const what = g.select("text.what").attr("text-anchor", end).classed("hidden", !told);
    glide(what).attr("transform", `translate(${left},${first + 18})`);
    what.selectAll("tspan").data(rows).join("tspan").attr("x", 0).attr("dy", (_, i) => (i ? 16 : 0)).text((row) => row);
  });
}

/** The reader's guess, on the line that it was asked about and only where it was asked. */
function star(state, box, x, y, cut, position) {
  const { scene: { guess, lines }, place, glide } = state;
  const asked = guess?.value != null && guess.line && place === guess.place ? lines.find((d) => d.name === guess.line) : null;
  const row = asked?.cuts[cut]?.find((each) => each[0] === position);
  const value = !guess?.base ? guess?.value : guess.inverse ? guess.base / guess.value : guess.base * guess.value; // a factor is of another value
  const low = y.range()[1] + 12, height = row ? keep(y(value), low, box.foot - 12) : 0;
  const stars = state.layer("marks").selectAll("g.you").data(row ? [guess] : []).join((enter) => {
    const g = enter.append("g").attr("class", "you");
    g.append("path").attr("d", "M0,-8 L2.3,-2.8 8,-2.4 3.7,1.3 5,6.8 0,3.8 -5,6.8 -3.7,1.3 -8,-2.4 -2.3,-2.8Z");
    g.append("text");
    return g;
  });
  const at = row && x(row[1]);
  if (row) glide(stars).attr("transform", `translate(${at},${height})`);
  if (row) state.room.point(at, height);
  return () => stars.each((d) => { // once the values stand
    const text = `you: ${d.text}`, broad = wide(text, 12.5, 600), beside = [placed(at - 13, height + 4, "end", broad, 12.5), placed(at + 13, height + 4, "start", broad, 12.5)];
    const put = state.room.put([...beside, ...around(at, height, broad, 12.5)]);
    stars.select("text").text(text).attr("x", put.x - at).attr("y", put.y - height).attr("text-anchor", put.end);
  });
}

/** The whole panel is a handle: to point at a value is to go there. */
function drag(state, box, pixels) {
  const pad = state.layer("pad").selectAll("rect").data([box]).join("rect")
    .attr("x", box.left).attr("y", box.top).attr("width", Math.max(box.inner, 0)).attr("height", box.height);
  const go = (event) => {
    const from = event.currentTarget.ownerSVGElement.getBoundingClientRect();
    state.move(state.scene.x.along, nearest(pixels, ((event.clientX - from.left) * state.width) / from.width - box.left));
  };
  pad.on("pointerdown", (event) => { event.currentTarget.setPointerCapture(event.pointerId); go(event); })
    .on("pointermove", (event) => event.buttons && go(event));
}

function regions(state, box, x, cut) {
  const { scene, glide, narrow } = state;
  const found = (scene.regions?.[cut] ?? []).map(([from, hue, ...texts], i, all) => {
    const start = from ? x(from) : box.left, end = all[i + 1] ? x(all[i + 1][0]) : box.right;
    const rows = texts.slice(0, narrow ? 1 : texts.length).map((pair) => pair[+narrow]); // below the first is a roof's name
    return { hue, rows, start, end, x: Math.min(start + 10, box.right - Math.max(...rows.map((row) => wide(row, 13, 700))) - 4) };
  });
  found.forEach((d, i) => { if (found[i + 1]?.x < d.x + wide(d.rows[0], 13, 700) + 6) d.rows = []; });
  const layer = state.layer("regions");
  glide(layer.selectAll("rect").data(found).join("rect").attr("class", (d) => `region hue-${d.hue}`).attr("y", box.top).attr("height", box.height))
    .attr("x", (d) => d.start).attr("width", (d) => d.end - d.start);
  const texts = layer.selectAll("text").data(found).join("text").attr("class", (d) => `ink-${d.hue}`);
  texts.selectAll("tspan").data((d) => d.rows).join("tspan").attr("x", 0).attr("dy", (_, i) => (i ? 17 : 0)).text((text) => text);
  glide(texts).attr("transform", (d) => `translate(${d.x},${box.top + 20})`);
  for (const d of found) d.rows.forEach((row, i) => state.room.text(d.x, box.top + 8 + 17 * i, d.x + wide(row, 13, 700), box.top + 24 + 17 * i));
}

/** Roofs: the memory's rises with what is done for each byte, the arithmetic's is flat, and they end where they meet. */
function roofs(state, box, x, y, cut) {
  const { scene, glide, narrow } = state;
  if (!scene.roofs) return () => {};
  const [least, most] = scene.x.domain, ridges = scene.regions[cut][1][0];
  const ends = (d) => {
    const rate = d.rate[cut], bend = d.ridge ?? ridges, from = d.slant ? Math.max(least, scene.y.domain[0] / rate) : bend, to = d.slant ? bend : most;
    return [from, to].map((at) => [x(at), y(d.slant ? rate * at : rate)]);
  };
  const layer = state.layer("roofs");
  glide(layer.selectAll("path").data(scene.roofs).join("path").attr("class", (d) => `roof pen-${d.hue}`))
    .attr("d", (d) => path(ends(d)));
  for (const d of scene.roofs) state.room.line(ends(d));
  const ridge = layer.selectAll("g.ridge").data([ridges]).join((enter) => {
    const g = enter.append("g").attr("class", "ridge");
    g.append("line");
    return g;
  });
  glide(ridge).attr("transform", `translate(${x(ridges)},0)`);
  glide(ridge.select("line").attr("y2", box.foot)).attr("y1", y(ridges * scene.roofs[0].rate[cut]));
  const name = (d) => `${narrow ? "" : `${d.label} `}${d.texts[cut]}`;
  return () => glide(layer.selectAll("text.roof-name").data(scene.roofs).join("text").attr("class", (d) => `roof-name ink-${d.hue}`).text(name))
    .attr("transform", (d) => state.room.put(alongside(ends(d), wide(name(d), 12.5, 600), narrow)).transform);
}

/** The places of a roof's name: above it or below, a slanted one's on its way up, a flat one's at its end. */
function alongside([[x0, y0], [x1, y1]], long, narrow) {
  const slope = Math.atan2(y1 - y0, x1 - x0), [cos, sin] = [Math.cos(slope), Math.sin(slope)], length = Math.hypot(x1 - x0, y1 - y0), rest = length - long - 4;
  const starts = slope ? [narrow ? 0.2 : 0.3, 0.45, 0.6, 0.05].map((part) => part * length) : [rest, rest / 2, 4];
  return starts.flatMap((start, i) => [slope ? 20 : 11, slope ? -24 : -20].map((up, below) => {
    const letters = Array.from({ length: Math.ceil(long / 6) }, (_, k) => [x0 + (start + 6 * k) * cos + up * sin, y0 + (start + 6 * k) * sin - up * cos]);
    const transform = `translate(${x0},${y0}) rotate(${(slope * 180) / Math.PI}) translate(${start},${-up})`;
    return { transform, far: 60 * (2 * i + below), boxes: letters.map(([left, foot]) => [left - 6, foot - 12, left + 8, foot + 3]) };
  }));
}

/** A linear axis as a logarithmic one, with room below what was recorded. */
function logged(axis, lines) {
  const least = Math.min(...lines.flatMap((line) => line.cuts.flat().map((row) => row[2])).filter((value) => value > 0));
  const ticks = axis.ticks.filter(([value]) => Math.abs(Math.log10(value) % 1) < 1e-9);
  return { ...axis, scale: "log", domain: [least / 2, axis.domain[1]], ticks, few: ticks };
}

/** The roofs of the reader's own GPU below the recorded ones, and an axis on which the regions' names keep their room. */
function withRoofs(roofs, y, { bytes_per_s: bytes, flop_per_s: flop }) {
  const [low, high] = y.domain, ridge = flop / bytes;
  const roof = (slant, rate, unit) => ({ label: "", hue: "yours", slant, ridge, rate: [rate], texts: [`yours: ${si(rate, unit)}`] });
  const mine = ridge > 0 ? [roof(true, bytes, "B/s"), roof(false, flop, "FLOP/s")] : [];
  return { roofs: [...roofs, ...mine], y: { ...y, domain: [low, high * (high / low) ** 0.12] } };
}

// -- a product's result: in tiles, whose edge can be dragged, and its blocks in waves ------------------------------------------

function tiles(state, top) {
  const { scene, width, narrow, place, glide } = state;
  if (!scene.tiles) return 0;
  const { slots, at } = scene.tiles, none = [scene.x.at[state.at[scene.x.along]], 0, 0, 0, 0, 0];
  const [n, across, down, wide, tall, blocks] = at[place] ?? none;
  const { left, inner } = state.along, layer = state.layer("tiles"), high = 128, first = top + 40, over = Math.max(across * wide - n, 0);
  const x = scaleLinear().domain(scene.x.domain).range([left, left + inner]).clamp(true); // as above, so that the edge stands below the point
  const boxes = (name, shapes) => glide(layer.selectAll(`rect.${name}`).data(shapes).join("rect").attr("class", name).attr("y", (d) => d[1]).attr("height", (d) => d[3]))
    .attr("x", (d) => d[0]).attr("width", (d) => Math.max(d[2], 0));
  boxes("result", [[left, first, x(n) - left, high]]);
  boxes("over", [[x(n), first, x(n + over) - x(n), high]]);
  const cuts = Array.from({ length: wide + 1 }, (_, i) => `M${x(i * across)},${first}v${high}`);
  const rows = Array.from({ length: wide && tall + 1 }, (_, i) => `M${left},${first + (i * high) / tall}H${x(n + over)}`);
  layer.selectAll("path.grid").data([[...cuts, ...rows].join("")]).join("path").attr("class", "grid").attr("d", (d) => d);
  glide(layer.selectAll("path.edge").data([0]).join("path").attr("class", "edge")).attr("d", `M${x(n)},${first - 6}v${high + 12}m-5,-${high / 2 + 12}v12m10,-12v12`);

  const waves = Math.ceil(blocks / slots), foot = first + high + 40, step = Math.min(18, 108 / Math.max(waves, 1));
  const wave = Array.from({ length: waves }, (_, i) => [left, foot + step * i, inner, 0.78 * step, Math.min(1, blocks / slots - i)]);
  boxes("idle", wave);
  boxes("busy", wave.map(([start, y, long, thick, share]) => [start, y, long * share, thick]));
  const spare = over ? `, ${over} columns too wide` : "", several = waves > 1 ? "s" : "";
  const texts = [[first - 14, wide ? `${narrow ? "" : "the result: "}${wide * tall} tiles of ${down} × ${across}${spare}` : "no tiles: a kernel for one column"],
    [foot - 10, waves ? `${blocks} blocks in ${waves} wave${several} of ${slots} multiprocessors` : ""]];
  layer.selectAll("text").data(texts).join("text").attr("x", left).attr("y", (d) => d[0]).text((d) => d[1]);
  const go = (event) => {
    const from = event.currentTarget.ownerSVGElement.getBoundingClientRect();
    state.move(scene.x.along, nearest(scene.x.at, x.invert(((event.clientX - from.left) * width) / from.width)));
  };
  layer.selectAll("rect.grip").data([0]).join("rect").attr("class", "grip").attr("x", left).attr("y", first).attr("width", inner).attr("height", high)
    .on("pointerdown", (event) => { event.currentTarget.setPointerCapture(event.pointerId); go(event); }).on("pointermove", (event) => event.buttons && go(event));
  return foot + 112 - top;
}

// -- a stack: one whole, and each of its parts in its place -----------------------------------------------------------------

function stack(state, top) {
  const { scene, width, narrow, place, glide } = state;
  if (!scene.parts) return 0;
  const left = Math.max(...scene.parts.map((d) => wide(`★ you: ${d.label}`, 13, 700))) + 12, right = 12, inner = width - left - right;
  const others = sharing(state), limits = (scene.rules ?? []).map((rule) => ({ label: rule.label, value: rule.at[place] })).filter((rule) => rule.value);
  const longest = Math.max(...others.map((each) => scene.totals[each.place][0]), ...limits.map((rule) => 1.02 * rule.value));
  const x = scaleLinear().domain([0, longest]).range([left, left + inner]);
  const high = narrow ? 46 : 54, row = 30, first = top + 26 + 17 * (Math.max(others.length - (narrow ? 1 : 2), 0) + limits.length), foot = first + high + 14 + row * scene.parts.length;
  const whole = scene.totals[place][0];
  const ticks = x.ticks(narrow ? 3 : 5);
  glide(state.layer("axis x").attr("transform", `translate(0,${foot})`))
    .call(axisBottom(x).tickValues(ticks).tickFormat((v) => si(v, scene.x.unit)).tickSizeOuter(0).tickSize(-(foot - first)).tickPadding(8));
  const placed = scene.parts.map((d) => ({ d, start: d.at[place][0], size: d.at[place][1], share: whole ? d.at[place][1] / whole : 0 }));

  const ghosts = others.filter((each) => each.place !== place).map((each) => ({ ...each, size: scene.totals[each.place][0] }));
  const layer = state.layer("stack").classed("full", !!scene.full?.[place]);
  layer.selectAll("path.limit").data(limits).join("path").attr("class", "limit").attr("d", (rule) => `M${x(rule.value)},${first - 9}V${foot}`);
  layer.selectAll("text.limit").data(limits).join("text").attr("class", "limit").attr("text-anchor", "end").attr("x", (rule) => x(rule.value)).attr("y", first - 9 - 17 * Math.max(ghosts.length, 1)).text((rule) => `${rule.label}: ${si(rule.value, scene.x.unit)}`);
  glide(state.layer("ghosts").selectAll("rect.ghost").data(ghosts).join("rect").attr("class", (d) => `ghost${d.size < whole ? " inside" : ""}`).attr("x", left).attr("y", first).attr("height", high))
    .attr("width", (d) => Math.max(x(d.size) - left, 0));
  const segment = (selection) => glide(selection).attr("x", (d) => x(d.start)).attr("width", (d) => Math.max(x(d.start + d.size) - x(d.start), d.size ? 0.75 : 0));
  segment(layer.selectAll("rect.whole").data(placed, (d) => d.d.name).join("rect").attr("class", (d) => `whole hue-${d.d.hue}`).attr("y", first).attr("height", high));
  const fits = (d) => x(d.start + d.size) - x(d.start) > wide(d.d.label, 15, 600) + 12;
  glide(layer.selectAll("text.word").data(placed, (d) => d.d.name).join("text").attr("class", (d) => `word on-${d.d.hue}`)
    .attr("y", first + high / 2).attr("dy", "0.35em").text((d) => d.d.label).classed("hidden", (d) => !fits(d)))
    .attr("x", (d) => (x(d.start) + x(d.start + d.size)) / 2);
  const across = scene.sliders[scene.across], called = (text) => (Number.isNaN(+text) ? text : `${across.title} ${text}`), whose = across ? `${called(across.texts[state.at[scene.across]])}: ` : "";
  const total = layer.selectAll("text.total").data([`${whose}${scene.totals[place][1]}`]).join("text");
  total.attr("class", "total").attr("y", first - 9 - (narrow ? 17 * ghosts.length : 0)).attr("x", left).text((d) => d);
  const other = layer.selectAll("text.other").data(ghosts.sort((a, b) => b.size - a.size)).join("text").attr("class", "other").attr("text-anchor", narrow ? "start" : "end");
  other.attr("x", narrow ? left : left + inner).attr("y", (_, i) => first - 9 - 17 * i).text((d) => `${called(d.text)}: ${scene.totals[d.place][1]}`); // the longest nearest

  const at = (_, i) => first + high + 14 + row * i;
  segment(layer.selectAll("rect.part").data(placed, (d) => d.d.name).join("rect").attr("class", (d) => `part hue-${d.d.hue}`).attr("y", at).attr("height", row - 12));
  const mine = scene.guess?.part && place === scene.guess.place ? scene.guess.value : null;
  layer.selectAll("text.name").data(placed, (d) => d.d.name).join("text").attr("class", (d) => `name ink-${d.d.hue}`)
    .attr("x", left - 10).attr("text-anchor", "end").attr("y", (d, i) => at(d, i) + 14).text((d) => `${d.d.name === mine ? "★ you: " : ""}${d.d.label}`);
  const told = (d) => `${si(d.size, scene.x.unit)}, ${si(d.share, "share")}`;
  const beyond = (d) => x(d.start + d.size) + wide(told(d)) + 10 < left + inner; // else the value stands before its bar, or in it
  const before = (d) => x(d.start) - left > wide(told(d)) + 12;
  glide(layer.selectAll("text.size").data(placed, (d) => d.d.name).join("text").attr("class", (d) => `size ${beyond(d) || before(d) ? "" : `on-${d.d.hue}`}`)
    .attr("text-anchor", (d) => (beyond(d) ? "start" : "end")).attr("y", (d, i) => at(d, i) + 14).text(told))
    .attr("x", (d) => (beyond(d) ? x(d.start + d.size) + 8 : before(d) ? x(d.start) - 8 : x(d.start + d.size) - 8));
  return foot + 30 - top;
}

/** The places that share an axis with this one: those of the slider `across`, of more than two those of the same name, as `forward` and
    `forward, as a graph`. */
function sharing({ scene, at, place }) {
  const slider = scene.sliders[scene.across];
  if (!slider) return [{ text: "", place }];
  const head = (text) => slider.texts.length > 2 && text.split(", ")[0], here = head(slider.texts[at[scene.across]]);
  return slider.texts.map((text, i) => ({ text, place: placeOf({ scene, at: at.with(scene.across, i) }) })).filter(({ text }) => head(text) === here);
}

// -- a timeline: what ran when -------------------------------------------------------------------------------------------------

function timeline(state, top) {
  const { scene, width, narrow, place, glide } = state;
  if (!scene.rows?.length) return 0; // nothing was traced yet
  const left = Math.max(...scene.rows.map((d) => wide(d.label, 12.5, 700))) + 16, inner = width - left - 12;
  const high = scene.rows.length > 1 ? 34 : 52, step = high + 12, first = top + 24;
  const x = scaleLinear().domain([0, scene.windows[place]]).range([left, left + inner]);
  const foot = first + step * scene.rows.length - 8;
  glide(state.layer("axis when").attr("transform", `translate(0,${foot})`))
    .call(axisBottom(x).tickValues(x.ticks(narrow ? 3 : 6)).tickFormat((v) => si(v, "s")).tickSizeOuter(0).tickSize(5));
  const layer = state.layer("timeline");
  const row = (_, i) => first + step * i;
  layer.selectAll("text.row").data(scene.rows).join("text").attr("class", "row").attr("x", left - 10).attr("text-anchor", "end")
    .attr("y", (d, i) => row(d, i) + high / 2).attr("dy", "0.35em").text((d) => d.label);
  glide(layer.selectAll("rect.gap").data(scene.rows).join("rect").attr("class", (d) => `gap hue-${d.gap ?? "none"}`).attr("x", left).attr("y", row).attr("height", high))
    .attr("width", (d) => (d.until ? x(d.until[place]) - left : inner)); // a call that is over waits for nothing
  const spans = scene.rows.flatMap((d, i) => d.at[place].map(([start, size, hue, label], k) => ({ d, i, k, start, size, hue: hue ?? d.hue, label })));
  const key = (d) => `${d.i} ${d.k}`;
  const outside = left + inner + 40; // those that come in by a toggle come from the right, where they were before
  const put = (enter) => enter.append("rect").attr("x", outside).attr("width", 2);
  const clip = `${state.id}-clip`;
  layer.selectAll("clipPath").data([0]).join("clipPath").attr("id", clip).selectAll("rect").data([0]).join("rect")
    .attr("x", left).attr("y", first).attr("width", inner).attr("height", foot - first);
  const inside = layer.selectAll("g.spans").data([0]).join("g").attr("class", "spans").attr("clip-path", `url(#${clip})`);
  const long = (d) => Math.max(x(d.size) - left - (x(d.size) - left > 6 ? 1 : 0), 1);
  const arrows = (scene.arrows?.[place] ?? []).map(([from, start, to, end]) => ({ x1: x(start), y1: first + step * from + high, x2: x(end), y2: first + step * to }));
  glide(inside.selectAll("path.arrow").data(arrows).join("path").attr("class", "arrow"))
    .attr("d", (d) => `M${d.x1},${d.y1}L${d.x2},${d.y2}m-3,-5l3,5l3,-5`);
  const laid = (name, height) => glide(inside.selectAll(`rect.${name}`).data(spans, key)
    .join(put, undefined, (exit) => glide(exit).attr("x", outside).remove()).attr("class", (d) => `${name} hue-${name === "done" ? "compute" : d.hue}`))
    .attr("x", (d) => x(d.start)).attr("width", long).attr("y", (d) => row(d, d.i) + high - height(d)).attr("height", height);
  laid("span", () => high);
  const named = spans.filter((d) => d.label && x(d.size) - left > wide(d.label) + 8);
  glide(layer.selectAll("text.span-name").data(named, key).join("text").attr("class", (d) => `span-name on-${d.hue}`).attr("text-anchor", "middle").attr("dy", "0.35em")
    .attr("y", (d) => row(d, d.i) + high / 2).text((d) => d.label)).attr("x", (d) => x(d.start + d.size / 2));
  const gap = (d, i) => { // in the middle of the first gap, where it is long enough
    if (!d.at[place].length) return { text: "", x: left, y: row(d, i) };
    const [[start, size], next] = d.at[place], from = x(start + size), to = next ? x(next[0]) : left + inner;
    return { text: (d.between ?? []).find((text) => to - from > wide(text, 12.5, 600) + 6) ?? "", x: (from + to) / 2, y: row(d, i) + high / 2 };
  };
  layer.selectAll("text.between-text").data(scene.rows.map(gap)).join("text").attr("class", "between-text").attr("text-anchor", "middle")
    .attr("y", (d) => d.y).attr("dy", "0.35em").attr("x", (d) => d.x).text((d) => d.text);
  return foot + 34 - top;
}

// -- bars: some values side by side ----------------------------------------------------------------------------------------------

function bars(state, top) {
  const { scene, width, narrow, place, glide } = state;
  if (!scene.bars) return 0;
  const longest = Math.max(...scene.bars.map((d) => wide(d.label, 13, 700))) + 14;
  const left = narrow ? 24 : longest, inner = width - left - 18 - Math.max(40, ...scene.bars.map((d) => wide(d.at[place]?.[4] ?? "", 13, 700))), row = narrow ? 46 : 34, head = narrow ? 18 : 0, first = top + (scene.rules?.length ? 24 : 8);
  const x = (scene.y.scale === "log" ? scaleLog() : scaleLinear()).domain(scene.y.domain).range([left, left + inner]);
  const foot = first + row * scene.bars.length;
  const ticks = narrow ? scene.y.few : scene.y.ticks;
  glide(state.layer("axis share").attr("transform", `translate(0,${foot})`))
    .call(axisBottom(x).tickValues(ticks.map(([v]) => v)).tickFormat((v) => ticks.find(([t]) => t === v)?.[1]).tickSizeOuter(0).tickSize(-(foot - first)).tickPadding(8));
  const layer = state.layer("bars"), here = (d) => d.at[place];
  const at = (d, i) => first + row * i + head;
  layer.selectAll("text.name").data(scene.bars).join("text").attr("class", (d) => `name ink-${d.hue}`)
    .attr("x", narrow ? left : left - 12).attr("text-anchor", narrow ? "start" : "end").attr("y", (d, i) => at(d, i) + (narrow ? -4 : 17)).text((d) => d.label);
  layer.selectAll("rect.track").data(scene.bars).join("rect").attr("class", "track").attr("x", left).attr("width", inner).attr("y", at).attr("height", 24);
  const log = scene.y.scale === "log", from = !log ? left : scene.y.unit === "x" ? x(1) : null; // there a length says nothing, but of a factor: dots
  const there = scene.bars.map((d, i) => ({ d, i, hue: d.hue, row: here(d) })).filter((bar) => bar.row), key = (bar) => bar.d.name;
  const middle = (bar) => at(bar.d, bar.i) + 12;
  glide(layer.selectAll("circle.dot").data(from === null ? there : [], key).join("circle").attr("class", (bar) => `dot hue-${bar.hue}`).attr("r", 6).attr("cy", middle))
    .attr("cx", (bar) => x(bar.row[0]));
  glide(layer.selectAll("rect.bar").data(from === null ? [] : there, key).join("rect").attr("class", (bar) => `bar hue-${bar.hue}`).attr("y", (bar) => at(bar.d, bar.i)).attr("height", 24))
    .attr("x", (bar) => Math.min(from, x(bar.row[0]))).attr("width", (bar) => Math.max(Math.abs(x(bar.row[0]) - from), 1.5));
  glide(layer.selectAll("line.interval").data(there, key).join("line").attr("class", "interval").attr("y1", middle).attr("y2", middle))
    .attr("x1", (bar) => x(bar.row[1])).attr("x2", (bar) => x(bar.row[2]));
  glide(layer.selectAll("text.value").data(there, key).join("text").attr("class", (bar) => `value ink-${bar.hue}`).attr("y", (bar) => middle(bar) + 5).text((bar) => bar.row[4]))
    .attr("x", (bar) => x(bar.row[2]) + (from === null ? 12 : 8));
  const absent = scene.bars.map((d, i) => ({ d, i })).filter((bar) => !here(bar.d));
  layer.selectAll("text.absent").data(absent, key).join("text").attr("class", "absent").attr("x", left + 8).attr("y", (bar) => middle(bar) + 5).text("not measured");
  const rules = layer.selectAll("g.rule").data((scene.rules ?? []).filter((d) => d.at[place] !== null)).join((enter) => {
    const g = enter.append("g").attr("class", "rule");
    g.append("line");
    g.append("text");
    return g;
  });
  rules.select("line").attr("y1", first - 18).attr("y2", foot);
  const ends = (d) => x(d.at[place]) > wide(d.label, 12) + 8;
  rules.select("text").attr("y", first - 8).attr("text-anchor", (d) => (ends(d) ? "end" : "start")).attr("dx", (d) => (ends(d) ? -5 : 5)).text((d) => d.label);
  glide(rules).attr("transform", (d) => `translate(${x(d.at[place])},0)`);
  return foot + 30 - top;
}

// -- what should take how long ----------------------------------------------------------------------------------------------

function foretell(into, { scene, place, predicting }) {
  const shown = predicting && scene.foretold ? [scene.foretold] : [];
  const made = into.attr("tabindex", shown.length ? 0 : null).selectAll("table").data(shown).join((enter) => {
    const table = enter.append("table");
    table.append("caption");
    table.append("thead").append("tr");
    table.append("tbody");
    return table;
  });
  made.select("caption").text((d) => d.origin);
  made.select("thead tr").selectAll("th").data((d) => d.head).join("th").attr("scope", "col").text((d) => d);
  made.select("tbody").selectAll("tr").data((d) => d.at[place]).join("tr").selectAll("td").data((d) => d).join("td").text((d) => d);
}

// -- the table: every number, with its interval ------------------------------------------------------------------------------------

function tabulate(into, state) {
  const { scene, place } = state;
  const head = ["value of", "median", "95 % interval", "n"];
  let rows = [];
  if (scene.lines) {
    const cut = placeOf(state, scene.x.along), texts = scene.sliders[scene.x.along].texts;
    rows = scene.lines.filter((d) => !d.kind || d.kind === "guide" || state.predicting).flatMap((d) => (d.cuts[cut] ?? []).map(([i, , y, low, high, n]) => ({
      here: i === state.at[scene.x.along], cells: [`${d.kind === "predicted" ? "PREDICTED " : ""}${d.label}, ${texts[i]}`, si(y, scene.y.unit), n ? span(low, high, scene.y.unit) : "", n || ""] })));
  }
  for (const d of scene.parts ?? []) {
    const [, size, low, high] = d.at[place];
    rows.push({ cells: [d.label, si(size, scene.x.unit), span(low, high, scene.x.unit), scene.n[place]] });
  }
  for (const d of (scene.bars ?? []).filter((each) => each.at[place])) rows.push({ cells: [d.label, d.at[place][4], span(d.at[place][1], d.at[place][2], scene.y.unit), d.at[place][3]] });
  const table = into.selectAll("table").data([0]).join((enter) => {
    const made = enter.append("table");
    made.append("thead").append("tr").selectAll("th").data(head).join("th").attr("scope", "col").text((d) => d);
    made.append("tbody");
    return made;
  });
  const body = table.select("tbody").selectAll("tr").data(rows).join("tr").attr("class", (d) => (d.here ? "here" : null));
  body.selectAll("th").data((d) => d.cells.slice(0, 1)).join("th").attr("scope", "row").text((d) => d);
  body.selectAll("td").data((d) => d.cells.slice(1)).join("td").text((d) => d);
}
