/** Which colour is what; a click singles one out, another click shows all again. */
import { make } from "./elements.js";
import { colourOf, mark } from "./palette.js";
import { Surface } from "./surface.js";

const SHOWN = 24;

export class Legend {
  /** changed() is called when `single` has changed: the place of the only group to show, or null. */
  constructor(changed) {
    this.changed = changed;
    this.single = null;
    this.names = [];
    this.list = make("div.legend", { role: "group", "aria-label": "show only" });
  }

  show(names) {
    if (names.length === this.names.length && names.every((name, i) => name === this.names[i])) return;
    this.names = names;
    this.single = null;
    this.buttons = names.slice(0, SHOWN).map((name, i) => {
      const swatch = make("canvas.swatch", { "aria-hidden": "true" });
      const surface = new Surface(swatch, (context, width, height) => {
        mark(context, i, width / 2, height / 2, Math.min(width, height) * 0.38);
        context.fillStyle = colourOf(i, surface.dark);
        context.fill();
      });
      return make("button", { type: "button", "aria-pressed": "false", click: () => this.pick(i) }, swatch, name);
    });
    const rest = names.length - SHOWN;
    this.list.replaceChildren(...this.buttons, ...(rest > 0 ? [make("span.note", {}, `and ${rest} more`)] : []));
  }

  pick(i) {
    this.single = this.single === i ? null : i;
    this.buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(at === this.single)));
    this.changed();
  }
}
