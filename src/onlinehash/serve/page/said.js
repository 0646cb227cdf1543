/** The pairs marked since the page was opened. */
import { textOf, titleOf } from "./cards.js";
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
    if ([a, b].every((one) => textOf(one) !== null)) {
      this.list.prepend(make("li.in-words", {}, make("span.what", { title: titleOf(a) }, titleOf(a)),
        make("span.what", { title: titleOf(b) },
          make("span.sign", { "aria-hidden": "true" }, sign), make("span.unseen", {}, words), ` ${titleOf(b)}`)));
      return;
    }
    this.list.prepend(make("li", {},
      this.small(a), make("span.sign", { "aria-hidden": "true" }, sign), this.small(b),
      make("span", {}, make("span", {}, words), make("span.soft", {}, outcome))));
  }
}
