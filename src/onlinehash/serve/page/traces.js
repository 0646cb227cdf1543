/** What a chart draws inside its axes: lines, steps, dots, and marks below. */
import { firstFrom } from "./series.js";

export function line(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

function trace(context, series, scale, colour, steps) {
  context.save();
  context.beginPath();
  context.rect(scale.left, scale.top - 4, scale.right - scale.left + 4, scale.bottom - scale.top + 8);
  context.clip();
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.lineJoin = "round";
  context.beginPath();
  let y = 0;
  for (let i = Math.max(firstFrom(series, scale.from) - 1, 0); i < series.length; i++) {
    const x = scale.x(series.x(i));
    if (steps && i > 0) context.lineTo(x, y);
    y = scale.y(series.y(i));
    context.lineTo(x, y);
  }
  if (steps && series.length) context.lineTo(scale.x(scale.to), y);
  context.stroke();
  context.restore();
}

/** How the parts of a chart are drawn, by their kind. */
export const DRAW = {
  line: (context, { series }, scale, colour) => trace(context, series, scale, colour, false),
  steps: (context, { series }, scale, colour) => trace(context, series, scale, colour, true),
  dots(context, { series }, scale, colour) {
    context.fillStyle = colour;
    context.globalAlpha = 0.4;
    for (let i = firstFrom(series, scale.from); i < series.length; i++) {
      context.fillRect(scale.x(series.x(i)) - 1, scale.y(series.y(i)) - 1, 2, 2);
    }
    context.globalAlpha = 1;
  },
  marks(context, { series }, scale, colour) {
    context.strokeStyle = colour;
    context.lineWidth = 1;
    for (let i = firstFrom(series, scale.from); i < series.length; i++) {
      const x = scale.x(series.x(i));
      line(context, x, scale.bottom + 1, x, scale.bottom + 6);
    }
  },
};
