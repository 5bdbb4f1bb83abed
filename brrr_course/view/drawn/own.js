// The reader's own GPU in a figure: what this browser has measured of it once, as further lines of every scene that knows such work.
//
// `scene.yours` says which of its times belong there: the fixed axes' values (`at`), the sliders' (`values`), the amount whose rate is shown
// (`per`), and of each line the variant, the time, the line that it stands beside, how it reads, and the variant that it is a speed-up over.
// `asked` says what the reader guessed of which line, over which other one and place: so that one hears it of the own GPU too.

import { placeOf, si } from "./numbers.js";
import { measure, result } from "./yours.js";

export { measure, SIZES } from "./yours.js";

const KEPT = "brrr-yours", UNENDED = "brrr-yours-unended", ROOM = 1.3; // above and below, as a factor
const SEND = "Copy what to send", TAKEN = "Measuring did not end here the last time.";

/** What was measured here before; nothing where the browser keeps nothing, as in a private window. */
export function remembered(key = KEPT) {
  try {
    return JSON.parse(localStorage.getItem(key));
  } catch {
    return null;
  }
}

function write(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch { /* then it lasts as long as the page */ }
}

function remember(found) {
  write(KEPT, found);
  document.dispatchEvent(new CustomEvent(KEPT, { detail: found }));
}

/** The scene's axes with room for what was measured here, and that as lines. */
export function beside(scene, found) {
  const lines = scene.yours && found ? ownLines(scene, found) : [];
  const heights = lines.flatMap((line) => line.cuts.flat().map((row) => row[2]));
  return { lines, y: wider(scene.y, heights), all: scene.all && wider(scene.all, heights), badge: lines.length ? `Yours: ${nameOf(found)}` : "" };
}

export const nameOf = ({ device }) => [[device.vendor, device.architecture].filter(Boolean).join(" ") || "a GPU without a name", device.browser, device.date].join(" · ");

function ownLines(scene, found) {
  const { sliders, yours, x } = scene, places = sliders.reduce((product, slider, i) => product * (i === x.along ? 1 : slider.texts.length), 1);
  const measured = (variant, field) => found.rows.filter((each) => each.experiment === scene.name && each.variant === variant && each.times[field]);
  return yours.lines.map(([variant, field, of, short, label, base]) => {
    const bases = new Map(measured(base, field).map((row) => [JSON.stringify(row.point), row.times[field]])); // what is measured of both has a speed-up
    const cuts = Array.from({ length: places }, () => []), rows = measured(variant, field).filter((row) => !base || bases.has(JSON.stringify(row.point)));
    // A size that was measured alone stands beside every other, and is told; another type of number is another thing.
    const alone = (name) => typeof rows[0].point[name] === "number" && rows.every((each) => each.point[name] === rows[0].point[name]);
    const differs = (name) => alone(name) && rows[0].point[name] !== yours.at[name], names = [...sliders.filter((_, i) => i !== x.along).map(({ name }) => name), ...Object.keys(yours.at)];
    const others = rows.length ? names.filter(differs).map((name) => `, at ${said(name, sized(rows[0].point[name]))}`).join("") : "";
    for (const row of rows.filter(({ point }) => Object.entries(yours.at).every(([name, value]) => point[name] === value || alone(name)))) {
      const stands = sliders.map(({ name, texts }, i) => (i !== x.along && alone(name) ? texts.map((_, k) => k) : [yours.values[name].indexOf(row.point[name])]));
      for (const at of stands.reduce((all, some) => all.flatMap((head) => some.map((k) => [...head, k])), [[]])) {
        if (at.includes(-1)) continue;
        const cut = placeOf({ scene, at }, x.along), along = x.at[cut]?.length ? x.at[cut] : x.at;
        cuts[cut].push([at[x.along], along[at[x.along]], ...heights(row, field, yours.per, bases.get(JSON.stringify(row.point)))]);
      }
    }
    for (const cut of cuts) cut.sort((a, b) => a[0] - b[0]);
    return { name: `yours ${of}`, label: label + others, short: short + others, hue: "yours", others, cuts };
  }).filter((line) => line.cuts.some((cut) => cut.length));
}

