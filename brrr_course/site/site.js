// A lesson's page: its figures, guesses, comparisons and exercises, and what the reader's browser keeps of them.
const packed = Uint8Array.from(atob(document.querySelector("#data").textContent), c => c.charCodeAt(0));
const D = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).json();

const $ = (tag, props = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) key in made ? made[key] = value : made.setAttribute(key, value);
  made.append(...children);
  return made;
};
const filled = (text, fill) => text.replace(/\ue000(.*?)\ue001/g, (_, what) => fill(...what.split("|")));

// -- numbers, as Python writes them
const {si, rounded, plain} = figures;
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
const written = (value, kind) => kind === "" ? repr(value) : kind === "g" ? general(value) : /^\.\d+g$/.test(kind) ? general(value, +kind.slice(1, -1)) : si(value, kind);

// -- views
// An explorer's figure: its scene, drawn by view/drawn/scene.js, with what is said of the reader's guess.
class Figure {
  constructor(place, data) {
    Object.assign(this, {data, drawn: figures.draw(place, data.scene, {own: typeof own === "undefined" ? null : own})});
    this.show();
  }
  go(name, value) { this.drawn.go(name, value.replace(/^2\^(\d+)$/, (_, power) => `2${[...power].map(digit => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("")}`)); }
  show() {  // the first time, and after another guess
    const {guess} = this.data, value = answered.get(guess);
    if (value === undefined) return;
    const said = spoken(D.guess[guess], value);
    this.drawn.guess(value, said, typeof value === "number" ? `You said ${said}.` : "");  // a choice is judged below
  }
}

