// Numbers as the figures write them, and where sliders stand: for all that draws a scene.

const keep = (value, low, high) => Math.min(Math.max(value, low), high);

const PREFIXES = "qryzafpnµm kMGTPEZYRQ"; // a thousand apart, from 10^-30
const BARE = [0, 0], COUNTED = [0, 30];
const POWERS = { s: [-30, 0], B: COUNTED, FLOP: COUNTED, "B/s": COUNTED, "FLOP/s": COUNTED, "IOP/s": COUNTED, x: BARE, "%": BARE, "FLOP/B": BARE, "": BARE };

// Intl rounds a text on the digits that a person reads, halves away from zero; of a number it would see the binary value.
const formatted = (text, options) => new Intl.NumberFormat("en", { useGrouping: false, ...options }).format(text);
/** Mantissa and power of ten, both as texts. */
export const rounded = (value, digits) => formatted(String(value), { notation: "scientific", maximumSignificantDigits: digits }).split("E");
export const plain = (mantissa, power) => formatted(`${mantissa}e${power}`, { maximumSignificantDigits: 21 });

/** A value with its unit, as `brrr.core.units.quantity` writes it, but a ratio with the sign ×. */
export function si(value, unit, digits = 3) {
  if (!Number.isFinite(value)) return "∞"; // a rate whose time may be nothing
  if (unit === "share") return si(100 * value, "%", value < 0.1 ? 1 : 2);
  const [mantissa, power] = rounded(value, digits), [lowest, highest] = POWERS[unit] ?? [-30, 30];
  const prefix = keep(3 * Math.floor(power / 3), lowest, highest), number = plain(mantissa, power - prefix);
  return unit === "x" ? `${number}×` : `${number} ${PREFIXES[prefix / 3 + 10].trim()}${unit}`.trim();
}

/** Where all sliders stand, as one number; without the slider `but`, as a line's cuts are counted. */
export function placeOf({ scene, at }, but = -1) {
  return scene.sliders.reduce((place, slider, i) => (i === but ? place : place * slider.texts.length + at[i]), 0);
}
