// Guess, reveal, discuss: asks the gateway for counts every few seconds. All that it shows is set as text.
// The token stays in this variable: what a browser stores, other pages of the same address (a hub's) could read.
const EVERY_MS = 2000, LAPTOPS = "laptops";
const $ = id => document.getElementById(id);
const made = (tag, ...children) => { const one = document.createElement(tag); one.append(...children); return one; };
const option = (value, text) => Object.assign(made("option", text), {value});
let token = "", questions = [], revealed = false, round = 0;

async function ask(path) {
  const answer = await fetch(path, {headers: {Authorization: `Bearer ${token}`}, cache: "no-store"});
  const told = await answer.json();
  if (answer.ok) return told;
  if ([401, 403].includes(answer.status)) leave(told.reason);
  throw new Error(told.reason);
}
function leave(reason) {
  [token, round] = ["", round + 1];
  $("refused").textContent = reason;
  [$("door").hidden, $("room").hidden] = [false, true];
  $("token").focus();
}
async function enter() {
  const {lessons} = await ask("lessons");
  $("lesson").replaceChildren(...lessons.map(each => option(...each)), option(LAPTOPS, "your own GPUs"));
  [$("door").hidden, $("room").hidden, $("token").value, $("refused").textContent] = [true, false, "", ""];
  again();
}
async function again() {  // a newer round ends the one before
  const mine = ++round;
  while (mine === round) {
    try {
      const laptops = $("lesson").value === LAPTOPS;
      for (const id of ["bars", "reveal", "note"]) $(id).hidden = laptops;
      $("wall").toggleAttribute("hidden", !laptops);
      const shown = revealed ? `?reveal=1${$("own").value && "&own=1"}` : "";
      const told = await ask(laptops ? LAPTOPS : `guesses/${$("lesson").value}${shown}`);
      if (mine !== round) return;
      if (laptops) wall(told.laptops);
      else if (told.questions) show(told);
      else say(revealed ? "The class's device is measuring ..." : "Reading the lesson ...");
    } catch (error) {
      if (mine === round) say(error instanceof TypeError ? "The gateway does not answer. Trying again ..." : error.message);
    }
    await new Promise(done => setTimeout(done, EVERY_MS));
  }
}
const say = text => { if ($("state").textContent !== text) $("state").textContent = text; };

