// The index: which lessons this browser has done, and a search over what the pages are called.
const doneOf = name => { try { return JSON.parse(localStorage.getItem(`brrr ${name} progress`)) ?? []; } catch { return []; } };
for (const lesson of document.querySelectorAll("[data-lesson]")) {
  const [done, all] = doneOf(lesson.dataset.lesson);
  if (done) lesson.append(Object.assign(document.createElement("span"), {className: done === all ? "tick" : "begun", textContent: done === all ? "✓ done" : `${done} of ${all} answered`}));
}
const field = document.querySelector("#find"), entries = [...document.querySelectorAll("#found li")];
field.addEventListener("input", () => {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const entry of entries) entry.hidden = !words.length || !words.every(word => entry.textContent.toLowerCase().includes(word));
});
field.dispatchEvent(new Event("input"));
if (location.protocol.startsWith("http")) {  // not from a disk: pages that were read open without a network, and the course can be installed
  document.head.append(Object.assign(document.createElement("link"), {rel: "manifest", href: "manifest.webmanifest"}));
  navigator.serviceWorker?.register("offline.js");
}
