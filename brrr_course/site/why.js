// The page that asks why GPU code is slow: at its top it measures the reader's GPU, at its end stand the guesses beside what was measured.
const byId = id => document.querySelector(`#${id}`);
if (navigator.gpu) {
  byId("yours").hidden = false;
  own.offer(figures.select("#yours"));
}
const ridge = found => {
  const {bytes_per_s: bytes, flop_per_s: flop} = found?.peaks ?? {};
  if (flop / bytes > 0) byId("ridge").textContent = `Yours (${own.nameOf(found)}) does ${si(flop, "FLOP/s")} and moves ${si(bytes, "B/s")}: its ridge point lies at ${si(flop / bytes, "FLOP/B")}.`;
};
own.onMeasured(ridge);
ridge(own.remembered());

const measured = n => {
  const {measured} = D.comparison.find(each => each.guess === n);
  return typeof measured === "string" ? measured : Math.abs(measured - 1) < .005 ? "the same" : si(measured, D.guess[n].unit);
};
const judged = (n, said) => {  // a choice, in the figure that waited for it
  const place = [...document.querySelectorAll(".view")].find(each => D.view[each.dataset.at].guess === n), right = measured(n);
  if (typeof said === "string") place.view.drawn.guess(said, said, said === right ? `You are right: it is ${right}.` : `You said ${said}; it is ${right}.`);
};
const row = (tag, cells) => $("tr", {}, ...cells.map(each => $(tag, {}, each)));
const listed = () => byId("guesses").replaceChildren($("table", {tabIndex: 0}, $("thead", {}, row("th", ["question", "you said", "measured"])), $("tbody", {},
  ...D.guess.map((asked, n) => row("td", [asked.question, ...(answered.has(n) ? [spoken(asked, answered.get(n)), measured(n)] : ["–", "guess first"])])))));
document.querySelectorAll(".after").forEach((told, n) => {  // what a guess would be told by
  const show = () => {
    told.hidden = !answered.has(n);
    if (answered.has(n)) judged(n, answered.get(n));
    listed();
  };
  show();
  waiting.set(n, [...(waiting.get(n) ?? []), show]);
});