function show(told) {
  const names = told.questions.map(each => each.question);
  if (names.join("\n") !== questions.join("\n")) {
    questions = names;
    $("question").replaceChildren(...names.map((name, n) => option(n, `${n + 1}: ${name}`)));
  }
  const asked = told.questions[$("question").value || 0];
  $("reveal").disabled = !asked;
  if (!asked) {
    $("asked").textContent = "This lesson asks for no guess.";
    return say("");
  }
  $("asked").textContent = asked.question;
  $("count").textContent = `${asked.count} ${asked.count === 1 ? "guess" : "guesses"}`;
  $("note").textContent = [told.students ? `${told.students} students have a token` : "", asked.order ? "counted by what stands first" : "",
    asked.unfit ? `${asked.unfit} that the question cannot have` : ""].filter(Boolean).join("; ");
  bars(asked);
  const {truth} = asked;
  $("truth").hidden = !truth;
  if (truth && $("truth").dataset.shown !== JSON.stringify(truth)) {  // only news are read aloud
    $("truth").dataset.shown = JSON.stringify(truth);
    $("measured").textContent = truth.measured || "–";
    $("measured").className = $("measured").textContent.length > 24 ? "long" : "";
    $("said").textContent = truth.measured ? "" : truth.said || "The lesson's figure answers this one.";
    $("badge").textContent = truth.badge;
    const cells = (tag, row) => made("tr", ...row.map(text => made(tag, text)));
    $("table").tHead.replaceChildren(cells("th", truth.header));
    $("table").tBodies[0].replaceChildren(...truth.rows.map(row => cells("td", row)));
  }
  say(truth ? "Discuss: two people who disagree give their reasons." : asked.count ? "" : "Guesses come from those who ran share() in their notebook.");
}
function bars({rows}) {
  const most = Math.max(1, ...rows.map(([, students]) => students));
  $("bars").tBodies[0].replaceChildren(...rows.map(([label, students, right]) => {
    const name = Object.assign(made("th", label), {scope: "row"}), bar = made("i");
    bar.style.width = `${55 * students / most}%`;
    const row = made("tr", name, made("td", made("div", bar, String(students), ...(right ? [made("b", "◂ measured")] : []))));
    row.className = right ? "right" : "";
    return row;
  }));
}
// All laptops on one roofline, and below it what a launch costs each: alone (a ring) and among many (a dot). Whose is whose is not told.
const drawn = (tag, given, text = "") => {
  const one = document.createElementNS($("wall").namespaceURI, tag);
  for (const [name, value] of Object.entries(given)) one.setAttribute(name, value);
  one.textContent = text;
  return one;
};
const scale = (low, high, from, to) => value => from + (to - from) * Math.min(1, Math.max(0, Math.log10(value / low) / Math.log10(high / low)));
function wall(laptops) {
  const x = scale(0.1, 1000, 70, 630), y = scale(1e9, 1e14, 290, 30), t = scale(1e-7, 1e-2, 70, 630);
  const grid = [[0.1, "0.1"], [1, "1"], [10, "10"], [100, "100"], [1000, "1000"]].map(([v, text]) => drawn("text", {x: x(v), y: 308}, text));
  for (const [v, text] of [[1e9, "1 GFLOP/s"], [1e10, "10"], [1e11, "100"], [1e12, "1 TFLOP/s"], [1e13, "10"], [1e14, "100"]])
    grid.push(drawn("path", {class: "grid", d: `M70,${y(v)}H630`}), drawn("text", {x: 34, y: y(v) + 4}, text));
  for (const [v, text] of [[1e-7, "0.1 µs"], [1e-6, "1 µs"], [1e-5, "10 µs"], [1e-4, "100 µs"], [1e-3, "1 ms"], [1e-2, "10 ms"]])
    grid.push(drawn("text", {x: t(v), y: 392}, text));
  grid.push(drawn("path", {class: "grid", d: "M70,374H630"}), drawn("text", {class: "title", x: 70, y: 18}, "FLOP per second, against FLOP per byte"),
    drawn("text", {class: "title", x: 70, y: 340}, "a launch: alone (ring), among many (dot)"));
  const each = laptops.flatMap(([bytes, flop, alone, among]) => [
    drawn("path", {class: "roof", d: `M${x(0.1)},${y(0.1 * bytes)}L${x(flop / bytes)},${y(flop)}H630`}),
    drawn("circle", {class: "alone", cx: t(alone), cy: 360, r: 6}), drawn("circle", {class: "among", cx: t(among), cy: 360, r: 5})]);
  $("wall").replaceChildren(...grid, ...each);
  $("wall").setAttribute("aria-label", `${laptops.length} GPUs: ${laptops.map(([bytes, flop]) => `${(bytes / 1e9).toPrecision(3)} GB/s, ${(flop / 1e12).toPrecision(3)} TFLOP/s`).join("; ")}`);
  $("asked").textContent = "Your own GPUs, measured in your browsers";
  $("count").textContent = `${laptops.length} ${laptops.length === 1 ? "GPU" : "GPUs"}`;
  $("truth").hidden = true;
  say(laptops.length ? "" : "They come from those who ran share() and pressed Measure my own GPU below a figure.");
}
function turn(to) {
  revealed = to;
  $("reveal").textContent = to ? "Hide" : "Reveal";
  $("truth").hidden ||= !to;
  again();
}
$("door").addEventListener("submit", event => {
  event.preventDefault();
  token = $("token").value.trim();
  enter().catch(error => { $("refused").textContent = error.message; });
});
$("reveal").addEventListener("click", () => turn(!revealed));
$("question").addEventListener("change", () => turn(false));
$("own").addEventListener("change", () => turn(revealed));
$("lesson").addEventListener("change", () => { $("question").replaceChildren(); questions = []; $("reveal").disabled = true; turn(false); });
