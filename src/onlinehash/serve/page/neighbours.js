/** The neighbours of a query: a list of cards in order, moved through and marked by keys, that glides as it changes. */
import { make } from "./elements.js";
import { glide } from "./glide.js";
import { write } from "./json.js";

const keyOf = (hit) => write(hit.id);

export class Neighbours {
  /** `onMark(hit, similar)` or null where nothing can be marked; `onPick(id)`. */
  constructor(card, { onMark, onPick }) {
    this.card = card;
    this.onMark = onMark;
    this.onPick = onPick;
    this.list = make("ol.neighbours", { "aria-label": "neighbours, nearest first" });
    this.shown = new Map(); // key -> {row, card, hit, rank}
    this.at = 0;
    this.left = false; // whether the cards went away under the keyboard
    this.list.addEventListener("keydown", (event) => this.pressed(event));
    this.list.addEventListener("focusin", (event) => {
      const at = this.rows().findIndex((row) => row.contains(event.target));
      if (at >= 0) this.moveTo(at, false);
    });
  }

  rows() {
    return [...this.list.children];
  }

  /** Forgets the places, for another query. */
  clear() {
    this.left ||= this.list.contains(document.activeElement);
    this.shown.clear();
    this.list.replaceChildren();
    this.at = 0;
  }

  /**
   * Shows `hits` in order; `options(hit)` gives each card's code, distance and the like. Gives back how many of them
   * have another place than before ({moved}) or were not there ({fresh}).
   */
  show(hits, options) {
    const focused = this.rows().findIndex((row) => row.contains(document.activeElement));
    const held = focused >= 0 ? document.activeElement : null;
    const first = this.shown.size === 0;
    const next = new Map(hits.map((hit, at) => {
      const known = this.shown.get(keyOf(hit));
      const change = first ? 0 : known ? known.rank - at : "new";
      return [keyOf(hit), { ...(known ?? this.make(hit)), hit, rank: at, change }];
    }));
    glide(this.list, () => {
      this.list.replaceChildren(...[...next.values()].map(({ row }) => row));
      for (const { card, hit, rank, change } of next.values()) card.renew({ ...options(hit), rank: rank + 1, change });
    });
    this.shown = next;
    const kept = held && this.list.contains(held);
    this.moveTo(kept ? this.rows().findIndex((row) => row.contains(held)) : Math.max(focused, 0), false);
    const lost = this.left && document.activeElement === document.body;
    if (held || lost) (kept ? held : this.rows()[this.at]?.firstChild)?.focus({ preventScroll: true });
    this.left = false;
    const changes = [...next.values()].map(({ change }) => change);
    const fresh = changes.filter((change) => change === "new").length;
    return { moved: changes.filter(Boolean).length - fresh, fresh };
  }

  make(hit) {
    const onMark = this.onMark && ((similar) => this.onMark(hit, similar));
    const card = this.card(hit, { onPick: this.onPick, onMark });
    card.setAttribute("aria-keyshortcuts", this.onMark ? "S D Enter" : "Enter");
    return { row: make("li", {}, card), card };
  }

  /** One card at a time is reached by the tab key, with its buttons. */
  moveTo(at, focus = true) {
    const rows = this.rows();
    this.at = Math.max(0, Math.min(at, rows.length - 1));
    rows.forEach((row, place) => {
      const tab = place === this.at ? 0 : -1;
      row.firstChild.tabIndex = tab;
      row.querySelectorAll("button").forEach((button) => { button.tabIndex = tab; });
    });
    if (focus) rows[this.at]?.firstChild.focus();
  }

  pressed(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const columns = getComputedStyle(this.list).gridTemplateColumns.split(" ").length;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const { hit } = [...this.shown.values()][this.at] ?? {};
    const act = {
      ArrowLeft: () => this.moveTo(this.at - 1),
      ArrowRight: () => this.moveTo(this.at + 1),
      ArrowUp: () => this.moveTo(this.at - columns),
      ArrowDown: () => this.moveTo(this.at + columns),
      Home: () => this.moveTo(0),
      End: () => this.moveTo(this.shown.size - 1),
      s: () => this.onMark?.(hit, true),
      d: () => this.onMark?.(hit, false),
      Enter: event.target.tagName === "BUTTON" ? null : () => this.onPick(hit.id),
    }[key];
    if (!act || !hit) return;
    event.preventDefault();
    act();
  }
}
