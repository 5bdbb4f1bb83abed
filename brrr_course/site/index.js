// The index: a figure to move, which lessons this browser has done, and a search over all pages.
const made = (tag, props, ...children) => children.reduce((all, each) => (all.append(each), all), Object.assign(document.createElement(tag), props));
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
  if (done) lesson.querySelector(".told").append(made("span", {className: done === all ? "tick" : "begun"}, done === all ? "✓ done" : `${done} of ${all} answered`));
}

// -- the search: a page has fields, each with its weight, its words, and the heading below which they stand
const split = text => text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [], words = text => split(text.replace(/s/gi, "z"));  // British or American
const address = text => split(text.replaceAll("'", "")).join("-");
const field = (weight, text, heading = "") => ({weight, words: words(text), heading}), common = field(.5, "");
const data = JSON.parse(document.querySelector("#index").textContent);
const parts = Object.entries(data.parts).flatMap(([name, headings]) => headings.map(heading => ({name, ...field(1, "", heading)})));
for (const [word, ...steps] of data.words.split(" ").map(each => each.split(","))) {
  const found = steps.map((at => step => parts[at += parseInt(step, 36)])(0));
  for (const each of found.length ? found : [common]) each.words.push(...words(word));
}
const pages = [...document.querySelectorAll(".card .told, .asked li")].map(each => {
  const [link, {textContent: said} = {textContent: ""}] = each.children, name = link.getAttribute("href").replace(".html", "");
  const own = parts.filter(part => part.name === name), also = `${name.replaceAll("_", " ")} ${each.dataset.also ?? ""}`;
  const fields = [field(said ? 8 : 4, link.textContent), field(4, said), field(6, also), ...own, ...own.map(({heading}) => field(2, heading, heading))];
  return {name, title: link.textContent, said, fields: said ? [...fields, common] : fields};
});
for (const [title, said] of Object.entries(data.terms)) pages.push({name: `term-${address(title)}`, title, said, fields: [field(8, title), field(1, said)]});
const EMPTY = new Set(words("a an and are as at be by can do does for from how i if in is it its my no not of on or so that the there this to was what when where which who why will with you your"));
function matching(stem) {  // the words that begin so; where there are none, those that do but for one slip of the keyboard
  const slips = [...stem].map((letter, n) => `${stem.slice(0, n)}(.{0,2}${stem.slice(n + 1)}|${stem[n + 1] ?? ""}${letter}${stem.slice(n + 2)})`);
  const begins = new RegExp(`^${stem}`), known = pages.some(({fields}) => fields.some(each => each.words.some(word => begins.test(word))));
  return known || stem.length < 5 ? begins : new RegExp(`^(${slips.join("|")})`);
}
function rated(page, asked) {  // how many of the words a page has, how well, and below which heading the most
  const by = {"": 0}, best = asked.map(pattern => Math.max(0, ...page.fields.filter(each => each.words.some(word => pattern.test(word))).map(({heading, weight}) => {
    by[heading] = (by[heading] ?? 0) + weight;
    return weight;
  })));
  return {...page, heading: Object.keys(by).reduce((a, b) => by[b] > by[a] ? b : a), count: best.filter(Boolean).length, score: best.reduce((a, b) => a + b, 0)};
}
const pairs = text => [...text.toLowerCase()].map((letter, n, all) => letter + all[n + 1]);
const search = document.querySelector("#find"), [nothing, list] = document.querySelector("search div").children;
(search.oninput = () => {
  const all = words(search.value), telling = all.filter(word => !EMPTY.has(word));
  const asked = (telling.length ? telling : all).map(word => matching(word.replace(/(?<=...)(?:ing|ed|ez|z|e)$|(?<=....)er$/, "")));
  const found = pages.map(page => rated(page, asked)).sort((a, b) => b.count - a.count || b.score - a.score);
  const hits = found.filter(({count}) => count && count === found[0].count).slice(0, 10), typed = pairs(search.value);
  list.replaceChildren(...hits.map(({name, title, heading, said}) => made("li", {}, made("a", {href: `${name}.html${heading && "#"}${address(heading)}`}, title), made("span", {className: "origin"}, heading || said))));
  nothing.hidden = !all.length || hits.length > 0;
  const near = Object.keys(data.terms).map(term => [pairs(term).filter(pair => typed.includes(pair)).length, term]).sort(([a], [b]) => b - a).slice(0, 3);
  nothing.replaceChildren("Nothing found; try ", ...near.map(([, term]) => made("button", {type: "button", onclick: () => { search.value = term; search.oninput(); search.focus(); }}, term)));
})();
if (location.protocol.startsWith("http")) {  // not from a disk: pages that were read open without a network, and the course can be installed
  document.head.append(made("link", {rel: "manifest", href: "manifest.webmanifest"}));
  navigator.serviceWorker?.register("offline.js");
}
