/** A small live chart: a title, its last value, and lines or dots on a canvas with round ticks. */
import { roundRange, short, ticks } from "./axis.js";
import { chartFigure } from "./figure.js";
import { firstFrom } from "./series.js";
import { Surface, say } from "./surface.js";
import { DRAW, line } from "./traces.js";

const ROOM = { top: 10, right: 12, bottom: 22, left: 44 };

export class Chart {
  /**
   * parts: [{series, kind: "line" | "steps" | "dots" | "marks", colour: "--oh"}]; the first line or steps are named and
   * read out. options: title; note; value(y), x(x), tick(y) and tickX(x), all to text; least (height of the y axis);
   * from (its lowest value or null) and to (its highest); whole (only whole numbers on it); smallestX (between two
   * ticks); span(series, now) -> [low, high] of x or null; shift() -> what is now, where x is time.
   */
  constructor(parts, options) {
    this.parts = parts;
    this.main = parts.find((part) => part.kind === "line" || part.kind === "steps").series;
    this.options = { from: 0, least: 1, tick: short, span: null, shift: () => 0, ...options };
    Object.assign(this, chartFigure(options.title, {
      choose: (left) => (left === null ? this.choose(null) : this.point(left)),
      focus: () => this.choose(this.main.length - 1),
      key: (event) => this.step(event),
    }));
    this.surface = new Surface(this.canvas, (context, width, height) => this.paint(context, width, height));
    this.chosen = null;
    this.update();
  }

  /** Call when a series has grown. */
  update() {
    const { title, value, x, note, shift } = this.options;
    const n = this.main.length;
    this.last.textContent = n ? value(this.main.y(n - 1)) : "–";
    let told = "nothing yet";
    if (n) {
      const [low, high] = this.extent();
      const [begin, end] = [x(this.main.x(0) - shift()), x(this.main.x(n - 1) - shift())];
      told = `${value(this.main.y(n - 1))} last, ${value(low)} to ${value(high)} from ${begin} to ${end}`;
    }
    this.canvas.setAttribute("aria-label", `${title}: ${told}. ${note}. Arrow keys read single values.`);
    if (this.chosen === null) say(this.readout, n ? note : "nothing yet");
    this.surface.draw();
  }

  extent() {
    let [low, high] = [Infinity, -Infinity];
    for (let i = 0; i < this.main.length; i++) {
      low = Math.min(low, this.main.y(i));
      high = Math.max(high, this.main.y(i));
    }
    return [low, high];
  }

  point(left) {
    if (!this.scale || !this.main.length) return;
    const x = this.scale.invert(left);
    const after = Math.min(firstFrom(this.main, x), this.main.length - 1);
    const before = Math.max(after - 1, 0);
    this.choose(x - this.main.x(before) < this.main.x(after) - x ? before : after);
  }

  step(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -1e9, End: 1e9 };
    if (!(event.key in moves) || !this.main.length) return;
    event.preventDefault();
    const at = this.chosen === null ? this.main.length - 1 : firstFrom(this.main, this.chosen);
    this.choose(Math.max(0, Math.min(this.main.length - 1, at + moves[event.key])));
  }

  /** A value stays chosen by its x, as its place changes when the ring moves on. */
  choose(i) {
    const { value, x, note, shift } = this.options;
    this.chosen = i === null || i < 0 ? null : this.main.x(i);
    if (this.chosen !== null) say(this.readout, `${x(this.chosen - shift())}: ${value(this.main.y(i))}`);
    else say(this.readout, this.main.length ? note : "nothing yet");
    this.surface.draw();
  }

  paint(context, width, height) {
    const scale = this.measure(width, height);
    this.scale = scale;
    this.drawAxes(context, scale, width, height);
    for (const part of this.parts) DRAW[part.kind](context, part, scale, this.surface.colour(part.colour));
    if (!this.main.length) return;
    this.drawDot(context, scale, this.main.length - 1, 3);
    if (this.chosen !== null) this.drawChosen(context, scale);
  }

  /** Where a value lies: the x axis spans what is shown, the y axis all values of it. */
  measure(width, height) {
    const { span, from, least } = this.options;
    const now = this.options.shift();
    const n = this.main.length;
    const first = n ? this.main.x(0) : 0;
    const [left, right] = span ? span(this.main, now) : [first, Math.max(n ? this.main.x(n - 1) : 0, first + 1)];
    let low = from ?? Infinity;
    let high = -Infinity;
    for (const { series, kind } of this.parts) {
      if (kind === "marks") continue;
      for (let i = Math.max(firstFrom(series, left) - 1, 0); i < series.length; i++) {
        low = Math.min(low, series.y(i));
        high = Math.max(high, series.y(i));
      }
    }
    if (high < low) [low, high] = [from ?? 0, (from ?? 0) + least];
    [low, high] = roundRange(low, high, least, 3);
    if (this.options.to !== undefined) high = Math.min(high, Math.max(this.options.to, low + least));
    const inner = { left: ROOM.left, right: width - ROOM.right, top: ROOM.top, bottom: height - ROOM.bottom };
    return {
      ...inner, low, high, from: left, to: right, now,
      x: (value) => inner.left + ((value - left) / (right - left)) * (inner.right - inner.left),
      y: (value) => inner.bottom - ((value - low) / (high - low)) * (inner.bottom - inner.top),
      invert: (pixel) => left + ((pixel - inner.left) / (inner.right - inner.left)) * (right - left),
    };
  }

  drawAxes(context, scale, width, height) {
    const { tick, tickX = short, whole } = this.options;
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = this.surface.colour("--soft");
    context.strokeStyle = this.surface.colour("--rule");
    context.lineWidth = 1;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const value of ticks(scale.low, scale.high, 3, whole ? 1 : 0).values) {
      const y = Math.round(scale.y(value)) + 0.5;
      line(context, scale.left, y, scale.right, y);
      context.fillText(tick(value), scale.left - 7, y);
    }
    context.textBaseline = "alphabetic";
    context.textAlign = "center";
    const { now } = scale;
    const wished = width < 300 ? 2 : 4;
    for (const value of ticks(scale.from - now, scale.to - now, wished, this.options.smallestX ?? 1).values) {
      const text = tickX(value);
      const room = context.measureText(text).width / 2;
      const x = Math.min(Math.max(scale.x(value + now), scale.left + room), width - room - 1);
      context.fillText(text, x, height - 6);
    }
  }

  drawDot(context, scale, i, size) {
    context.fillStyle = this.surface.colour(this.parts.find((part) => part.series === this.main).colour);
    context.beginPath();
    // The last value of steps holds until now.
    const steps = this.parts.some((part) => part.series === this.main && part.kind === "steps");
    const x = steps && i === this.main.length - 1 ? scale.to : this.main.x(i);
    context.arc(scale.x(x), scale.y(this.main.y(i)), size, 0, 2 * Math.PI);
    context.fill();
  }

  drawChosen(context, scale) {
    const i = Math.min(firstFrom(this.main, this.chosen), this.main.length - 1);
    const x = Math.round(scale.x(this.main.x(i))) + 0.5;
    if (x < scale.left) return;
    context.strokeStyle = this.surface.colour("--soft");
    line(context, x, scale.top, x, scale.bottom);
    context.fillStyle = this.surface.colour("--ink");
    context.beginPath();
    context.arc(x, scale.y(this.main.y(i)), 4, 0, 2 * Math.PI);
    context.fill();
  }
}