/** What was guessed, of the reader's own GPU where the sliders stand; nothing where that was not measured. */
export function answer({ scene, at }) {
  const { line, base, over, unit, inverse } = scene.yours.asked ?? {}, { along } = scene.x;
  const drawn = (of) => scene.lines.find(({ name }) => name === `yours ${of}`);
  const value = (of, stands) => drawn(of)?.cuts[placeOf({ scene, at: stands }, along)].find(([place]) => place === stands[along])?.[2];
  const here = value(line, at), there = base ? value(base, at.map((place, i) => over[i] ?? place)) : 1, found = base && inverse ? there / here : here / there;
  return found > 0 ? ` On your own GPU${drawn(line).others}: ${si(found, unit)}.` : "";
}

const said = (name, value) => (name.endsWith("s") ? `${value} ${name}` : `${name} ${value}`); // as an Axis says it
const sized = (value) => (value >= 2 ** 17 && Number.isInteger(Math.log2(value)) ? `2${[...String(Math.log2(value))].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("")}` : value);

/** Median, low, high and count: of the time, of the amount a second, or of how many times as fast as its base it is. */
function heights(row, field, per, base) {
  const [median, low, high, n] = row.times[field];
  if (base) return [base[0] / median, base[1] / high, base[2] / low, n];
  const amount = row[per] ?? row.point[per]; // an axis's value, too
  return per ? [amount / median, amount / high, amount / low, n] : [median, low, high, n];
}

function wider(axis, heights) {
  if (!heights.length) return axis;
  const [low, high] = axis.domain, log = axis.scale === "log";
  const domain = [log ? Math.min(low, Math.min(...heights) / ROOM) : low, Math.max(high, Math.max(...heights) * (log ? ROOM : 1.05))];
  if (!log) return { ...axis, domain };
  const more = [];
  for (let power = Math.ceil(Math.log10(domain[0])); 10 ** power <= domain[1]; power++) {
    const value = +`1e${power}`;
    if (value < low || value > high) more.push([value, si(value, axis.unit)]);
  }
  const ticks = [...axis.ticks, ...more].sort((a, b) => a[0] - b[0]);
  return { ...axis, domain, ticks, few: ticks.filter((_, i) => i % (1 + Math.floor(ticks.length / 5)) === 0) };
}

/** A button that measures, with what it says; `measured` is called with what was found. Figures of one page share the result. A second button
    copies what there is, also where measuring fails, never ends or has the page taken away; nothing is sent by itself. */
export function offer(root, measured = () => {}) {
  const box = root.append("div").attr("class", "own"), press = box.append("button").attr("type", "button"), told = box.append("span").attr("aria-live", "polite");
  const name = () => (remembered() ? "Measure my GPU again" : "Measure my own GPU"), before = remembered(UNENDED);
  let running = false, stopped = false, lab;
  const found = () => ({ agent: navigator.userAgent, shown: told.text(), ...result(lab) });
  const copy = box.append("button").attr("type", "button").attr("hidden", before ? null : true).text(SEND).on("click", async () => {
    const text = JSON.stringify(lab ? found() : before);
    try {
      await navigator.clipboard.writeText(text);
      copy.text("Copied: now paste it into an issue");
    } catch { // a browser lets no page by http do that, nor every frame
      box.selectAll("textarea").data([text]).join("textarea").attr("readonly", true).attr("aria-label", SEND).property("value", text).node().select();
    }
  });
  if (before) told.text(TAKEN);
  const fold = box.append("details").attr("hidden", true), details = (all) => fold.attr("hidden", all.length ? null : true).selectAll("p").data(all).join("p").text((each) => each);
  fold.append("summary").text("Details");
  press.text(name()).on("click", async () => {
    if (running) return void (stopped = true);
    [running, stopped, lab] = [true, false, {}];
    press.text("Stop");
    details([]);
    copy.text(SEND).attr("hidden", null);
    const progress = ({ share, experiment }) => {
      told.text(`${Math.round(100 * share)} %, ${experiment.replace("_", " ")}`);
      write(UNENDED, found());
    };
    try {
      const all = await measure({ progress, stopped: () => stopped, lab });
      remember(all);
      measured(all);
      told.text(`${all.ended ? `${all.ended} ` : ""}${all.device.software ? "A processor that plays a GPU" : "Your GPU"} was measured at ${all.rows.length} points; ${all.left || "none"} ${all.left === 1 ? "was" : "were"} left out.`);
      details(all.said.filter((each) => each !== all.ended));
    } catch (error) {
      told.text(error.message);
    }
    running = false;
    write(UNENDED, null);
    press.text(name());
  });
}

export const onMeasured = (react) => {
  const call = ({ detail }) => react(detail);
  document.addEventListener(KEPT, call);
  return () => document.removeEventListener(KEPT, call);
};
