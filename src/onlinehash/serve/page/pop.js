/** The card of the item that is pointed at, beside it. */
import { make } from "./elements.js";

export class Pop {
  constructor({ api, card }) {
    Object.assign(this, { api, card });
    this.id = null;
    this.element = make("div.map-card", { hidden: true });
  }

  hide() {
    this.id = null;
    this.element.hidden = true;
  }

  /** Promises what the card says in a line, or null where another item has been asked for since. */
  async show(id) {
    this.id = id;
    const answer = this.api.post("/v1/items/get", { ids: [id], vectors: false });
    const item = await answer.then(({ items }) => items[0], () => ({ id, payload: null }));
    if (this.id !== id) return null;
    const card = this.card(item);
    this.element.replaceChildren(card);
    this.element.hidden = false;
    return card.getAttribute("aria-label") ?? String(id);
  }

  /** To the right of (x, y), or to the left where there is no room, and inside the frame. */
  place(x, y, away, width, height) {
    const { offsetWidth: w, offsetHeight: h } = this.element;
    const left = x + away + w < width ? x + away : x - away - w;
    this.element.style.left = `${Math.max(4, Math.min(left, width - w - 4))}px`;
    this.element.style.top = `${Math.max(4, Math.min(y - h / 2, height - h - 4))}px`;
  }
}
