/** The pairs marked since the page was opened. */
import { make } from "./elements.js";

export class Said {
  /** `small(subject)` makes a card without facts for the list. */
  constructor(small) {
    this.small = small;
    this.marks = new Map();
    this.list = make("ol");
    this.element = make("div.said", { hidden: true }, make("h3", {}, "You said"), this.list);
  }

  /** What was said of a pair: true, false or undefined. */
  of(key) {
    return this.marks.get(key);
  }

  add(key, a, b, similar, outcome) {
    this.marks.set(key, similar);
    this.element.hidden = false;
    const [sign, words] = similar ? ["≈", "similar"] : ["≠", "not similar"];
    this.list.prepend(make("li", {},
      this.small(a), make("span.sign", { "aria-hidden": "true" }, sign), this.small(b),
      make("span", {}, make("span", {}, words), make("span.soft", {}, outcome))));
  }
}
