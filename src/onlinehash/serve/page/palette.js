/**
 * Colours that people with any colour vision can tell apart (after Paul Tol's muted scheme, darker on light paper and
 * lighter on dark), and marks for what has no picture: after ten colours the shape changes.
 */

const LIGHT = [
  "#332288", "#cc5066", "#117733", "#3c9ccc", "#882255",
  "#a8902a", "#2f9e8d", "#aa4499", "#6f7a1c", "#7d838b",
];
const DARK = [
  "#9d90f0", "#f08a9a", "#52bd72", "#88ccee", "#d0709b",
  "#ddcc77", "#5fd0bc", "#da8acd", "#b9c05a", "#b4bac1",
];

export function colourOf(place, dark) {
  return (dark ? DARK : LIGHT)[place % LIGHT.length];
}

const SHAPES = [
  (context, x, y, r) => context.arc(x, y, r, 0, 2 * Math.PI),
  (context, x, y, r) => context.rect(x - r * 0.9, y - r * 0.9, r * 1.8, r * 1.8),
  (context, x, y, r) => corners(context, [[x, y - r * 1.2], [x + r * 1.2, y + r * 0.9], [x - r * 1.2, y + r * 0.9]]),
  (context, x, y, r) => corners(context, [[x, y - r * 1.25], [x + r * 1.25, y], [x, y + r * 1.25], [x - r * 1.25, y]]),
];

/** The path of the mark of a group: filled or stroked by whoever asks. */
export function mark(context, place, x, y, r) {
  context.beginPath();
  SHAPES[Math.floor(place / LIGHT.length) % SHAPES.length](context, x, y, r);
}

function corners(context, points) {
  for (const [x, y] of points) context.lineTo(x, y);
  context.closePath();
}
