/** The map: items whose codes are near lie near, and the picture flows as codes change. */
import { Camera } from "./camera.js";
import { count, make } from "./elements.js";
import { Embedding } from "./embedding.js";
import { Groups } from "./groups.js";
import { Codes, agreement } from "./hamming.js";
import { Legend } from "./legend.js";
import { colourOf, mark } from "./palette.js";
import { Pop } from "./pop.js";
import { Spread } from "./spread.js";
import { Sprites } from "./sprites.js";
import "./style.js";
import { Surface, calm, say } from "./surface.js";

const BETWEEN = 1500; // milliseconds between two looks at the codes
const GAP = 0.78; // room between two items, in sizes of one
const SLICE = 9; // milliseconds of a frame that may go into the embedding
const KEYS = "Wheel or pinch to zoom, drag to move; keys: + − 0 and arrows, Enter searches from the item in the "
  + "middle. Axes have no meaning, only nearness has.";

export function mount(section, context) {
  const map = new CodeMap(section, context);
  map.load();
  return { show: () => map.show(), hide: () => map.hide() };
}

class CodeMap {
  constructor(section, context) {
    const { api, live, about, onPick } = context;
    Object.assign(this, { api, about, onPick, n: about.n, visible: true });
    this.embedding = new Embedding();
    this.spread = new Spread();
    this.groups = new Groups();
    this.legend = new Legend(() => this.surface.draw());
    this.pop = new Pop(context);
    this.sprites = about.pictures ? new Sprites(api, () => this.surface.draw()) : null;
    this.shown = null; // the place of the item whose card is shown
    this.build(section);
    this.surface = new Surface(this.canvas, (drawing, width, height) => this.paint(drawing, width, height));
    this.camera = new Camera(this.canvas, () => this.looked(), (x, y) => this.tap(x, y));
    live.on("refreshed", () => this.stale());
    live.on("items", ({ n }) => {
      this.n = n;
      this.stale();
    });
  }

  build(section) {
    const colours = this.about.label ? `coloured by ${this.about.label}` : "coloured by cluster";
    this.canvas = make("canvas.map-canvas", {
      tabindex: 0, role: "application", "aria-label": "map of the codes", "aria-describedby": "map-keys",
      pointermove: (event) => this.hover(event), pointerleave: () => this.choose(null),
      focus: () => this.chooseMiddle(), blur: () => this.choose(null),
      keydown: (event) => { if (event.key === "Enter") this.pick(); },
    });
    this.note = make("p.map-note", { role: "status" }, "fetching codes");
    this.agreement = make("p.map-agreement", { hidden: true });
    const button = (text, title, click) => make("button", { type: "button", "aria-label": title, title, click }, text);
    const buttons = make("div.map-buttons", { role: "group", "aria-label": "zoom" },
      button("+", "closer", () => this.camera.closer(1.5)),
      button("−", "farther", () => this.camera.closer(1 / 1.5)),
      button("0", "show everything", () => this.camera.whole()));
    section.append(
      make("p.view-lead", {},
        `Items with similar codes lie together, ${colours}. As the model learns, codes change and the map flows.`),
      make("div.map-head", {}, this.agreement, this.note),
      make("div.map-frame", {}, this.canvas, this.pop.element, buttons),
      this.legend.list,
      make("p.note", { id: "map-keys" }, KEYS),
    );
  }

  show() {
    this.visible = true;
    if (this.missed) this.load();
    this.run();
  }

  hide() {
    this.visible = false;
  }

  /** Codes have changed: look again, but not too often, and not while nobody looks. */
  stale() {
    if (!this.visible || this.loading) this.missed = true;
    else this.waiting ||= setTimeout(() => this.load(), Math.max(0, BETWEEN - (performance.now() - this.loadedAt)));
  }

  async load() {
    clearTimeout(this.waiting);
    [this.waiting, this.missed, this.loading] = [0, false, true];
    try {
      this.take(await this.api.get("/v1/map?limit=600"));
    } catch (error) {
      say(this.note, error.message);
    }
    this.loading = false;
    this.loadedAt = performance.now();
    if (this.missed && this.visible) this.stale();
  }

  take({ ids, codes: hexes, labels, n_bits, n_models }) {
    if (!ids.length) return say(this.note, "There are no items yet: the map begins with the first ones.");
    const shown = this.shown === null ? -1 : ids.indexOf(this.embedding.ids[this.shown]);
    const codes = new Codes(hexes, n_bits, n_models);
    const distances = codes.distances();
    this.groups.renew(ids, codes, labels);
    this.legend.show(this.groups.names);
    this.embedding.renew(ids, distances);
    this.spread.renew(this.embedding);
    this.sprites?.want(ids);
    this.tellAgreement(labels ? agreement(distances, labels) : null);
    say(this.note, ids.length < this.n ? `${ids.length} of ${count(this.n, "item")}` : count(ids.length, "item"));
    if (shown < 0) this.choose(null);
    else this.shown = shown; // the same item, whatever its place is now
    this.moving = true;
    return this.run();
  }

  tellAgreement(share) {
    this.agreement.hidden = share === null;
    if (share === null) return;
    const now = Math.round(100 * share);
    this.first ??= now;
    const gained = now - this.first;
    const since = gained ? `, ${gained > 0 ? "+" : "−"}${Math.abs(gained)} since you opened the map` : "";
    const words = ` of the 10 nearest codes carry the same ${this.about.label ?? "label"}${since}`;
    this.agreement.replaceChildren(make("strong", {}, `${now} %`), words);
  }

  run() {
    if (!this.visible || this.running || !this.moving) return;
    this.running = true;
    requestAnimationFrame(() => this.frame());
  }

