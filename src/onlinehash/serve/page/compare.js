/** Compare: one query under several methods, side by side, while they learn. */
import { Column } from "./column.js";
import { count, make } from "./elements.js";
import { whole } from "./json.js";
import { say } from "./surface.js";
import "./style.js";

const SHOWN = 12;
const BETWEEN = 900; // milliseconds between two looks

export function mount(section, context) {
  const view = new Comparison(section, context);
  view.random();
  return { show: () => view.show(), hide: () => view.hide() };
}

class Comparison {
  constructor(section, { api, live, about, card, onPick }) {
    Object.assign(this, { api, about, card, onPick });
    this.columns = new Map();
    this.items = new Map();
    this.query = null;
    this.visible = true;
    this.asked = 0;
    this.build(section);
    for (const name of ["learned", "measured", "items"]) live.on(name, () => this.stale());
  }

  build(section) {
    const button = (text, action) => make("button", { type: "button", click: action }, text);
    this.field = make("input", { id: "compare-id", type: "text", autocomplete: "off", spellcheck: "false" });
    this.held = make("div.compare-query");
    this.trouble = make("p.trouble", { role: "alert" });
    this.exact = make("p.compare-exact", { hidden: true });
    this.grid = make("div.compare-columns");
    section.append(
      make("p.view-lead", {},
        "The same query under several methods. Those that get feedback learn from the same pairs: ",
        "what differs from codes without any is what feedback buys."),
      make("div.compare-head", {},
        this.held,
        make("form.compare-pick", { submit: (event) => { event.preventDefault(); this.byId(); } },
          button("Random query", () => this.random()),
          button("Next", () => this.next()),
          make("label", { for: "compare-id" }, "or id"), this.field,
          make("button", { type: "submit" }, "Show"))),
      this.trouble,
      this.exact,
      this.grid,
    );
  }

  show() {
    this.visible = true;
    if (this.missed) this.look();
  }

  hide() {
    this.visible = false;
  }

  stale() {
    if (!this.visible || this.looking) this.missed = true;
    else this.waiting ||= setTimeout(() => this.look(), BETWEEN);
  }

  /** A query by its place among the items. */
  async at(offset) {
    await this.trying(async () => {
      const { ids, n } = await this.api.get(`/v1/items?offset=${offset}&limit=1`);
      if (!n) throw new Error("There are no items to compare yet: add some first.");
      if (!ids.length) return this.at(0);
      this.offset = offset;
      await this.choose(ids[0]);
    });
  }

  async random() {
    await this.trying(async () => {
      const { n } = await this.api.get("/v1/items?offset=0&limit=1");
      await this.at(Math.floor(Math.random() * n));
    });
  }

  next() {
    return this.at((this.offset ?? -1) + 1);
  }

  /** Ids are whole numbers or texts, as those of the index. */
  byId() {
    const text = this.field.value.trim();
    const id = typeof this.query?.id === "string" || !/^-?\d+$/.test(text) ? text : whole(text);
    if (text) this.trying(() => this.choose(id));
  }

  /** A look that goes well takes back what an earlier look complained of, but not that a wish cannot be fulfilled. */
  async trying(action, isLook = false) {
    try {
      await action();
      if (!isLook || this.lookFailed) say(this.trouble, "");
    } catch (error) {
      this.lookFailed = isLook;
      say(this.trouble, error.message);
    }
  }

  async choose(id) {
    const { items } = await this.api.post("/v1/items/get", { ids: [id], vectors: false });
    [this.query] = items;
    this.field.value = String(id);
    this.held.replaceChildren(this.card(this.query));
    for (const column of this.columns.values()) column.past = [];
    await this.look();
  }

  async look() {
    clearTimeout(this.waiting);
    [this.waiting, this.missed, this.looking] = [0, false, true];
    const turn = ++this.asked;
    await this.trying(async () => {
      if (!this.query) return;
      const { id } = this.query;
      // Every method finds the query itself first; what counts comes after it.
      const { methods, exact } = await this.api.post("/v1/compare", { id, k: SHOWN + 1 });
      this.exact.hidden = exact === null;
      if (exact) say(this.exact, `The vectors themselves, by exact cosine: ${count(exact.bits, "bit")} an item, mAP ${exact.map.toFixed(3)}`);
      if (methods.some(({ ids }) => !ids.length)) this.missed = true; // it has no items yet
      methods.forEach((method) => leaveOut(method, id));
      await this.know(methods.flatMap((method) => method.ids));
      if (turn === this.asked) methods.forEach((method) => this.column(method.name).update(method, this));
    }, true);
    this.looking = false;
    if (this.missed && this.visible) this.stale();
  }

  /** The payloads of items not seen so far. */
  async know(ids) {
    if (this.items.size > 5000) this.items.clear();
    const missing = [...new Set(ids)].filter((id) => !this.items.has(id));
    if (!missing.length) return;
    const { items } = await this.api.post("/v1/items/get", { ids: missing, vectors: false });
    for (const item of items) this.items.set(item.id, item);
  }

  column(name) {
    if (!this.columns.has(name)) {
      const column = new Column(name);
      this.columns.set(name, column);
      this.grid.append(column.element);
    }
    return this.columns.get(name);
  }

  labelOf(item) {
    return this.about.label ? item?.payload?.[this.about.label] : undefined;
  }
}

function leaveOut(method, id) {
  const at = method.ids.indexOf(id);
  for (const list of [method.ids, method.distances]) list.splice(at < 0 ? SHOWN : at, 1);
}
