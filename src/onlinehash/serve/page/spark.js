/** A line of how a number went, small enough to stand in a sentence. */
import { draw } from "./elements.js";

const [WIDTH, HEIGHT, MARGIN] = [120, 28, 4];

/** `values` from 0 to `most`, oldest first. */
export function sparkline(values, most) {
  const step = (WIDTH - 2 * MARGIN) / Math.max(values.length - 1, 1);
  const points = values.map((value, at) =>
    [MARGIN + at * step, HEIGHT - MARGIN - (value / most) * (HEIGHT - 2 * MARGIN)].map((one) => one.toFixed(1)));
  const [x, y] = points.at(-1);
  const size = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT };
  return draw("svg", { class: "spark", ...size, "aria-hidden": "true" },
    draw("path", { class: "base", d: `M${MARGIN} ${HEIGHT - MARGIN}H${WIDTH - MARGIN}` }),
    draw("polyline", { points: points.map((point) => point.join(",")).join(" ") }),
    draw("circle", { cx: x, cy: y, r: 3 }));
}
