/** The frame of a chart: its title, its last value, a canvas, and a line that says in words what is pointed at. */
import { make } from "./elements.js";

/** `choose(left, top)` hears of the pointer, `choose(null)` that it went, `focus` and `key` of the keyboard. */
export function chartFigure(title, { choose, focus, key }) {
  const last = make("strong.chart-last", {}, "–");
  const canvas = make("canvas.chart-canvas", {
    tabindex: 0, role: "img", focus, keydown: key, blur: () => choose(null),
    pointermove: (event) => choose(event.offsetX, event.offsetY), pointerleave: () => choose(null),
  });
  const readout = make("p.chart-readout", { "aria-live": "polite" });
  const caption = make("figcaption", {}, make("span.chart-title", {}, title), last);
  return { figure: make("figure.chart", {}, caption, canvas, readout), canvas, last, readout };
}
