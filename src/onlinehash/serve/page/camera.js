/** Where one looks: everything fits at first; wheel, pinch, drag and keys look closer. */

const CLOSEST = 24;

export class Camera {
  /** changed() is called after every movement of the user's; tapped(x, y) when a press did not become a drag. */
  constructor(canvas, changed, tapped) {
    this.canvas = canvas;
    this.changed = changed;
    this.tapped = tapped;
    this.zoom = 1;
    this.moved = { x: 0, y: 0 };
    this.fitted = null;
    this.fingers = new Map();
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.drag(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => this.up(event));
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  /**
   * Keep all places {x, y} inside, `room` pixels from the edge; `share` of the way at a time, so that the frame
   * breathes with the picture. Gives back how far the way still was.
   */
  fit({ x: xs, y: ys }, width, height, room, share) {
    const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const [wide, high] = [Math.max(right - left, 1e-3), Math.max(bottom - top, 1e-3)];
    const scale = Math.min((width - 2 * room) / wide, (height - 2 * room) / high);
    const wish = { x: (left + right) / 2, y: (top + bottom) / 2, scale };
    const old = this.fitted ?? wish;
    this.fitted = {
      x: old.x + share * (wish.x - old.x), y: old.y + share * (wish.y - old.y),
      scale: old.scale * (wish.scale / old.scale) ** share,
    };
    [this.width, this.height] = [width, height];
    const away = Math.hypot(wish.x - old.x, wish.y - old.y) / Math.max(wide, high);
    return Math.max(away, Math.abs(Math.log(wish.scale / old.scale)));
  }

  get scale() {
    return this.fitted.scale * this.zoom;
  }

  x(value) {
    return this.width / 2 + (value - this.fitted.x) * this.scale + this.moved.x;
  }

  y(value) {
    return this.height / 2 + (value - this.fitted.y) * this.scale + this.moved.y;
  }

  /** What lies at (x, y) stays there. */
  closer(factor, x = this.width / 2, y = this.height / 2) {
    const zoom = Math.max(1, Math.min(CLOSEST, this.zoom * factor));
    const grown = zoom / this.zoom;
    this.zoom = zoom;
    this.moved.x = (this.moved.x + this.width / 2 - x) * grown + x - this.width / 2;
    this.moved.y = (this.moved.y + this.height / 2 - y) * grown + y - this.height / 2;
    this.move(0, 0);
  }

  move(dx, dy) {
    // One never loses the picture: at most its edge comes to the middle.
    const [reachX, reachY] = [(this.width / 2) * this.zoom, (this.height / 2) * this.zoom];
    this.moved.x = this.zoom === 1 ? 0 : Math.max(-reachX, Math.min(reachX, this.moved.x + dx));
    this.moved.y = this.zoom === 1 ? 0 : Math.max(-reachY, Math.min(reachY, this.moved.y + dy));
    // A finger scrolls the page over a picture that fits, and the picture once it is larger than its frame.
    this.canvas.style.touchAction = this.zoom > 1 ? "none" : "pan-y";
    this.changed();
  }

  whole() {
    this.zoom = 1;
    this.move(0, 0);
  }

  wheel(event) {
    if (this.zoom === 1 && event.deltaY > 0) return; // nothing further out: the page scrolls
    event.preventDefault();
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    this.closer(Math.exp((-event.deltaY * lines) / 300), event.offsetX, event.offsetY);
  }

  down(event) {
    if (event.button) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.fingers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    this.way = this.fingers.size > 1 ? Infinity : 0;
  }

  drag(event) {
    const finger = this.fingers.get(event.pointerId);
    if (!finger) return;
    const others = [...this.fingers].filter(([id]) => id !== event.pointerId).map(([, other]) => other);
    const [dx, dy] = [event.offsetX - finger.x, event.offsetY - finger.y];
    this.way += Math.hypot(dx, dy);
    if (others.length) {
      const [{ x, y }] = others;
      const before = Math.hypot(finger.x - x, finger.y - y);
      this.closer(Math.hypot(event.offsetX - x, event.offsetY - y) / Math.max(before, 1), x, y);
    } else this.move(dx, dy);
    Object.assign(finger, { x: event.offsetX, y: event.offsetY });
  }

  up(event) {
    if (!this.fingers.delete(event.pointerId)) return;
    if (event.type === "pointerup" && this.way < 5) this.tapped(event.offsetX, event.offsetY);
  }

  get dragging() {
    return this.fingers.size > 0 && this.way >= 5;
  }

  key(event) {
    const far = 60;
    const actions = {
      "+": () => this.closer(1.4), "=": () => this.closer(1.4), "-": () => this.closer(1 / 1.4), 0: () => this.whole(),
      ArrowLeft: () => this.move(far, 0), ArrowRight: () => this.move(-far, 0),
      ArrowUp: () => this.move(0, far), ArrowDown: () => this.move(0, -far),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[event.key]();
  }
}
