"""Where a figure's words stand: which of them cover each other, or a point, or leave the page."""

from typing import Any

from opened import Opened

_COVERED = """async places => {
  for (let frame = 0; frame < 3; frame++)  // until what glides is there
    await new Promise(drawn => requestAnimationFrame(drawn));
  const box = (all, matrix) => {
    const at = all.flatMap(({x, y, width: w, height: h}) => [[x, y], [x + w, y], [x, y + h], [x + w, y + h]])
      .map(([x, y]) => new DOMPoint(x, y).matrixTransform(matrix));
    return [Math.min, Math.max].flatMap(end => [end(...at.map(p => p.x)), end(...at.map(p => p.y))]);
  };
  const letters = text => [...Array(text.getNumberOfChars()).keys()].filter(n => text.textContent[n] !== ' ')
    .map(n => box([text.getExtentOfChar(n)], text.getScreenCTM()));  // a slanted word has none that is its own
  const over = (one, other, least) => [0, 1].every(way =>
    Math.min(one[way + 2], other[way + 2]) - Math.max(one[way], other[way]) > least);
  const seen = each => each.getClientRects().length && getComputedStyle(each).visibility !== 'hidden';
  const found = [];
  document.querySelectorAll('.view').forEach((view, n) => {
    const scene = brrr.D.view[view.dataset.at].scene;
    for (const part of scene && view.view ? places : []) {
      view.view.drawn.stand(scene.sliders.map(each => Math.round(part * (each.texts.length - 1))));
      const words = [...view.querySelectorAll('.plot text')].filter(each => each.textContent && seen(each))
        .map(each => [each.textContent, letters(each)]);
      const points = [...view.querySelectorAll('circle.here')]
        .map(each => ['a point', [box([each.getBBox()], each.getScreenCTM())]]);
      const told = (one, other) => found.push(`figure ${n} at ${part}: ${one} over ${other}`);
      for (const [i, [one, boxes]] of words.entries()) {
        for (const [other, others] of [...words.slice(i + 1), ...points])
          if (boxes.some(a => others.some(b => over(a, b, other === 'a point' ? 3 : 4)))) told(one, other);
        if (boxes.some(([left, , right]) => left < -1 || right > innerWidth + 1)) told(one, "the page's edge");
      }
    }
  });
  return found;
}"""


def covered(page: Opened, width: int, places: tuple[float, ...] = (0, 0.25, 0.5, 0.75, 1)) -> list[str]:
    """What covers what in the figures of a page, with their sliders so far along."""
    page.page.set_viewport_size({"width": width, "height": 900})
    page.page.emulate_media(reduced_motion="reduce")
    page.page.wait_for_timeout(300)  # until the figures have seen their new width
    found: Any = page.page.evaluate(_COVERED, places)
    return list(found)
