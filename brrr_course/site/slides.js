
// -- slides: one section at a time, by arrow keys; the address keeps which
const deck = [...document.querySelectorAll(".deck > section")], [back, where, on] = document.querySelectorAll("#turn > :not(a)");
let here = 0;
function fit() {  // a slide that is too long is set smaller, and scrolls where that is not enough
  const {style} = document.documentElement, slide = deck[here];
  for (const size of [1, .9, .8, .7, .85]) {
    style.setProperty("--fit", size);
    if (slide.scrollHeight <= slide.clientHeight + 1) break;
  }
}
function turn(to) {
  here = Math.min(Math.max(to, 0), deck.length - 1);
  deck.forEach((slide, n) => { slide.hidden = n !== here; });
  where.textContent = `${here + 1} of ${deck.length}`;
  [back.disabled, on.disabled] = [here === 0, here === deck.length - 1];
  history.replaceState(null, "", `#${here + 1}`);
  fit();
  deck[here].scrollTop = 0;
  deck[here].focus({preventScroll: true});
}
const KEYS = {ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1, Home: -Infinity, End: Infinity};
addEventListener("keydown", event => {
  if (event.key === "Escape") document.activeElement.blur();  // away from a slider, whose arrow keys are its own
  if (!(event.key in KEYS) || event.target.matches("input, select, textarea") || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  turn(here + KEYS[event.key]);
});
back.addEventListener("click", () => turn(here - 1));
on.addEventListener("click", () => turn(here + 1));
for (const name of ["resize", "submit", "toggle"]) addEventListener(name, () => requestAnimationFrame(fit), true);
const grown = new ResizeObserver(() => requestAnimationFrame(fit));  // a figure draws itself once its slide is seen
document.querySelectorAll(".view").forEach(each => grown.observe(each));
addEventListener("beforeprint", () => {  // all slides are seen on paper
  deck.forEach(slide => { slide.hidden = false; });
  document.querySelectorAll(".view").forEach(each => each.view?.drawn?.again());
});
addEventListener("afterprint", () => turn(here));
addEventListener("hashchange", () => { if (+location.hash.slice(1)) turn(location.hash.slice(1) - 1); });
deck.forEach((slide, n) => Object.assign(slide, {tabIndex: 0, ariaRoleDescription: "slide", ariaLabel: `${n + 1} of ${deck.length}`}));
turn((parseInt(location.hash.slice(1)) || 1) - 1);
