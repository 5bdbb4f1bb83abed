// Guess, reveal, discuss: asks the gateway for counts every few seconds. All that it shows is set as text.
// The token stays in this variable: what a browser stores, other pages of the same address (a hub's) could read.
const EVERY_MS = 2000;
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
  $("lesson").replaceChildren(...lessons.map(each => option(...each)));
  [$("door").hidden, $("room").hidden, $("token").value, $("refused").textContent] = [true, false, "", ""];
  again();
}
async function again() {  // a newer round ends the one before
  const mine = ++round;
  while (mine === round) {
    try {
      const shown = revealed ? `?reveal=1${$("own").value && "&own=1"}` : "";
      const told = await ask(`guesses/${$("lesson").value}${shown}`);
      if (mine !== round) return;
      if (told.questions) show(told);
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