  frame() {
    this.running = false;
    const { embedding, spread, surface, camera } = this;
    const stop = performance.now() + SLICE;
    while (!embedding.settled && performance.now() < stop) embedding.step();
    if (!this.levelled && !embedding.young) {
      this.levelled = true;
      embedding.level(surface.height > surface.width);
    }
    if (surface.width) {
      const gap = camera.fitted ? (GAP * this.size()) / camera.fitted.scale : 1e-3;
      const moved = spread.step(embedding.x, embedding.y, gap);
      const share = embedding.young || calm.matches ? 1 : 1 - 0.9 ** this.sixtieths();
      const breathed = camera.fit(spread, surface.width, surface.height, this.size(), share);
      this.moving = !embedding.settled || moved > 0.02 || breathed > 0.002;
    }
    // Where people asked for calm, only the finished picture is shown.
    if (!calm.matches || !this.moving) surface.draw();
    this.run();
  }

  /** How long the last frame took, so that the picture breathes as fast where frames are slow. */
  sixtieths() {
    const [before, now] = [this.drawnAt ?? 0, performance.now()];
    this.drawnAt = now;
    return Math.min(10, (60 * (now - before)) / 1000);
  }

  /** How large an item is drawn while everything fits: together they fill a part of the frame. */
  size() {
    return Math.max(9, Math.sqrt((this.surface.width * this.surface.height) / this.embedding.n) * 0.52);
  }

  paint(drawing, width, height) {
    const { camera, legend, groups, embedding } = this;
    if (!embedding.n || !camera.fitted) return;
    if (width !== camera.width || height !== camera.height) camera.fit(this.spread, width, height, this.size(), 1);
    const size = Math.min(64, this.size() * camera.zoom ** 0.8);
    for (let i = 0; i < embedding.n; i++) {
      drawing.globalAlpha = legend.single === null || legend.single === groups.of[i] ? 0.95 : 0.1;
      if (i !== this.shown) this.drawItem(drawing, i, size);
    }
    drawing.globalAlpha = 1;
    if (this.shown !== null) this.drawShown(drawing, size);
  }

  /** Where an item is on the canvas. */
  at(i) {
    return [this.camera.x(this.spread.x[i]), this.camera.y(this.spread.y[i])];
  }

  drawItem(drawing, i, size) {
    const [x, y] = this.at(i);
    if (x < -size || y < -size || x > this.surface.width + size || y > this.surface.height + size) return;
    const colour = colourOf(this.groups.of[i], this.surface.dark);
    const picture = this.sprites?.get(this.embedding.ids[i], colour);
    if (!picture) {
      mark(drawing, this.groups.of[i], x, y, Math.min(size * (this.sprites ? 0.16 : 0.34), 9));
      drawing.fillStyle = colour;
      drawing.fill();
      return;
    }
    const larger = Math.max(picture.image.width, picture.image.height);
    const [w, h] = [(size * picture.image.width) / larger, (size * picture.image.height) / larger];
    drawing.drawImage(picture.image, x - w / 2, y - h / 2, w, h);
    if (picture.ink) return;
    drawing.strokeStyle = colour;
    drawing.lineWidth = 2;
    drawing.strokeRect(x - w / 2, y - h / 2, w, h);
  }

  drawShown(drawing, size) {
    const large = Math.max(size * 1.5, 22);
    const [x, y] = this.at(this.shown);
    drawing.beginPath();
    drawing.arc(x, y, large * 0.78, 0, 2 * Math.PI);
    drawing.fillStyle = this.surface.colour("--paper");
    drawing.fill();
    drawing.strokeStyle = colourOf(this.groups.of[this.shown], this.surface.dark);
    drawing.lineWidth = 2;
    drawing.stroke();
    this.drawItem(drawing, this.shown, large);
    this.pop.place(x, y, large, this.surface.width, this.surface.height);
  }

  /** The item nearest to a place on the canvas, within reach. */
  nearest(x, y, reach) {
    let [best, closest] = [null, reach];
    for (let i = 0; this.camera.fitted && i < this.embedding.n; i++) {
      const [left, top] = this.at(i);
      const far = Math.hypot(left - x, top - y);
      if (far < closest) [best, closest] = [i, far];
    }
    return best;
  }

  hover(event) {
    if (event.pointerType === "touch") return;
    this.choose(this.camera.dragging ? null : this.nearest(event.offsetX, event.offsetY, 22));
  }

  /** With a mouse a click opens what is shown; a finger first shows it, as it cannot hover. */
  tap(x, y) {
    const found = this.nearest(x, y, 28);
    if (found !== null && found === this.shown) this.pick();
    else this.choose(found);
  }

  pick() {
    if (this.shown !== null) this.onPick(this.embedding.ids[this.shown]);
  }

  looked() {
    this.chooseMiddle();
    this.surface.draw();
  }

  /** With the keyboard, what lies in the middle is pointed at. */
  chooseMiddle() {
    if (!this.canvas.matches(":focus-visible")) return;
    this.choose(this.nearest(this.surface.width / 2, this.surface.height / 2, Infinity));
  }

  choose(i) {
    if (i === this.shown) return;
    this.shown = i;
    this.canvas.style.cursor = i === null ? "grab" : "pointer";
    if (i === null) this.pop.hide();
    else this.tell(this.embedding.ids[i]);
    this.surface.draw();
  }

  async tell(id) {
    const words = await this.pop.show(id);
    if (words === null) return;
    this.canvas.setAttribute("aria-label", `map of the codes; shown: ${words}`);
    this.surface.draw();
  }
}
