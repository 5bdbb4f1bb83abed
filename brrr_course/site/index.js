// The index: a figure to move, which lessons this browser has done, and a search over what the pages are called.
for (const front of document.querySelectorAll(".front")) {
  const places = JSON.parse(front.querySelector("script").textContent), input = front.querySelector("input");
  const lines = [...front.querySelectorAll("path")].map(line => [line.nextElementSibling, line.getAttribute("d").slice(1).split("L")]);
  (input.oninput = () => {
    const [text, said] = places[input.value];
    front.querySelector(".say").textContent = said;
    input.ariaValueText = front.querySelector("label output").textContent = text;
    for (const [dot, points] of lines) dot.setAttribute("transform", `translate(${points[input.value]})`);
  })();
}
const doneOf = name => { try { return JSON.parse(localStorage.getItem(`brrr ${name} progress`)) ?? []; } catch { return []; } };
for (const lesson of document.querySelectorAll("[data-lesson]")) {
  const [done, all] = doneOf(lesson.dataset.lesson);
  if (done) lesson.querySelector(".told").append(Object.assign(document.createElement("span"), {className: done === all ? "tick" : "begun", textContent: done === all ? "✓ done" : `${done} of ${all} answered`}));
}
const field = document.querySelector("#find"), entries = [...document.querySelectorAll("#found li")];
(field.oninput = () => {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const entry of entries) entry.hidden = !words.length || !words.every(word => entry.textContent.toLowerCase().includes(word));
})();
if (location.protocol.startsWith("http")) {  // not from a disk: pages that were read open without a network, and the course can be installed
  document.head.append(Object.assign(document.createElement("link"), {rel: "manifest", href: "manifest.webmanifest"}));
  navigator.serviceWorker?.register("offline.js");
}
