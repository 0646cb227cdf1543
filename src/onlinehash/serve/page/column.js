/** A method among those compared. */
import { count, make, number } from "./elements.js";
import { glide } from "./glide.js";
import { sparkline } from "./spark.js";
import { say } from "./surface.js";

const TITLES = {
  IterativeQuantization: ["No feedback", "ITQ"],
  BlendedPairHashing: ["Blended", "BlendedPairHashing"],
  OnlineHashing: ["OH", "OnlineHashing"],
  MultiModelOnlineHashing: ["MMOH", "MultiModelOnlineHashing"],
};
const COLOURS = {
  LSH: "--lsh", IterativeQuantization: "--lsh", OnlineHashing: "--oh", MultiModelOnlineHashing: "--mmoh",
  BlendedPairHashing: "--blended",
};
const KEPT = 60; // values of the line that shows how it went

/** One method: what it costs, how good it is, what it finds. */
export class Column {
  constructor(name) {
    this.name = name;
    this.cards = new Map();
    this.past = [];
    this.facts = make("p.compare-facts");
    this.share = make("p.compare-share");
    this.bar = make("span.bar-fill");
    this.map = make("p.compare-map", {}, make("span"), make("span.bar", { "aria-hidden": "true" }, this.bar));
    this.hits = make("ol.compare-hits");
    const [title, more] = TITLES[name] ?? [name, null];
    const held = [make("h3", {}, title, more ? make("span.soft", {}, more) : null), this.facts, this.share, this.map, this.hits];
    this.element = make("section.compare-column", { "aria-label": name }, ...held);
    this.element.style.setProperty("--method", `var(${COLOURS[name] ?? "--plain"})`);
  }

  update({ bits, ids, distances, learns, n_pairs, map }, view) {
    const learned = learns ? `feedback: ${count(n_pairs, "pair")}` : "no feedback";
    say(this.facts, `${count(bits, "bit")} an item · ${learned}`);
    this.map.hidden = map === null;
    if (map !== null) {
      say(this.map.firstChild, `mAP ${map.toFixed(3)}`);
      this.bar.style.width = `${100 * map}%`;
    }
    const label = view.labelOf(view.query);
    const right = ids.map((id) => (label === undefined ? null : view.labelOf(view.items.get(id)) === label));
    this.tellShare(right, view.about.label);
    const places = ids.map((id, i) => this.place(id, distances[i], right[i], i + 1, view));
    glide(this.hits, () => this.hits.replaceChildren(...places));
  }

  tellShare(right, field) {
    const known = right.length > 0 && right[0] !== null;
    this.share.hidden = !known;
    if (!known) return;
    const n = right.filter(Boolean).length;
    if (this.past.at(-1) !== n || this.past.length < 2) this.past = [...this.past, n].slice(-KEPT);
    this.share.replaceChildren(
      make("span", {}, make("strong", {}, String(n)), ` of ${right.length}`, make("span.soft", {}, ` same ${field}`)),
      ...(this.past.length > 1 ? [sparkline(this.past, right.length)] : []),
    );
  }

  /** The place of a hit; a card seen before is used again, with its picture. */
  place(id, distance, right, rank, view) {
    if (this.cards.size > 400) this.cards.clear();
    let held = this.cards.get(id);
    if (!held) {
      const card = view.card(view.items.get(id) ?? { id, payload: null }, { onPick: view.onPick });
      held = { card, element: make("li.compare-hit", {}, card) };
      this.cards.set(id, held);
    }
    held.card.renew?.({ distance, rank });
    held.element.classList.toggle("right", right === true);
    held.element.classList.toggle("wrong", right === false);
    held.element.title = right === null ? `distance ${number(distance)}` : right ? "same label" : "another label";
    return held.element;
  }
}