const PHONE = matchMedia("screen and (max-width: 600px)"), WIDE = 547.2;  // in points: as wide as Python draws
// What Python drew once for each place of its sliders: drawings and pictures. On a phone it grows at a tap.
class View {
  constructor(place, data) {
    Object.assign(this, {place, data, index: data.sliders.map(slider => slider.at)});
    if (data.badge) place.append(this.badge = $("p", {className: "badge"}, data.badge));
    this.sliders = data.sliders.map((slider, n) => this.slider(slider, n));
    this.text = $("p", {className: "said", role: "status", ariaLive: "polite"});
    this.figure = $("div", {className: "figure", role: "img", ariaLabel: data.alt ?? "", onclick: () => this.figure.classList.toggle("large", PHONE.matches && !this.figure.matches(".large"))});
    place.append(this.text, this.figure);
    this.show();
  }
  slider(slider, n) {
    if (slider.texts.length === 2) return this.pair(slider, n);
    const input = $("input", {type: "range", min: 0, step: 1, oninput: () => { this.index[n] = +input.value; this.show(); }});
    const shown = $("output", {ariaHidden: "true"}), label = $("label", {className: "slider"}, $("span", {}, slider.title.split(" (")[0]), input, shown);
    if (slider.title) this.place.append(label);
    const set = values => {
      Object.assign(input, {max: values.length - 1, value: this.index[n], ariaValueText: values[this.index[n]]});
      shown.textContent = values[this.index[n]];
      label.hidden = values.length < 2;
    };
    return {input, set};
  }
  pair(slider, n) {  // between two values there is nothing to slide along
    const name = `pair ${document.querySelectorAll(".pair").length}`;
    const inputs = slider.texts.map((value, at) => $("input", {type: "radio", name, onchange: () => { this.index[n] = at; this.show(); }}));
    this.place.append($("div", {className: "slider pair", role: "radiogroup", ariaLabel: slider.title}, $("span", {}, slider.title.split(" (")[0]),
      ...inputs.map((input, at) => $("label", {}, input, slider.texts[at]))));
    return {input: inputs, set: () => { inputs[this.index[n]].checked = true; }};
  }
  get now() {
    return this.data.states[this.data.sliders.reduce((found, slider, n) => found * slider.texts.length + this.index[n], 0)];
  }
  go(name, value) {  // where it has no such place, it stays
    this.data.sliders.forEach((slider, n) => {
      const found = slider.texts.indexOf(value);
      if (slider.name === name && found >= 0) this.index[n] = found;
    });
    this.show();
  }
  show() {
    const {now, data} = this;
    this.sliders.forEach(({set}, n) => set(this.data.sliders[n].texts));
    this.figure.innerHTML = now.height ? `<svg aria-hidden="true" viewBox="0 0 ${WIDE} ${now.height}">${now.still.map(n => D.pieces[n]).join("")}</svg>` : "";
    this.figure.ariaLabel = data.alt ?? now.text;
    this.text.textContent = now.text;
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
function number(given, powers) {  // with a decimal comma too, but in 1,000, which may be a thousand; what may stand behind it; or NaN
  const [, digits, exponent = "e0", typed] = /^([+-]?(?:\d+[.,]?\d*|[.,]\d+))(e[+-]?\d+)?\s*(\D*)$/i.exec(given.trim()) ?? [];
  const power = powers[typed?.toLowerCase()];
  return /^[+-]?[1-9]\d{0,2},\d{3}$/.test(digits) ? NaN : Number(`${digits?.replace(",", ".")}e${Number(exponent.slice(1)) + power}`);
}
const spoken = (asked, answer) => typeof answer === "number" ? si(answer, asked.unit) : [answer].flat().join(", ");

// -- forms: `answers` reads them; of an exercise the browser refuses what is empty
const ASKED = {name: "answer", required: true};
const answers = form => new FormData(form).getAll(ASKED.name);
const choice = words => $("select", ASKED, $("option", {value: ""}, "choose ..."), ...words.map(word => $("option", {}, word)));
const typed = more => $("input", {type: "text", ...ASKED, ...more});

function inOrder(items, order) {  // a button for each, to be pressed one after the other, as in JupyterLab
  const buttons = items.map(item => $("button", {type: "button", onclick: () => {
    order.includes(item) ? order.splice(order.indexOf(item), 1) : order.push(item);
    show();
  }}));
  const show = () => buttons.forEach((button, n) => {
    const at = order.indexOf(items[n]) + 1;
    Object.assign(button, {textContent: at ? `${at}. ${items[n]}` : items[n], ariaPressed: at > 0});
  });
  show();
  return $("div", {className: "order"}, $("span", {}, D.words.order), ...buttons);
}
function guess(place, asked, n) {
  const order = (asked.items && kept(asked.question)) ?? [];
  const status = $("div"), fields = asked.options?.map(value => $("label", {}, $("input", {type: "radio", value, ...ASKED}), value))
    ?? [asked.items ? inOrder(asked.items, order) : typed({size: 40, placeholder: asked.hint, ariaLabel: asked.question})];
  const fieldset = $("fieldset", {}, $("legend", {}, asked.question), ...fields, $("button", {}, D.words.give));
  const change = $("button", {type: "button", onclick: () => { fieldset.disabled = false; change.remove(); fieldset.querySelector("input, button").focus(); }}, D.words.change);
  const done = answer => {
    const first = kept(`first: ${asked.question}`) ?? answer, said = spoken(asked, answer);
    keep(`first: ${asked.question}`, first);
    progress();
    fieldset.disabled = true;
    status.replaceChildren(message("open", `Your guess: ${said}`, ...(spoken(asked, first) === said ? [] : [`At first: ${spoken(asked, first)}.`])), change);
    answered.set(n, answer);
    (waiting.get(n) ?? []).forEach(call => call(answer));
  };
  place.append($("form", {noValidate: true, onsubmit: event => {
    event.preventDefault();
    if (fieldset.disabled) return;
    const [given = ""] = answers(event.target), lacking = asked.items?.filter(item => !order.includes(item)) ?? [];
    const answer = asked.items ? [...order] : asked.options ? given : number(given, asked.powers);
    if (lacking.length) return status.replaceChildren(message("wrong", "Not answered yet.", `Expected each item once; ${lacking.join(", ")} is missing.`));
    if (!asked.items && !given.trim()) return status.replaceChildren(message("wrong", "Not answered yet.", asked.options ? "Choose one first." : `Expected ${asked.hint}.`));
    if (asked.powers && !(answer > 0 && answer < Infinity)) return status.replaceChildren(message("wrong", `You wrote ${given}.`, `Expected ${asked.hint}, greater than 0.`));
    keep(asked.question, answer);
    done(answer);
    change.focus();  // the field, which had it, is disabled now
  }}, fieldset), status);
  const before = kept(asked.question);
  if (before !== null) done(before);
}
const after = (n, call) => n < 0 ? call() : waiting.set(n, [...(waiting.get(n) ?? []), call]);
function comparison(place, data) {
  place.append(message("open", "Not answered yet: give your guess first."));
  after(data.guess, answer => {
    place.innerHTML = filled(D.pieces[data.open ?? data.by[[answer].flat().join(", ")]], (what, ...told) =>
      what === "said" ? si(answer, told[0]) : distance(answer, ...told));
  });
}
function distance(answer, measured, near, below, above) {
  const factor = Math.max(answer / measured, measured / answer);
  return factor <= D.close ? near : `${si(factor, "x")} ${answer < measured ? below : above}`;
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
    const texts = answers(event.target), given = texts.map((text, n) => data.fields[n].words ? text : number(text, data.fields[n].powers));
    const unread = texts.find((_, n) => Number.isNaN(given[n]));
    if (unread !== undefined) return status.replaceChildren(message("wrong", `You wrote ${unread}.`, "Expected a number, such as 0.000002 or 2e-6."));
    const [kind, text, hint] = marked(data, given).map(each => each.replace(/`/g, ""));
    const lines = [text[0].toUpperCase() + text.slice(1), ...(hint ? [`Hint: ${hint}`] : [])];
    if (kind === "right") keep("right", [...right.add(data.name)]);
    progress();
    status.replaceChildren(message(kind, D.words[kind], ...lines));
  }}, $("fieldset", {}, ...fields, $("button", {}, "Check"))), status);
}

// -- the page
function view(place, data) {
  if (data.guess >= 0) place.append($("p", {className: "cover", role: "status"}, $("strong", {}, data.scene?.title ?? ""), " It opens once you have given your guess."));
  after(data.guess, () => {
    if (place.view) return place.view.show();  // another guess
    place.replaceChildren();
    place.view = data.scene ? new Figure(place, data) : new View(place, data);
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
window.brrr = {D, si, general, repr, marked, number};  // for tests
document.documentElement.dataset.ready = String(Math.round(performance.now()));
