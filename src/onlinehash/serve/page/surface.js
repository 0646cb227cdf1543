/** A canvas that is crisp on any screen, draws at most once a frame and only while it can be seen. */

const dark = matchMedia("(prefers-color-scheme: dark)");
export const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class Surface {
  /** paint(context, width, height) draws in CSS pixels on an empty canvas. */
  constructor(canvas, paint) {
    this.canvas = canvas;
    this.paint = paint;
    this.context = canvas.getContext("2d");
    this.colours = new Map();
    this.width = 0;
    this.height = 0;
    new ResizeObserver(() => this.fit()).observe(canvas);
    dark.addEventListener("change", () => {
      this.colours.clear();
      this.draw();
    });
  }

  get dark() {
    return dark.matches;
  }

  /** The value of a CSS variable such as --ink, as the canvas sees it. */
  colour(name) {
    if (!this.colours.has(name)) this.colours.set(name, getComputedStyle(this.canvas).getPropertyValue(name).trim());
    return this.colours.get(name);
  }

  fit() {
    const { width, height } = this.canvas.getBoundingClientRect();
    this.width = width;
    this.height = height;
    this.ratio = Math.min(devicePixelRatio || 1, 3);
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(height * this.ratio);
    this.colours.clear();
    this.drawNow(); // a canvas loses its picture with its size
  }

  draw() {
    if (this.frame || !this.width) return;
    this.frame = requestAnimationFrame(() => this.drawNow());
  }

  drawNow() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    if (!this.width) return;
    this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.context.clearRect(0, 0, this.width, this.height);
    this.paint(this.context, this.width, this.height);
  }
}

/** Text that a screen reader follows: it changes only where the words do. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
