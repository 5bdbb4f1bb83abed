// Shows what Python drew and said: picks pieces, moves marks, and puts a text line together. It draws nothing itself.
const packed = Uint8Array.from(atob(document.querySelector("#data").textContent), c => c.charCodeAt(0));
const D = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).json();

const $ = (tag, props = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) key in made ? made[key] = value : made.setAttribute(key, value);
  made.append(...children);
  return made;
};
const escaped = text => text.replace(/[&<>"]/g, c => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})[c]);
const piece = n => n === null ? "" : D.pieces[n];
const pieces = all => all.map(piece).join("");
const filled = (text, fill) => text.replace(/\ue000(.*?)\ue001/g, (_, what) => fill(...what.split("|")));

// -- numbers, as brrr.core.units writes them
// Intl rounds a text on the digits that a person reads, halves away from zero; of a number it would see the binary value.
const formatted = (text, options) => new Intl.NumberFormat("en", {useGrouping: false, ...options}).format(text);
const plain = (mantissa, power) => formatted(`${mantissa}e${power}`, {maximumSignificantDigits: 21});
// Mantissa and power of ten, both as texts.
const rounded = (value, digits) => formatted(String(value), {notation: "scientific", maximumSignificantDigits: digits}).split("E");
function quantity(value, unit) {
  const [mantissa, power] = rounded(value, 3);
  const [lowest, highest] = D.counts.includes(unit) ? [0, 30] : D.ranges[unit] ?? [-30, 30];
  const prefix = Math.min(Math.max(3 * Math.floor(power / 3), lowest), highest);
  return `${plain(mantissa, power - prefix)}${unit && unit !== "x" ? " " : ""}${D.prefixes[prefix]}${unit}`;
}
function general(value, digits = 6, most = digits) {  // Python's g
  const [mantissa, power] = rounded(value, digits);
  if (power >= -4 && power < most) return plain(mantissa, power);
  return `${mantissa}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
}
function repr(value) {
  const whole = Number.isInteger(value);
  if (whole && Math.abs(value) < 1e15) return String(value);
  return general(value, 17, 16) + (whole && Math.abs(value) < 1e16 ? ".0" : "");
}
const written = (value, kind) => kind === "" ? repr(value) : kind === "g" ? general(value) : kind === ".4g" ? general(value, 4) : quantity(value, kind);

const times = factor => quantity(factor, "x").replace("x", "×");

// -- views
const table = (header, rows, caption) => `<table tabindex="0"><caption>${escaped(caption)}</caption><thead><tr>${header.map(h =>
  `<th scope="col">${escaped(h)}</th>`).join("")}</tr></thead><tbody>${rows.map(row => `<tr>${row.map(cell =>
  `<td>${cell.html ?? escaped(cell)}</td>`).join("")}</tr>`).join("")}</tbody></table>`;
const at = (x, y, inner, scale = 1) => inner && `<g transform="translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(1 ${scale.toFixed(4)})">${inner}</g>`;

// -- on a phone a figure with axes is drawn narrower, its words as large as before; a drawing grows at a tap
const PHONE = matchMedia("screen and (max-width: 600px)"), WIDE = 547.2, NARROW = 330, SMALL = 40;  // in points
function squeezed(svg, edge, top) {
  const along = x => x <= edge ? x : edge + (x - edge) * (NARROW - edge) / (WIDE - edge);
  const box = svg.viewBox.baseVal;
  svg.setAttribute("viewBox", `0 ${top} ${NARROW} ${box.height - top}`);
  const whole = [], lines = {};  // legends keep their shape; lines of a text of several, by their middles
  const walk = (parent, dx) => [...parent.children].forEach(each => {
    const turn = each.getAttribute("transform") ?? "", x = each.getAttribute("x");
    if (each.matches(".legend")) whole.push(each);
    else if (each.tagName === "g") {
      walk(each, dx + +(/translate\(([-\d.]+)/.exec(turn)?.[1] ?? 0));
      each.setAttribute("transform", turn.replace(/translate\([-\d.]+/, "translate(0"));
    } else if (each.tagName === "path") {
      const d = each.getAttribute("d"), xs = [...d.matchAll(/([-\d.]+) [-\d.]+/g)].map(([, left]) => +left + dx);
      const [low, high] = [Math.min(...xs), Math.max(...xs)], mid = (low + high) / 2;
      const bar = /^M[^LQ]+(L[^LQ]+){3}z$/.test(d);
      if (bar && high - low < 120 && each.getAttribute("fill") === "#ffffff") return each.remove();  // behind a word, which has moved
      const to = high - low < SMALL && d.endsWith("z") && !bar ? left => left + along(mid) - mid : along;
      each.setAttribute("d", d.replace(/([-\d.]+) ([-\d.]+)/g, (_, left, y) => `${to(+left + dx).toFixed(1)} ${y}`));
    } else if (/^translate\([-\d.]+ [-\d.]+\)$/.test(turn)) {
      const [left, y] = turn.match(/[-\d.]+/g), half = each.getBBox().width / 2, mid = Math.min(along(+left + dx + half), NARROW - 2 - half);
      each.setAttribute("transform", `translate(${(mid - half).toFixed(1)} ${y})`);
      (lines[Object.keys(lines).find(key => Math.abs(key - mid) < 1.5) ?? Math.round(mid)] ??= []).push({each, y, low: mid - half, high: mid + half});
    } else if (x !== null) {
      each.setAttribute("x", along(+x + dx).toFixed(1));
      each.setAttribute("transform", turn.replace(` ${x} `, ` ${each.getAttribute("x")} `));
    }
  });
  walk(svg, 0);
  const ends = {};
  for (const label of Object.values(lines))  // from left to right
    if (label.some(({y, low}) => low < ends[y])) label.forEach(({each}) => each.remove());
    else label.forEach(({y, high}) => { ends[y] = high + 3; });
  for (const legend of whole) {
    const {x, width} = legend.getBBox(), scale = Math.min(1, (NARROW - 4) / width), half = scale * width / 2;
    const middle = Math.min(Math.max(along(x + width / 2), half + 2), NARROW - 2 - half);
    legend.setAttribute("transform", `translate(${(middle - half - scale * x).toFixed(1)} 0) scale(${scale.toFixed(3)} 1)`);
  }
  let last = {};
  for (const text of svg.querySelectorAll(":scope > text, svg > g > text")) {  // none beyond the edge, no two ticks on each other
    const {x, y, width} = text.getBBox(), beyond = Math.max(2 - x, 0) || Math.min(NARROW - 2 - x - width, 0);
    if (text.getAttribute("transform")) continue;
    if (beyond) text.setAttribute("x", +text.getAttribute("x") + beyond);
    const tick = text.parentNode === svg && text.getAttribute("text-anchor") === "middle";
    if (tick && last.y === y && x < last.right) text.remove();
    else if (tick) last = {y, right: x + width + 3};
  }
  const chosen = svg.querySelector("g text[font-weight='700']")?.getBBox();  // lies on the ticks beside it
  for (const text of chosen ? svg.querySelectorAll(":scope > text") : []) {
    const {x, y, width} = text.getBBox();
    if (Math.abs(y - chosen.y) < 4 && x < chosen.x + chosen.width + 5 && x + width > chosen.x - 5) text.remove();
  }
}
const MIDDLE = 3.3, DESCENT = 2.2;  // from a text's middle to its baseline, and from there to its foot, in points
const [MEDIAN, VALUE, BESIDE, CELL, HEIGHT, PREDICTED] = [0, 1, 2, 3, 4, 5];  // what Python says of a line at a place

class View {
  constructor(place, data) {
    Object.assign(this, {place, data, index: data.sliders.map(slider => slider.at), on: (data.lines ?? []).map(line => line.on),
      held: new Set(), variant: 0, predicting: !!data.predicting, tabled: false});
    if (data.badge) place.append(this.badge = $("p", {className: "badge"}, data.badge));
    if (data.variants?.length > 1) place.append(this.chooser());
    this.sliders = data.sliders.map((slider, n) => this.slider(slider, n));
    this.text = $("p", {className: "said", role: "status", ariaLive: "polite"});
    this.rest = $("div");
    this.details = $("details", {hidden: true}, $("summary", {}, "Details"), this.rest);
    this.figure = $("div", {className: "figure", role: "img", ariaLabel: data.alt ?? "", onclick: () => this.figure.classList.toggle("large", PHONE.matches && !this.narrow && !this.figure.matches(".large"))});
    this.predicted = $("div", {className: "table"});
    this.table = $("div", {className: "table"});
    place.append(this.text, this.figure, this.predicted, this.lineSwitches(), this.otherSwitches(), this.details, this.table);
    this.show();
  }
  chooser() {
    const select = $("select", {onchange: () => {
      const to = this.now.to[+select.value];
      this.variant = +select.value;
      this.index[0] = this.data.variants[this.variant].states.indexOf(to);
      this.show();
    }}, ...this.data.variants.map((variant, n) => $("option", {value: n}, variant.label)));
    return $("label", {className: "slider"}, $("span", {}, "variant"), select);
  }
  slider(slider, n) {
    if (slider.values?.length === 2) return this.pair(slider, n);
    const input = $("input", {type: "range", min: 0, step: 1, oninput: () => { this.index[n] = +input.value; this.show(); }});
    const shown = $("output", {ariaHidden: "true"}), label = $("label", {className: "slider"}, $("span", {}, slider.title.split(" (")[0]), input, shown);
    if (slider.title) this.place.append(label);
    const set = values => {
      Object.assign(input, {max: values.length - 1, value: this.index[n], ariaValueText: values[this.index[n]]});
      shown.textContent = values[this.index[n]];
      label.hidden = values.length < 2 && !this.data.lines;
    };
    return {input, set};
  }
  pair(slider, n) {  // between two values there is nothing to slide along
    const name = `pair ${document.querySelectorAll(".pair").length}`;
    const inputs = slider.values.map((value, at) => $("input", {type: "radio", name, onchange: () => { this.index[n] = at; this.show(); }}));
    this.place.append($("div", {className: "slider pair", role: "radiogroup", ariaLabel: slider.title}, $("span", {}, slider.title.split(" (")[0]),
      ...inputs.map((input, at) => $("label", {}, input, slider.values[at]))));
    return {input: inputs, set: () => { inputs[this.index[n]].checked = true; }};
  }
  lineSwitches() {
    return $("div", {className: "switches"}, ...(this.data.lines ?? []).map((line, n) => {
      const mark = $("span", {className: "mark", ariaHidden: "true", style: `color: ${line.colour}`}, line.glyph);
      return this.toggle(line.on, on => {
        this.on[n] = on;
        if (on && !line.on) this.held.add(line.name);
      }, mark, line.label);
    }));
  }
  otherSwitches() {
    const {data} = this, made = $("div", {className: "switches"});
    if (data.predicts) made.append(this.toggle(this.predicting, on => { this.predicting = on; }, "Predictions"));
    if (data.lines || data.states[0].table) made.append(this.toggle(this.tabled, on => { this.tabled = on; }, "Data table"));
    return made;
  }
  toggle(checked, change, ...label) {
    const box = $("input", {type: "checkbox", checked, onchange: () => { change(box.checked); this.show(); }});
    return $("label", {}, box, ...label);
  }
  values(n) { return (this.data.variants?.[this.variant] ?? this.data.sliders[n]).values; }
  place_of(index, skipped = -1) {  // the number of a place of the sliders, but for the one that is skipped
    return this.data.sliders.reduce((found, slider, n) => n === skipped ? found : found * slider.values.length + index[n], 0);
  }
  get now() { return this.data.states[this.data.variants ? this.data.variants[this.variant].states[this.index[0]] : this.place_of(this.index)]; }
  get shown() { return this.data.lines.map((_, n) => n).filter(n => this.on[n]); }
  get here() { return this.data.said[this.place_of(this.index)]; }
  get along() { return this.data.sliders.findIndex(slider => slider.x); }
  get row() {  // what is said at all places along x
    return this.values(this.along).map((_, x) => this.place_of(this.index.with(this.along, x)));
  }
  get predicts() { return this.predicting && this.shown.some(n => this.data.lines[n].known); }
  go(name, value) {  // where it has no such place, it stays
    this.data.sliders.forEach((slider, n) => {
      const found = this.values(n).indexOf(value);
      if (slider.name === name && found >= 0) this.index[n] = found;
    });
    this.show();
  }
  show() {
    const {data} = this;
    this.sliders.forEach(({set}, n) => set(this.values(n)));
    const [frame, moving, said, rest] = data.form === "states" ? this.asState() : data.form === "bars" ? this.asBars() : this.asLines();
    const narrow = PHONE.matches && frame.edge > 0 && !data.variants;  // a timeline has words over all of its width
    this.figure.classList.toggle("narrow", narrow);
    if (frame !== this.frame || narrow || this.narrow) {
      this.figure.innerHTML = frame.height ? `<svg aria-hidden="true" viewBox="0 0 ${WIDE} ${frame.height}">${pieces(frame.still)}<g></g></svg>` : "";
      [this.frame, this.narrow] = [frame, narrow];
    }
    if (frame.height) this.figure.firstChild.lastChild.innerHTML = moving;
    if (narrow) squeezed(this.figure.firstChild, frame.edge, data.form === "states" ? 0 : frame.top - 12);
    this.text.innerHTML = said;
    this.rest.innerHTML = rest;
    this.details.hidden = !rest;
    if (data.lines) this.tables();
  }
  asState() {
    const state = this.now;
    this.figure.ariaLabel = this.data.alt ?? state.text;
    if (state.badge) this.badge.textContent = state.badge;
    this.table.innerHTML = this.tabled ? state.table : "";
    return [state, "", state.more ? `<b>${escaped(state.text)}</b>` : escaped(state.text), escaped(state.more ?? "")];
  }
  where() {
    return this.data.place.map(([name, still]) => {
      const n = this.data.sliders.findIndex(slider => slider.name === name);
      return `${name} ${n < 0 ? still : this.values(n)[this.index[n]]}`;
    }).join(", ");
  }
  said(drawn) {  // the verdict and the details; `drawn` are the lines that are seen in the figure
    const {data, here} = this, p = this.place_of(this.index), there = this.shown.filter(n => here[n][MEDIAN] !== null), lacking = this.shown.filter(n => !there.includes(n));
    const readings = [...there.map(n => [data.lines[n].label, here[n][VALUE], here[n][BESIDE]]), ...data.guides.map((guide, n) => [guide, data.guided[p][n], ""])]
      .filter(([, value]) => value).map(([label, value, beside]) => `${escaped(label)}: <b>${escaped(value)}</b>${escaped(beside)}`);
    const missed = [`Not recorded here: ${lacking.map(n => data.lines[n].label).join("; ")}.`, ...new Set(lacking.map(n => here[n][BESIDE]))].filter(Boolean).join(" ");
    const absent = this.shown.length ? lacking.length && missed : "No line is switched on.";
    const verdict = there.length ? [this.yours(), this.comparison(there)].filter(Boolean).join(" ") : absent;
    const drifted = drawn.map(n => data.lines[n]).reduce((a, b) => b.drift > a.drift ? b : a, {drift: 0, drifted: ""}).drifted;
    const remark = [there.length && absent, drifted, data.remark].filter(Boolean).join(" ");
    return [`<b>${escaped(verdict)}</b>`, `At ${escaped(this.where())}${readings.length ? ": " : ""}${readings.join("; ")}. ${escaped(remark)}`.trimEnd()];
  }
  comparison(there) {
    const {lines, relation, versus} = this.data, value = n => this.here[n][MEDIAN], largest = all => all.reduce((a, b) => value(b) > value(a) ? b : a);
    const sorted = there.toSorted((a, b) => value(a) - value(b)), side = n => ({name: lines[n].label, said: this.here[n]});
    const named = versus.map(each => this.sides(each)).filter(sides => sides.every(({said, on}) => on && said[MEDIAN] !== null));
    const pairs = named.length || there.length < 2 ? named : [[sorted.at(-1), sorted[0]].map(side)];
    if (relation && pairs.length) return `${pairs.map(pair => this.compared(pair)).join("; ")}.`;
    const based = relation ? [] : there.filter(n => this.here[n][BESIDE]), asked = versus.map(each => each.lines[0]).filter(n => based.includes(n));
    const told = asked.length ? asked : based.length ? [largest(based)] : there;
    return `${told.map(n => `${lines[n].label}: ${this.here[n][VALUE]}${this.here[n][BESIDE]}`).join("; ")}.`;
  }
  sides({lines, over}) {  // the two that a comparison is of, the second at other places of some sliders
    const there = over.reduce((index, [n, at]) => index.with(n, at), this.index);
    const where = index => over.map(([n]) => `, ${this.data.sliders[n].spots[index[n]]}`).join("");
    return [this.index, there].map((index, side) => ({name: this.data.lines[lines[side]].label + where(index), said: this.data.said[this.place_of(index)][lines[side]], on: this.on[lines[side]]}));
  }
  compared(sides) {  // the larger over the smaller, unless they hardly differ; only the value where both are the same
    const {relation, alike} = this.data, [small, large] = sides.toSorted((a, b) => a.said[MEDIAN] - b.said[MEDIAN]);
    if (small.name === large.name) return `${large.name}: ${large.said[VALUE]}${large.said[BESIDE]}`;
    const same = large.said[MEDIAN] < alike * small.said[MEDIAN], [most, least] = same ? sides : [large, small];
    const [factor, within] = same ? ["no difference,", ` (within ${quantity(100 * alike - 100, "%")})`] : [times(large.said[MEDIAN] / small.said[MEDIAN]), ""];
    return `${most.name}: ${factor} ${relation} ${this.besides(least.name, most.name)}${within}`;
  }
  besides(label, other) {  // without the parts that it begins with as the other one does
    const parts = label.split(", "), others = other.split(", "), differs = parts.findIndex((part, n) => n < others.length && part !== others[n]);
    return parts.slice(Math.max(differs, 0)).join(", ");
  }
  guessed() { return this.data.guessed && answered.get(this.data.guess); }
  yours() {  // how far the guess was off, where the sliders stand as they do for it
    const {guessed: found} = this.data, value = this.guessed();
    if (!value || found.measured === null || found.at.some((at, n) => at !== this.index[n])) return "";
    return `You said ${this.spoken(value)}, measured ${found.read}: ${distance(value, found.measured, D.guess[this.data.guess].unit)}.`;
  }
  spoken(value) { return quantity(value, D.guess[this.data.guess].unit).replace("x", "×"); }
  star(frame) {  // the guess as a star with what it says, where the other sliders stand as they do for it
    const {guessed: found, texts} = this.data, value = this.guessed();
    if (!value || found.at.some((at, n) => n !== this.along && at !== this.index[n])) return "";
    const [low, high] = frame.limits.map(Number), height = found.base === null ? value : found.inverse ? found.base / value : found.base * value;
    const share = Math.log(Math.min(Math.max(height, low), high) / low) / Math.log(high / low);
    const x = frame.xs[found.at[this.along]], y = frame.top + frame.inner * (1 - share), said = `you: ${this.spoken(value)}`;
    const points = Array.from({length: 10}, (_, n) => [n % 2 ? 2.5 : 6.5, Math.PI * n / 5]).map(([far, turn]) => `${(x + far * Math.sin(turn)).toFixed(1)} ${(y - far * Math.cos(turn)).toFixed(1)}`);
    const atLeft = x - frame.left - frame.margin < texts.left * frame.wide;
    const label = atLeft ? this.label(said, x, y - texts.aside - DESCENT, "start", texts.ink, "bold") : this.label(said, x - texts.aside, y + MIDDLE, "end", texts.ink, "bold");
    return `<path d="M${points.join("L")}z" fill="${texts.ink}" stroke="${texts.paper}"/>${label}`;
  }
  label(text, x, y, anchor, colour, weight = "normal") {
    return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}" font-size="9" font-weight="${weight}" fill="${colour}" stroke="${this.data.texts.paper}" stroke-width="3" paint-order="stroke">${escaped(text)}</text>`;
  }
  values_said(frame, x) {  // beside the marked points, one above the other
    const {texts, lines} = this.data, p = this.place_of(this.index), there = this.shown.filter(n => this.here[n][MEDIAN] !== null && !this.here[n][BESIDE].includes("above the limit"));
    if (frame.asides.length || there.length > texts.most) return "";
    const wide = texts.letter * Math.max(...there.map(n => this.here[n][VALUE].length)) / texts.parts, left = frame.xs[x] + texts.aside;
    const along = Array.from({length: texts.parts + 1}, (_, k) => left + k * wide), drawn = [...this.shown, ...[...this.data.guides.keys()].map(n => lines.length + n)];
    const places = this.beside(there.map(n => frame.ys[p][n] - frame.top), drawn.flatMap(n => this.heights(frame, n, along)), frame.inner);
    return there.map((n, k) => this.label(this.here[n][VALUE], left, places[k] + frame.top + MIDDLE, "start", lines[n].ink)).join("");
  }
  heights(frame, n, along) {  // of a line at some places along x, where it has any
    const points = this.row.map((s, k) => [frame.xs[k], frame.ys[s][n]]).filter(([, y]) => y !== null);
    return along.flatMap(x => {
      const k = points.findLastIndex(([right]) => right <= x), [from, to] = [points[k], points[k + 1]];
      return !from || (!to && from[0] < x) ? [] : [(to ? from[1] + (to[1] - from[1]) / (to[0] - from[0]) * (x - from[0]) : from[1]) - frame.top];
    });
  }
  beside(marks, taken, most) {  // as `beside` in brrr_course/view/canvas.py
    const {row, foot, clear, on, far} = this.data.texts, found = [...marks], order = [...marks.keys()].sort((a, b) => marks[a] - marks[b]);
    const steps = Array.from({length: 2 * far + 1}, (_, k) => k - far).sort((a, b) => Math.abs(a) - Math.abs(b));
    let least = row / 2;
    for (const n of order) {
      const cost = y => Math.abs(y - marks[n]) + on * taken.filter(each => Math.abs(y - each) < clear).length;
      found[n] = steps.map(step => Math.max(least, marks[n] + step)).reduce((a, b) => cost(b) < cost(a) ? b : a);
      least = found[n] + row;
    }
    order.toReversed().forEach((n, below) => { found[n] = Math.min(found[n], most - foot - below * row); });
    return found;
  }
  asBars() {
    const {data, shown, here} = this, frame = data.frames[shown.length], bars = data.bars[this.place_of(this.index)];
    const pitch = frame.inner / Math.max(shown.length, 1), usual = data.inner / data.lines.length;  // of the rows
    const down = (row, n, scale) => frame.top + (row + .5) * pitch - (data.top + (n + .5) * usual) * scale;
    const rows = (all, scale) => shown.map((n, row) => at(0, down(row, n, scale), piece(all[n]), scale)).join("");
    const grown = 1 + (frame.height - data.height) / (data.height - data.top);
    const moving = rows(bars.low, data.scaled ? pitch / usual : 1)
      + at(0, frame.top - data.top * grown, pieces(bars.rules), grown) + rows(bars.top, 1) + rows(data.names, 1);
    return [frame, moving, ...this.said(shown.filter(n => here[n][MEDIAN] !== null))];
  }
  columns(labels) {
    return Math.min(...labels.map(n => this.data.legend.entries[n].columns[labels.length > 8 ? 1 : 0]), 3);
  }
  asLines() {
    const {data, shown, row, here} = this, x = this.index[this.along], count = data.lines.length, p = this.place_of(this.index);
    const others = [...data.guides.keys(), ...(this.predicts ? [data.guides.length] : [])].map(n => count + n);
    const named = [...(data.few ? data.lines.keys() : shown), ...others], held = data.lines.filter(line => this.held.has(line.name));
    const frame = data.frames[`${data.held[held.map(line => line.name).join("|")]}|${Math.ceil(named.length / this.columns(named))}`];
    const cut = frame.cuts[this.place_of(this.index, this.along)], across = frame.xs[x] - frame.xs[0];
    const aside = n => frame.asides[shown.length]?.[shown.indexOf(n)] ?? 0;
    const drawn = shown.filter(n => row.some(s => data.said[s][n][MEDIAN] !== null));
    const moving = (PHONE.matches ? "" : this.legend(frame, [...shown, ...others])) + shown.map(n => this.wide(frame, n)).join("")
      + shown.map(n => at(aside(n), 0, piece(cut.lines[n]))).join("") + pieces(cut.guides) + (this.predicts ? this.foretold(cut) : "")
      + at(across, 0, piece(frame.cursor)) + piece(frame.chosen[x])
      + shown.filter(n => here[n][MEDIAN] !== null).map(n => at(across + aside(n), frame.ys[p][n] - frame.low, piece(frame.rings[n]))).join("")
      + this.star(frame) + this.values_said(frame, x) + (shown.length && !drawn.length ? piece(cut.message) : "");
    return [frame, moving, ...this.said(drawn)];
  }
  foretold(cut) {  // what should take as long is drawn once, in grey
    const groups = new Map();
    for (const n of this.shown.filter(n => cut.foretold[n] !== null)) {
      const heights = this.row.map(s => this.data.said[s][n][HEIGHT]).join("|");
      groups.set(heights, [...(groups.get(heights) ?? []), piece(cut.foretold[n])]);
    }
    return [...groups.values()].map(([first, ...more]) => more.length ? first.replace(/stroke="[^"]*"/, `stroke="${this.data.strokes.several}"`) : first).join("");
  }
  wide(frame, n) {  // below a line a wider stroke where lines that are drawn later lie on it
    const {said, strokes, lines} = this.data, later = this.shown.filter(m => m > n);
    const lies = (s, m) => said[s][m][MEDIAN] > 0 && said[s][n][MEDIAN] > 0 && Math.abs(frame.ys[s][m] - frame.ys[s][n]) < strokes.same * frame.inner;
    const points = this.row.map((s, x) => ({x: frame.xs[x], y: frame.ys[s][n], above: later.filter(m => lies(s, m)).length})).filter(({y}) => y !== null);
    const seen = points.map(({above}) => above <= strokes.most ? above : 0), found = seen.filter(Boolean);
    if (!found.length || frame.asides.length || frame.scattered) return "";
    const times = count => found.filter(each => each === count).length, usual = found.reduce((a, b) => times(b) > times(a) ? b : a);
    const path = points.map(({x, y}, k) => seen[k] ? `${seen[k - 1] ? "L" : "M"}${x} ${y}` : "").join("");
    return `<path d="${path}" fill="none" stroke="${lines[n].colour}" stroke-width="${strokes.width + strokes.wider * usual}" stroke-linecap="square"/>`;
  }
  legend(frame, labels) {
    const {legend} = this.data, {entries, pitch} = legend, columns = this.columns(labels), rows = Math.ceil(labels.length / columns);
    let inner = "", x = frame.left - legend.left, first = 0;
    for (let column = 0; column < columns; column++) {
      const here = labels.slice(first, first += Math.floor(labels.length / columns) + (column < labels.length % columns ? 1 : 0));
      here.forEach((n, row) => { inner += at(x, (entries.length - n - rows + row) * pitch + frame.top - legend.top, piece(entries[n].piece)); });
      x += Math.max(0, ...here.map(n => entries[n].wide));
    }
    return inner;
  }
  tables() {
    const {data, shown, here} = this;
    this.table.innerHTML = this.tabled ? this.dataTable() : "";
    const origin = data.origins[[...new Set(shown.map(n => data.lines[n].device))].join("|")] ?? "";
    const name = ({colour, glyph, label}) => ({html: `<span class="mark" style="color: ${colour}">${glyph}</span> ${escaped(label)}`});
    const rows = shown.map(n => [name(data.lines[n]), ...here[n].slice(PREDICTED)]);
    this.predicted.innerHTML = this.predicts ? table(["line", "PREDICTED", "bound", "measured", "over predicted"], rows, origin)
      : this.predicting ? `<p class="origin">${escaped(origin)}</p>` : "";
  }
  dataTable() {
    const {data, shown, here} = this, label = n => data.lines[n].label, p = this.place_of(this.index);
    let header, rows, start = "";
    if (data.form === "bars") {
      const there = shown.filter(n => here[n][MEDIAN] !== null), smallest = Math.min(...there.map(n => here[n][MEDIAN]));
      header = ["line", data.y, "over the smallest"];
      rows = [...there.map(n => [label(n), here[n][CELL], times(here[n][MEDIAN] / smallest)]),
        ...data.guides.map((guide, n) => [guide, data.guided[p][n], ""]).filter(each => each[1])];
      start = `${this.where()}. `;
    } else {
      const {row} = this, foretold = this.predicts ? shown.filter(n => row.some(s => data.said[s][n][HEIGHT])) : [];
      header = [data.sliders[this.along].name, ...shown.map(label), ...data.guides, ...foretold.map(n => `PREDICTED ${label(n)}`)];
      rows = row.map((s, x) => [this.values(this.along)[x], ...shown.map(n => data.said[s][n][CELL]), ...data.guided[s], ...foretold.map(n => data.said[s][n][HEIGHT])])
        .filter(each => each.slice(1, shown.length + 1).some(Boolean));
    }
    if (rows.flat().some(text => text.includes("above the limit"))) start = "Above the limit: an accounting error or a cache. " + start;
    return table(header, rows, start + data.caption);
  }
}

// -- what this browser keeps: guesses, explanations
const key = what => `brrr ${D.lesson} ${what}`;
const kept = what => { try { return JSON.parse(localStorage.getItem(key(what))); } catch { return null; } };
const keep = (what, value) => { try { localStorage.setItem(key(what), JSON.stringify(value)); } catch { /* private window */ } };
const right = new Set(kept("right") ?? []);  // the exercises that were
function progress() {  // for the index: how much of the lesson is done
  const done = [...D.guess.filter(({question}) => kept(question) !== null), ...D.exercise.filter(({name}) => right.has(name))];
  keep("progress", [done.length, D.guess.length + D.exercise.length]);
}
const waiting = new Map(), answered = new Map();  // by guess: what is to be done once it is given, and the answer
const message = (kind, title, ...lines) => $("div", {className: `message ${kind}`, role: "status", ariaLive: "polite"}, $("b", {}, title), ...lines.map(line => $("div", {}, line)));
function number(given, unit, powers) {  // with a decimal comma too, but in 1,000, which may be a thousand; a unit that is known; or NaN
  const [, digits, exponent = "e0", typed] = /^([+-]?(?:\d+[.,]?\d*|[.,]\d+))(e[+-]?\d+)?\s*(\D*)$/i.exec(given.trim()) ?? [];
  const power = {...powers, [unit.toLowerCase()]: 0}[typed?.toLowerCase()];
  return /^[+-]?[1-9]\d{0,2},\d{3}$/.test(digits) ? NaN : Number(`${digits?.replace(",", ".")}e${Number(exponent.slice(1)) + power}`);
}
function parsed(asked, given) {  // a number above 0 with its unit, which only a time needs; null for what is none
  const value = number(given, asked.unit, asked.unit === "s" ? D.seconds : {"": 0});
  return value > 0 && value < Infinity ? value : null;
}
function read({unit}, given) {  // an exercise's number: of a time, in its unit
  const powers = Object.entries(unit ? D.seconds : {}).map(([each, power]) => [each, power - D.seconds[unit]]);
  return number(given, unit, {...Object.fromEntries(powers), "": 0});
}
const spoken = (asked, answer) => typeof answer === "number" ? quantity(answer, asked.unit).replace(/x$/, "×") : [answer].flat().join(", ");

// -- forms: the browser refuses what is empty, `answers` reads the rest
const ASKED = {name: "answer", required: true};
const answers = form => new FormData(form).getAll(ASKED.name);
const choice = words => $("select", ASKED, $("option", {value: ""}, "choose ..."), ...words.map(word => $("option", {}, word)));
const typed = more => $("input", {type: "text", ...ASKED, ...more});

function guess(place, asked, n) {
  const status = $("div"), fields = asked.options?.map(value => $("label", {}, $("input", {type: "radio", value, ...ASKED}), value))
    ?? asked.items?.map((_, at) => $("label", {}, `place ${at + 1}`, choice(asked.items)))
    ?? [typed({size: 40, placeholder: asked.hint, ariaLabel: asked.question})];
  const fieldset = $("fieldset", {}, $("legend", {}, asked.question), ...fields, $("button", {}, "This is my guess"));
  const change = $("button", {type: "button", onclick: () => { fieldset.disabled = false; change.remove(); fieldset.querySelector("input, select").focus(); }}, "Change my guess");
  const done = answer => {
    const first = kept(`first: ${asked.question}`) ?? answer, said = spoken(asked, answer);
    keep(`first: ${asked.question}`, first);
    progress();
    fieldset.disabled = true;
    status.replaceChildren(message("open", `Your guess: ${said}`, ...(spoken(asked, first) === said ? [] : [`At first: ${spoken(asked, first)}.`])), change);
    answered.set(n, answer);
    (waiting.get(n) ?? []).forEach(call => call(answer));
  };
  place.append($("form", {onsubmit: event => {
    event.preventDefault();
    const given = answers(event.target), lacking = asked.items?.filter(item => !given.includes(item)) ?? [];
    const answer = asked.items ? given : asked.options ? given[0] : parsed(asked, given[0]);
    if (lacking.length) return status.replaceChildren(message("wrong", "Not answered yet.", `Expected each item once; ${lacking.join(", ")} is missing.`));
    if (answer === null) return status.replaceChildren(message("wrong", `You wrote ${given[0]}.`, `Expected ${asked.hint}, greater than 0.`));
    keep(asked.question, answer);
    done(answer);
    change.focus();  // the field, which had it, is disabled now
  }}, fieldset), status);
  const before = kept(asked.question);
  if (before !== null) done(before);
}
const after = (n, call) => n < 0 ? call() : waiting.set(n, [...(waiting.get(n) ?? []), call]);
function comparison(place, data) {
  place.append(message("open", "Not answered yet: give your guess above."));
  after(data.guess, answer => {
    place.innerHTML = filled(piece(data.open ?? data.by[[answer].flat().join(", ")]), (what, unit, measured) =>
      what === "said" ? quantity(answer, unit).replace(/x$/, "×") : distance(answer, +measured, unit));
  });
}
function distance(answer, measured, unit) {
  if (measured <= 0) return "nothing to compare with";
  const factor = Math.max(answer / measured, measured / answer), [small, large] = unit === "s" ? ["short", "long"] : ["small", "large"];
  return factor <= D.close ? "a good guess" : `${times(factor)} too ${answer < measured ? small : large}`;
}

// -- exercises, by the table of their marks
function mark({words, whole, segments, to, every}, value) {
  if (words) return words[value];
  if (whole && !Number.isInteger(value)) return whole;
  const known = value > to ? to - every + 1 + (value - to - 1) % every : value;  // further up the marks repeat
  return (segments.findLast(([start]) => start <= known) ?? segments[0]).slice(1);
}
function marked(data, given) {
  const junk = given.findIndex((value, n) => data.fields[n].whole ? !Number.isInteger(value) : data.signsFirst && value <= 0);
  for (const [n, field] of junk < 0 ? data.fields.entries() : [[junk, data.fields[junk]]]) {
    const [kind, ...said] = mark(field, given[n]);
    if (kind !== "right" || n === given.length - 1) return [kind, ...said.map(text => filled(text, how => written(given[n], how)))];
  }
}
function exercise(place, data) {
  const status = $("div");
  const fields = data.fields.map(({name, words}) => $("label", {}, $("code", {}, name), "=", words ? choice(Object.keys(words)) : typed({})));
  place.append($("form", {oninput: () => status.replaceChildren(), onsubmit: event => {
    event.preventDefault();
    const texts = answers(event.target), given = texts.map((text, n) => data.fields[n].words ? text : read(data.fields[n], text));
    const unread = texts.find((_, n) => Number.isNaN(given[n]));
    if (unread !== undefined) return status.replaceChildren(message("wrong", `You wrote ${unread}.`, "Expected a number, as 0.000002 or 2e-6."));
    const [kind, text, hint] = marked(data, given).map(each => each.replace(/`/g, ""));
    const lines = [text[0].toUpperCase() + text.slice(1), ...(hint ? [`Hint: ${hint}`] : [])];
    if (kind === "right") keep("right", [...right.add(data.name)]);
    progress();
    status.replaceChildren(message(kind, kind === "right" ? "Right" : "Not yet", ...lines));
  }}, $("fieldset", {}, ...fields, $("button", {}, "Check"))), status);
}

// -- the page
function view(place, data) {
  if (data.guess >= 0) place.append($("p", {className: "cover", role: "status"}, "Give your guess above to uncover."));
  after(data.guess, () => {
    if (place.view) return place.view.show();  // another guess
    place.replaceChildren();
    place.view = new View(place, data);
  });
}
function linked() {  // #EXPLORER.size=4096&EXPLORER-2.dtype=float16, or #EXPLORER-2 alone
  for (const [key, value] of new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"))) {
    const [, name, nth = 1, slider] = /^(\w+?)(?:-(\d+))?(?:\.(\w+))?$/.exec(key) ?? [];
    const place = [...document.querySelectorAll(".view")].filter(each => D.view[each.dataset.at].name === name)[nth - 1];
    if (!name || !place) continue;  // it is no link of ours
    const go = () => { place.view.go(slider, value); place.scrollIntoView(); };
    if (place.view) { go(); continue; }
    const n = D.view[place.dataset.at].guess, asked = document.querySelectorAll(".guess")[n];  // first the guess, then there
    asked.append($("p", {className: "origin", role: "status"}, "You followed a link to a figure below. It opens where the link says once you have guessed."));
    asked.scrollIntoView();
    after(n, go);
  }
}
document.querySelector("#defs").innerHTML = Object.values(D.defs).join("");
document.querySelectorAll("textarea[data-kept]").forEach(box => {
  box.value = kept(box.dataset.kept) ?? "";
  box.addEventListener("input", () => keep(box.dataset.kept, box.value));
});
document.querySelector("#again")?.addEventListener("click", () => {
  D.guess.forEach(({question}) => { keep(question, null); keep(`first: ${question}`, null); });
  ["right", "progress"].forEach(what => keep(what, null));
  location.reload();
});
for (const [kind, build] of Object.entries({view, comparison, exercise, guess}))
  document.querySelectorAll(`.${kind}`).forEach(place => build(place, D[kind][place.dataset.at], +place.dataset.at));
linked();
addEventListener("hashchange", linked);
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(each => { each.open = true; }));
PHONE.addEventListener("change", () => document.querySelectorAll(".view").forEach(place => place.view?.show()));
window.brrr = {D, quantity, general, repr, marked, parsed, read, distance};  // for tests
document.documentElement.dataset.ready = String(Math.round(performance.now()));
