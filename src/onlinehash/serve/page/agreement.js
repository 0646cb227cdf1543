/** How many of the neighbours carry the query's label, and how that went. */
import { make } from "./elements.js";
import { sparkline } from "./spark.js";

const KEPT = 60;

export class Agreement {
  constructor(about) {
    this.about = about;
    this.text = make("span");
    this.line = make("span");
    this.element = make("p.agreement", { hidden: true }, this.text, this.line);
    this.values = [];
    this.state = null;
  }

  clear() {
    this.values = [];
    this.state = null;
    this.element.hidden = true;
  }

  /** Counts anew; only what was learned since (another `state`) makes another point. Gives back the sentence. */
  show(query, hits, state) {
    const field = this.about.label;
    const label = field ? query.payload?.[field] : undefined;
    this.element.hidden = label === undefined || hits.length === 0;
    if (this.element.hidden) return "";
    const same = hits.filter((hit) => hit.payload?.[field] === label).length;
    if (state !== this.state || !this.values.length) this.values = [...this.values, same].slice(-KEPT);
    this.values[this.values.length - 1] = same;
    this.state = state;
    const rest = ` of ${hits.length} ${this.about.pictures ? "show" : "have"} the same ${field}`;
    this.text.replaceChildren(make("b", {}, String(same)), rest);
    this.line.replaceChildren(...(this.values.length > 1 ? [sparkline(this.values, hits.length)] : []));
    return `${same}${rest}`;
  }
}
