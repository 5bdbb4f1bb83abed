"use strict";
// Shows what Python drew and said: picks pieces, moves marks, and puts a text line together. It draws nothing itself.
(() => {
const $ = (tag, props = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(props))
    key in made && key !== "list" ? made[key] = value : made.setAttribute(key, value);
  made.append(...children);
  return made;
};
const escaped = text => text.replace(/[&<>"]/g, c => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})[c]);
let D, T;  // the page's data, and its pieces by number
const piece = n => n < 0 || n === undefined ? "" : T[n];

// -- numbers, as brrr.core.units writes them
function rounded(value, digits) {  // halves away from zero, on the digits that a person reads
  const [mantissa, exponent] = Math.abs(value).toExponential().split("e");
  let all = mantissa.replace(".", ""), power = +exponent;
  if (all.length > digits) {
    let kept = String(BigInt(all.slice(0, digits)) + (all[digits] >= "5" ? 1n : 0n));
    if (kept.length > digits) { power += 1; kept = kept.slice(0, digits); }
    all = kept;
  }
  return {digits: all.replace(/0+$/, ""), power, sign: value < 0 ? "-" : ""};
}
function plain({digits, power, sign}) {
  if (power < 0) return sign + "0." + "0".repeat(-power - 1) + digits;
  if (digits.length <= power + 1) return sign + digits + "0".repeat(power + 1 - digits.length);
  return sign + digits.slice(0, power + 1) + "." + digits.slice(power + 1);
}
function quantity(value, unit, digits = 3) {
  let number = "0", prefix = "";
  if (value) {
    const found = rounded(value, digits);
    const [lowest, highest] = D.numbers.counts.includes(unit) ? [0, 30] : D.numbers.ranges[unit] ?? [-30, 30];
    const power = Math.min(Math.max(3 * Math.floor(found.power / 3), lowest), highest);
    number = plain({...found, power: found.power - power});
    prefix = D.numbers.prefixes[power];
  }
  return unit ? `${number} ${prefix}${unit}` : number;
}
const ratio = value => quantity(value, "x").replace(" ", "");
function general(value, digits) {  // Python's g
  if (!value) return "0";
  const found = rounded(value, digits);
  if (found.power >= -4 && found.power < digits) return plain(found);
  return scientific(found);
}
function scientific({digits, power, sign}) {
  const mantissa = digits.length > 1 ? `${digits[0]}.${digits.slice(1)}` : digits;
  return `${sign}${mantissa}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
}
function repr(value) {
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return String(value);
  const found = rounded(value, 17);
  return found.power >= -4 && found.power < 16 ? plain(found) + (Number.isInteger(value) ? ".0" : "") : scientific(found);
}
const SHOWN = {g: v => general(v, 6), "4g": v => general(v, 4), B: v => quantity(v, "B"), repr, "8g": v => general(8 * v, 6)};

// -- views
const table = (header, rows, caption) => `<table><caption>${escaped(caption)}</caption><thead><tr>${header.map(h =>
  `<th scope="col">${escaped(h)}</th>`).join("")}</tr></thead><tbody>${rows.map(row => `<tr>${row.map(cell =>
  `<td>${escaped(cell)}</td>`).join("")}</tr>`).join("")}</tbody></table>`;
const at = (x, y, inner) => inner && `<g transform="translate(${x.toFixed(1)} ${y.toFixed(1)})">${inner}</g>`;

class View {
  constructor(place, data) {
    this.place = place; this.data = data;
    this.index = data.sliders.map(slider => slider.at);
    this.on = (data.lines ?? []).map(line => line.on);
    this.held = new Set(); this.variant = 0; this.predicting = !!data.predicting;
    if (data.badge) place.append(this.badge = $("p", {className: "badge"}, $("span", {}, data.badge)));
    if (data.variants?.length > 1) place.append(this.chooser());
    this.sliders = data.sliders.map((slider, n) => this.slider(slider, n));
    place.append(this.text = $("p", {className: "said", role: "status", ariaLive: "polite"}));
    place.append(this.figure = $("div", {className: "figure", role: "img", ariaLabel: data.alt ?? ""}));
    this.below();
    this.show();
  }
  chooser() {
    const select = $("select", {onchange: () => {
      const before = this.data.variants[this.variant], now = +select.value;
      this.index[0] = before.to[now][this.index[0]];
      this.variant = now;
      this.show();
    }}, ...this.data.variants.map((variant, n) => $("option", {value: n}, variant.label)));
    return $("label", {className: "slider"}, "variant ", select);
  }
  slider(slider, n) {
    const input = $("input", {type: "range", min: 0, max: slider.values.length - 1, step: 1, value: slider.at});
    const shown = $("output", {});
    const label = $("label", {className: "slider"}, $("span", {}, slider.title.split(" (")[0]), input, shown);
    input.addEventListener("input", () => { this.index[n] = +input.value; this.show(); });
    if (slider.title) this.place.append(label);
    return {input, shown, label};
  }
  below() {
    const {data} = this, buttons = $("div", {className: "buttons"});
    this.predicted = $("div", {className: "table"}); this.table = $("div", {className: "table"});
    const toggle = (name, pressed, press) => {
      const made = $("button", {type: "button", ariaPressed: String(pressed), onclick: () => {
        made.ariaPressed = String(made.ariaPressed !== "true"); press(made.ariaPressed === "true"); this.show();
      }}, name);
      buttons.append(made);
    };
    this.place.append(this.predicted);
    if (data.lines) {
      this.place.append($("div", {className: "lines"}, ...data.lines.map((line, n) => {
        const box = $("input", {type: "checkbox", checked: line.on, onchange: () => {
          this.on[n] = box.checked;
          if (box.checked && !line.on) this.held.add(line.name);
          this.show();
        }});
        const mark = $("span", {className: line.colour === "#000000" ? "ink" : "", ariaHidden: "true"}, line.glyph);
        mark.style.color = line.colour === "#000000" ? "" : line.colour;
        return $("label", {}, box, mark, " " + line.label);
      })));
    }
    if (data.lines || data.tables) toggle("Data table", false, on => { this.tabled = on; });
    if (data.predicts) toggle("Predictions", this.predicting, on => { this.predicting = on; });
    this.place.append(buttons, this.table);
  }
  get state() { return this.data.sliders.reduce((found, slider, n) => found * slider.values.length + this.index[n], 0); }
  go(names) {
    this.data.sliders.forEach((slider, n) => {
      const found = slider.values.indexOf(names.get(slider.name));
      if (found >= 0) this.index[n] = found;
    });
    this.show();
  }
  show() {
    const {data} = this;
    if (data.variants) data.sliders[0].values = data.variants[this.variant].values;
    this.sliders.forEach(({input, shown, label}, n) => {
      const values = data.sliders[n].values;
      input.max = values.length - 1; input.value = this.index[n];
      shown.textContent = values[this.index[n]];
      input.setAttribute("aria-valuetext", values[this.index[n]]);
      label.hidden = values.length < 2 && !data.lines;
    });
    const [height, still, moving, said] = data.form === "states" ? this.asState() : data.form === "bars" ? this.asBars() : this.asLines();
    if (height !== this.height || still !== this.still) {
      this.figure.innerHTML = height ? `<svg viewBox="0 0 547.2 ${height}">${still}<g></g></svg>` : "";
      this.moving = this.figure.querySelector("svg > g:last-child");
      [this.height, this.still] = [height, still];
    }
    if (this.moving) this.moving.innerHTML = moving;
    this.text.innerHTML = said;
    if (data.lines) this.tables();
  }
  asState() {
    const {data} = this, n = data.variants ? data.variants[this.variant].states[this.index[0]] : this.state;
    const text = piece(data.texts[n]);
    this.figure.ariaLabel = data.alt ?? text;
    if (data.badges) this.badge.firstChild.textContent = data.badges[n];
    if (data.tables) this.table.innerHTML = this.tabled ? piece(data.tables[n]) : "";
    return [data.heights[n], "", data.states[n].map(piece).join(""), data.sliders.length || data.name ? escaped(text) : ""];
  }
  get shown() { return this.data.lines.map((_, n) => n).filter(n => this.on[n]); }
  get cut() {
    return this.data.sliders.reduce((found, slider, n) => slider.x ? found : found * slider.values.length + this.index[n], 0);
  }
  get along() { return this.data.sliders.findIndex(slider => slider.x); }
  states() {  // of all places along x
    const x = this.along, kept = this.index[x], found = [];
    for (let n = 0; n < this.data.sliders[x].values.length; n++) { this.index[x] = n; found.push(this.state); }
    this.index[x] = kept;
    return found;
  }
  get predicts() { return this.predicting && this.shown.some(n => this.data.lines[n].known); }
  where(but) {
    return this.data.place.map(([name, of]) =>
      `${name} ${typeof of === "number" ? this.data.sliders[of].values[this.index[of]] : of}`).join(", ");
  }
  said(drawn) {
    const {data} = this, p = this.state, here = this.shown.filter(n => data.medians[n][p] !== null);
    const readings = here.map(n => `${escaped(data.lines[n].label)}: <b>${escaped(piece(data.said[n][2 * p]))}</b>${
      escaped(piece(data.said[n][2 * p + 1]))}`);
    data.guides.forEach((guide, n) => {
      if (data.guideSaid[n][p] >= 0) readings.push(`${escaped(guide)}: <b>${escaped(piece(data.guideSaid[n][p]))}</b>`);
    });
    const remark = [this.comparison(here, p), this.absent(here), this.drifted(drawn), data.remark].filter(Boolean).join(" ");
    return `At ${escaped(this.where())}${readings.length ? ": " : ""}${readings.join("; ")}. ${escaped(remark)}`.trimEnd();
  }
  comparison(here, p) {
    const {data} = this, [most, least] = data.extremes;
    if (here.length < 2 || !most) return "";
    const value = n => data.medians[n][p];
    const large = here.reduce((a, b) => value(b) > value(a) ? b : a), small = here.reduce((a, b) => value(b) < value(a) ? b : a);
    return `${most} over ${least}: ${ratio(value(large) / value(small))} (${data.lines[large].label} over ${data.lines[small].label}).`;
  }
  absent(here) {
    if (!this.shown.length) return "No line is switched on.";
    const names = this.shown.filter(n => !here.includes(n)).map(n => this.data.lines[n].label);
    return names.length ? `Not recorded here: ${names.join("; ")}.` : "";
  }
  drifted(drawn) {
    const found = drawn.map(n => this.data.lines[n]).filter(line => line.drift);
    return found.length ? found.reduce((a, b) => b.drift > a.drift ? b : a).drifted : "";
  }
  asBars() {
    const {data} = this, shown = this.shown, p = this.state, frame = data.frames[shown.length];
    const whole = data.frames[data.lines.length];
    const middle = (row, of) => of.top + (row + .5) * of.row;
    const moved = (n, row, inner, scale) => {
      const from = middle(n, whole), to = middle(row, frame);
      return inner && `<g transform="translate(0 ${(to - from * scale).toFixed(2)}) scale(1 ${scale.toFixed(4)})">${inner}</g>`;
    };
    const scale = data.scaled ? frame.row / whole.row : 1;
    const rows = pieces => shown.map((n, row) => moved(n, row, piece(pieces(n)), 1)).join("");
    const grown = (frame.height - whole.height) / (whole.height - whole.top) ;
    const rules = data.rules.map(rule => piece(rule[p])).join("");
    const inner = shown.map((n, row) => moved(n, row, piece(data.low[n][p]), scale)).join("")
      + (rules && `<g transform="translate(0 ${(frame.top - whole.top * (1 + grown)).toFixed(2)}) scale(1 ${(1 + grown).toFixed(4)})">${rules}</g>`)
      + rows(n => data.top[n][p]) + rows(n => data.names[n]);
    return [frame.height, piece(frame.still), inner, this.said(shown.filter(n => data.medians[n][p] !== null))];
  }
  frame(labels) {
    const {data} = this, held = data.lines.filter(line => this.held.has(line.name)).map(line => line.name).join("|");
    return data.frames[`${data.held[held]}|${Math.ceil(labels.length / this.columns(labels))}`];
  }
  columns(labels) {
    return Math.min(...labels.map(n => this.data.legend.entries[n].columns[labels.length > 8 ? 1 : 0]), 3);
  }
  asLines() {
    const {data} = this, shown = this.shown, cut = this.cut, p = this.state, x = this.index[this.along] ?? 0;
    const count = data.lines.length, rest = [...data.guides.keys()].map(n => count + n);
    if (this.predicts) rest.push(count + data.guides.length);
    const frame = this.frame([...(data.few ? data.lines.keys() : shown), ...rest]);
    const aside = n => data.asides.length ? data.asides[shown.length][shown.indexOf(n)] * frame.unit : 0;
    const drawn = shown.filter(n => this.states().some(each => data.medians[n][each] !== null));
    let inner = shown.map(n => this.wide(frame, cut, n)).join("")
      + shown.map(n => { const found = piece(frame.curves[n][cut]); return aside(n) ? at(aside(n), 0, found) : found; }).join("")
      + frame.guides.map(guide => piece(guide[cut])).join("");
    if (this.predicts) {
      const groups = new Map();
      for (const n of shown) {
        const found = frame.foretold[n][cut];
        if (found) groups.set(found[0], [...(groups.get(found[0]) ?? []), found]);
      }
      for (const group of groups.values()) inner += piece(group[0][group.length > 1 ? 2 : 1]);
    }
    inner += at(frame.xs[x] - frame.xs[0], 0, piece(frame.cursor));
    for (const n of shown) if (frame.ys[n][p] !== null) inner += at(frame.xs[x] + aside(n), frame.ys[n][p], piece(frame.rings[n]));
    if (shown.length && !drawn.length) inner += piece(frame.messages[cut]);
    return [frame.height, piece(frame.still), this.legend(frame, [...shown, ...rest]) + inner, this.said(drawn)];
  }
  wide(frame, cut, n) {
    const near = frame.near[cut][n];
    if (!near) return "";
    const on = this.shown.reduce((bits, line) => bits + 2 ** line, 0), counts = near.map(mask => {
      const found = (mask & on).toString(2).replace(/0/g, "").length;
      return found <= 2 ? found : 0;
    });
    const times = new Map();
    for (const count of counts) if (count) times.set(count, (times.get(count) ?? 0) + 1);
    if (!times.size) return "";
    const usual = [...times].reduce((a, b) => b[1] > a[1] ? b : a)[0];
    return piece(frame.wide[cut][`${n}|${usual}|${counts.map(count => count ? 1 : 0).join("")}`]);
  }
  legend(frame, labels) {
    const {legend} = this.data, columns = this.columns(labels), rows = Math.ceil(labels.length / columns);
    let inner = "", x = frame.left - legend.left, first = 0;
    for (let column = 0; column < columns; column++) {
      const count = Math.floor(labels.length / columns) + (column < labels.length % columns ? 1 : 0);
      const here = labels.slice(first, first + count).map(n => legend.entries[n]);
      here.forEach((entry, row) => {
        const up = legend.bottom - (rows - 1 - row) * legend.pitch + frame.top - legend.top;
        inner += at(x, up - entry.up, piece(entry.piece));
      });
      x += Math.max(0, ...here.map(entry => entry.wide));
      first += count;
    }
    return inner;
  }
  tables() {
    const {data} = this, p = this.state, shown = this.shown;
    this.table.innerHTML = this.tabled ? this.dataTable() + data.published : "";
    if (!this.predicting) { this.predicted.innerHTML = ""; return; }
    const origin = data.origins[[...new Set(shown.map(n => data.lines[n].device))].join("|")] + (this.predicts ? " Residual: measured over predicted." : "");
    const rows = shown.map(n => [`${data.lines[n].glyph} ${data.lines[n].label}`, ...[0, 1, 2, 3].map(k => piece(data.predicted[n][4 * p + k]))]);
    this.predicted.innerHTML = this.predicts ? table(["line", "PREDICTED", "bound", "measured", "residual"], rows, origin)
      : `<p class="origin">${escaped(origin)}</p>`;
  }
  dataTable() {
    const {data} = this, shown = this.shown, states = data.form === "lines" ? this.states() : [this.state];
    const cell = (n, s) => piece(data.cells[n][s]), labels = shown.map(n => data.lines[n].label);
    let header, rows, start = "";
    if (data.form === "bars") {
      const [p] = states, here = shown.filter(n => data.medians[n][p] !== null);
      const smallest = Math.min(...here.map(n => data.medians[n][p]));
      header = ["line", data.caption.split(": median (")[0], "over the smallest"];
      rows = here.map(n => [data.lines[n].label, cell(n, p), ratio(data.medians[n][p] / smallest)]);
      data.guides.forEach((guide, n) => { if (data.guideSaid[n][p] >= 0) rows.push([guide, piece(data.guideSaid[n][p]), ""]); });
      start = `${this.where()}. `;
    } else {
      const foretold = this.predicts ? shown.filter(n => states.some(s => data.heights[n][s] >= 0)) : [];
      header = [data.sliders[this.along].name, ...labels, ...data.guides, ...foretold.map(n => `PREDICTED ${data.lines[n].label}`)];
      rows = states.map((s, x) => [data.sliders[this.along].values[x], ...shown.map(n => cell(n, s)),
        ...data.guides.map((_, n) => piece(data.guideSaid[n][s])), ...foretold.map(n => piece(data.heights[n][s]))])
        .filter(row => row.slice(1, shown.length + 1).some(Boolean));
    }
    if (rows.some(row => row.some(text => text.includes("above the limit")))) start = "Above the limit: an accounting error or a cache. " + start;
    return table(header, rows, start + data.caption);
  }
}

// -- guesses, kept in this browser
const key = n => `brrr ${D.lesson} ${D.guesses[n].question}`;
const kept = n => { try { return JSON.parse(localStorage.getItem(key(n))); } catch { return null; } };
const keep = (n, answer) => { try { localStorage.setItem(key(n), JSON.stringify(answer)); } catch { /* private window */ } };
const waiting = new Map();  // by guess: what is to be done once it is given
const message = (kind, title, ...lines) => $("div", {className: `message ${kind}`, role: "status", ariaLive: "polite"}, $("b", {}, title), ...lines.map(line => $("div", {}, line)));

function parsed(asked, given) {  // a number, or what was wrong with it
  const text = given.trim(), number = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
  let value = NaN;
  if (asked.unit === "s") {
    if (!/[a-zµμ]\s*$/i.test(text)) return asked.unfit["no unit"];
    const found = /^((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*([a-zµμ]*)$/i.exec(text);
    const power = found && D.numbers.seconds[found[2].toLowerCase()];
    if (found && power !== undefined) {
      const [mantissa, exponent = "0"] = found[1].toLowerCase().split("e");
      value = Number(`${mantissa}e${+exponent + power}`);
    }
  } else {
    const bare = asked.unit && text.endsWith(asked.unit) ? text.slice(0, -asked.unit.length).trim() : text;
    if (number.test(bare)) value = Number(bare);
  }
  if (!Number.isFinite(value)) return asked.unfit["no number"];
  return value > 0 ? value : asked.unfit["too small"];
}
const shownGuess = (asked, answer) => Array.isArray(answer) ? answer.join(", ") : typeof answer === "number" ? spoken(answer, asked.unit) : answer;
const spoken = (value, unit) => unit === "x" ? ratio(value) : quantity(value, unit);

function guess(place, n) {
  const asked = D.guesses[n], status = $("div"), button = $("button", {type: "submit"}, "This is my guess");
  let read, fields;
  if (asked.options) {
    fields = asked.options.map(option => $("label", {}, $("input", {type: "radio", name: `guess${n}`, value: option}), " " + option));
    read = () => place.querySelector("input:checked")?.value ?? `Expected one of: ${asked.options.join(", ")}.`;
  } else if (asked.items) {
    fields = asked.items.map((_, at) => $("label", {}, `place ${at + 1} `, $("select", {}, $("option", {value: ""}, "choose ..."), ...asked.items.map(item => $("option", {}, item)))));
    read = () => {
      const given = [...place.querySelectorAll("select")].map(select => select.value), lacking = asked.items.filter(item => !given.includes(item));
      return lacking.length ? `Expected each item once; ${lacking.join(", ")} is missing.` : given;
    };
  } else {
    const field = $("input", {type: "text", placeholder: asked.hint, ariaLabel: asked.question});
    fields = [field];
    read = () => parsed(asked, field.value);
  }
  const fits = answer => asked.options ? asked.options.includes(answer) : asked.items ? Array.isArray(answer) : typeof answer === "number";
  const done = answer => {
    place.querySelectorAll("input, select").forEach(each => { each.disabled = true; });
    button.hidden = true;
    status.replaceChildren(message("open", `Your guess: ${shownGuess(asked, answer)}`));
    (waiting.get(n) ?? []).forEach(call => call(answer));
  };
  place.append($("form", {onsubmit: event => {
    event.preventDefault();
    const answer = read();
    if (!fits(answer)) return status.replaceChildren(message("wrong", "Nearly.", answer));
    keep(n, answer);
    done(answer);
  }}, $("b", {}, asked.question), ...fields, button), status);
  const before = kept(n);
  if (before !== null && fits(before)) done(before);
}
function after(n, call) {
  if (n >= 0) waiting.set(n, [...(waiting.get(n) ?? []), call]); else call();
}
function comparison(place, data) {
  place.append(message("open", "Not answered yet: give your guess above."));
  after(data.guess, answer => {
    const key = data.ties ? answer.filter(item => data.ties.includes(item)).join("|") : answer;
    place.innerHTML = piece(data.by ? data.by[key] : data.open).replace(/\ue000(.*?)\ue001/g, (_, inside) => {
      const [what, ...of] = inside.split("|");
      if (what === "order") return inOrder(answer, of);
      return what === "said" ? spoken(answer, of[0]) : distance(answer, +of[1], of[0]);
    });
  });
}
function inOrder(answer, measured) {
  const given = answer.map(escaped).filter(item => measured.includes(item)), hits = given.filter((item, n) => item === measured[n]).length;
  return hits === measured.length ? `all ${hits} stand in the right place`
    : `${hits} of ${measured.length} stand in the right place; the order is ${measured.join(", ")}`;
}
function distance(answer, measured, unit) {
  if (measured <= 0) return "nothing to compare with";
  const factor = Math.max(answer / measured, measured / answer);
  if (factor <= D.numbers.close) return "a good guess";
  const [small, large] = unit === "s" ? ["short", "long"] : ["small", "large"];
  return `${ratio(factor)} too ${answer < measured ? small : large}`;
}

// -- exercises, by the table of their marks
function marked(data, given) {
  const below = data.signsFirst ? given.findIndex(value => value <= 0) : -1;
  for (const [n, field] of below < 0 ? data.fields.entries() : [[below, data.fields[below]]]) {
    let found = field.words?.[given[n]] ?? ["wrong", `\`${field.name}\` is '${given[n]}'.`, `One of ${Object.keys(field.words ?? {}).join(", ")}.`];
    if (field.segments) {
      const value = given[n];
      if (field.whole && !Number.isInteger(value)) found = ["wrong", `\`${field.name}\` is ${repr(value)}.`, field.whole];
      else if (field.to !== undefined && value > field.to) found = ["wrong", `${repr(value)} is far from it.`, "Take fewer."];
      else found = (field.segments.findLast(segment => segment[0] <= value) ?? field.segments[0]).slice(1);
      found = [found[0], found[1].replace(/\{(\w+)\}/g, (_, kind) => SHOWN[kind](value)), found[2]];
    }
    if (found[0] !== "right" || n === data.fields.length - 1) return found;
  }
}
function exercise(place, data) {
  const status = $("div"), inputs = data.fields.map(() => $("input", {type: "text", inputMode: "text"}));
  place.append($("form", {onsubmit: event => {
    event.preventDefault();
    const given = data.fields.map((field, n) => field.words ? inputs[n].value.trim() : Number(inputs[n].value.trim() || "x"));
    const open = data.fields.filter((field, n) => !inputs[n].value.trim()).map(field => field.name);
    const lacking = data.fields.filter((field, n) => inputs[n].value.trim() && Number.isNaN(given[n])).map(field => field.name);
    if (open.length) return status.replaceChildren(message("open", "Not answered yet", `Write a number for ${open.join(" and ")}.`));
    if (lacking.length) return status.replaceChildren(message("wrong", "Not yet", `${lacking.join(" and ")}: write a number, as 2e-6.`));
    const [kind, text, hint] = marked(data, given);
    const code = line => line.replace(/`/g, "");
    status.replaceChildren(message(kind, kind === "right" ? "Right" : "Not yet", code(text[0].toUpperCase() + text.slice(1)), ...(hint ? [code(`Hint: ${hint}`)] : [])));
  }}, ...data.fields.map((field, n) => $("label", {}, $("code", {}, field.name), " = ", inputs[n])), $("button", {type: "submit"}, "Check")), status);
}

// -- the page
function view(place, data) {
  if (data.guess >= 0) place.append($("p", {className: "cover", role: "status"}, "Give your guess above to uncover."));
  after(data.guess, () => { place.replaceChildren(); place.view = new View(place, data); });
}
function linked() {  // #EXPLORER.size=4096&EXPLORER.dtype=float16
  const wanted = new Map();
  for (const part of decodeURIComponent(location.hash.slice(1)).split("&")) {
    const found = /^([\w-]+?)(?:-(\d+))?\.(\w+)=(.*)$/.exec(part);
    if (found) wanted.set(`${found[1]}|${found[2] ?? 1}`, [...(wanted.get(`${found[1]}|${found[2] ?? 1}`) ?? []), [found[3], found[4]]]);
  }
  const seen = new Map();
  document.querySelectorAll(".view").forEach(place => {
    const {name} = D.views[place.dataset.at];
    seen.set(name, (seen.get(name) ?? 0) + 1);
    const found = wanted.get(`${name}|${seen.get(name)}`);
    if (found && place.view) { place.view.go(new Map(found)); place.scrollIntoView(); }
  });
}
async function start() {
  document.querySelectorAll("textarea[data-kept]").forEach(box => {
    const where = `brrr explained ${box.dataset.kept}`;
    try { box.value = localStorage.getItem(where) ?? ""; } catch { /* private window */ }
    box.addEventListener("input", () => { try { localStorage.setItem(where, box.value); } catch { /* private window */ } });
  });
  document.querySelector("#again")?.addEventListener("click", () => {
    try { Object.keys(localStorage).filter(each => each.startsWith(`brrr ${D.lesson} `)).forEach(each => localStorage.removeItem(each)); } catch { /* private window */ }
    location.reload();
  });
  const packed = document.querySelector("#data");
  if (!packed) return;
  const bytes = Uint8Array.from(atob(packed.textContent), c => c.charCodeAt(0));
  D = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
  T = D.pieces;
  document.querySelector("#defs").innerHTML = Object.values(D.defs).join("");
  const each = (kind, build, of) => document.querySelectorAll(`.${kind}`).forEach(place => build(place, of ? of[place.dataset.at] : +place.dataset.at));
  each("view", view, D.views); each("comparison", comparison, D.comparisons); each("exercise", exercise, D.exercises);
  each("guess", guess);
  linked();
  addEventListener("hashchange", linked);
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
  window.brrr = {D, quantity, general, repr, marked, parsed, distance};  // for tests
}
start();
})();
