/** Where a query comes from: a text, some items to pick from, an id, or a picture. */
import { make } from "./elements.js";
import { whole } from "./json.js";

const OFFERED = 16;
const [PAGES, PAGE] = [4, 40]; // a few stretches of the insertion order stand for all of it
const IMAGES = "image/png,image/jpeg,image/webp";

export class Finder {
  /** `onItem(item)`, `onText(text)`, `onImage(file)`, `trouble(error)`. */
  constructor({ api, about, card }, { onItem, onText, onImage, trouble }) {
    Object.assign(this, { api, about, card, onItem, trouble });
    const title = make("h2", {}, about.embed ? "Or pick one to search from" : "Pick one to search from");
    this.list = make("ul.offered", { "aria-label": "items to search from" });
    this.numbers = false;
    const others = make("button", { type: "button", click: () => this.offer() }, "others");
    this.element = make("div.finder", {}, about.embed ? textForm(onText, trouble) : null,
      make("div.ways", {}, title, others, this.idForm(), takesImages(about) ? imageChooser(onImage) : null),
      make("p.soft.welcome", {}, welcome(about)), this.list);
  }

  idForm() {
    const plain = { spellcheck: "false", autocomplete: "off" };
    const field = make("input", { "aria-label": "id of an item", placeholder: "an id", ...plain });
    return make("form", {
      submit: (event) => {
        event.preventDefault();
        const text = field.value.trim();
        if (!text) this.trouble(new Error("Type the id of an item to search from."));
        else this.pick(this.numbers && /^-?\d+$/.test(text) ? whole(text) : text);
      },
    }, field, make("button", { type: "submit" }, "search"));
  }

  /** Opens an item by its id, said to be unknown where it is. */
  async pick(id) {
    try {
      const { items } = await this.api.post("/v1/items/get", { ids: [id], vectors: false });
      this.onItem(items[0]);
    } catch (error) {
      this.trouble(error);
    }
  }

  get isEmpty() {
    return this.list.children.length === 0;
  }

  /** Offers other items; promises how many items there are. */
  async offer() {
    try {
      const { ids, n } = await this.draw();
      if (ids.length) this.numbers = typeof ids[0] !== "string";
      const items = ids.length ? (await this.api.post("/v1/items/get", { ids, vectors: false })).items : [];
      const cards = items.map((item) => this.card(item, { onPick: () => this.onItem(item) }));
      this.list.replaceChildren(...cards.map((card) => make("li", {}, card)));
      return n;
    } catch (error) {
      this.trouble(error);
      return null;
    }
  }

  async draw() {
    const first = await this.api.get(`/v1/items?offset=0&limit=${PAGES * PAGE}`);
    const { n } = first;
    if (n <= PAGES * PAGE) return { ids: shuffled(first.ids).slice(0, OFFERED), n };
    const starts = Array.from({ length: PAGES }, () => Math.floor(Math.random() * (n - PAGE)));
    const pages = await Promise.all(starts.map((offset) => this.api.get(`/v1/items?offset=${offset}&limit=${PAGE}`)));
    const ids = [...new Set(pages.flatMap((page) => page.ids))];
    return { ids: shuffled(ids).slice(0, OFFERED), n };
  }
}

/** The box to type a query into. */
function textForm(onText, trouble) {
  const field = make("input", {
    type: "search", "aria-label": "text to search for", placeholder: "Search for…", autocomplete: "off", maxlength: 1000,
  });
  return make("form.asking", {
    role: "search",
    submit: (event) => {
      event.preventDefault();
      const text = field.value.trim();
      if (text) onText(text);
      else trouble(new Error("Type a text to search for."));
    },
  }, field, make("button.primary", { type: "submit" }, "Search"));
}

function welcome(about) {
  const search = about.embed ? "Binary codes find what is near, vectors put it in order."
    : "Binary codes find its neighbours, their vectors put them in order.";
  const teach = "Say which of them are similar and which are not: the order learns it at once, and the codes follow.";
  const watch = `Or start the teacher, which knows every item's ${about.label ?? "label"}, and watch.`;
  return [search, about.read_only ? null : teach, about.teacher ? watch : null].filter(Boolean).join(" ");
}

/** Whether the service can make a vector of a picture. */
export const takesImages = (about) => ["pixels", "gist"].includes(about.pictures?.kind);

function imageChooser(onImage) {
  const field = make("input", { type: "file", accept: IMAGES, hidden: true });
  field.addEventListener("change", () => { if (field.files[0]) onImage(field.files[0]); field.value = ""; });
  return make("span", {}, make("button", { type: "button", click: () => field.click() }, "a picture…"), field);
}

/** A picture dropped anywhere on `element`. */
export function takeDrops(element, onImage) {
  const holdsFile = (event) => event.dataTransfer?.types.includes("Files");
  element.addEventListener("dragover", (event) => {
    if (!holdsFile(event)) return;
    event.preventDefault();
    element.classList.add("dropping");
  });
  element.addEventListener("dragleave", (event) => {
    if (!element.contains(event.relatedTarget)) element.classList.remove("dropping");
  });
  element.addEventListener("drop", (event) => {
    if (!holdsFile(event)) return;
    event.preventDefault();
    element.classList.remove("dropping");
    if (event.dataTransfer.files[0]) onImage(event.dataTransfer.files[0]);
  });
}

function shuffled(list) {
  const mixed = [...list];
  for (let at = mixed.length - 1; at > 0; at--) {
    const other = Math.floor(Math.random() * (at + 1));
    [mixed[at], mixed[other]] = [mixed[other], mixed[at]];
  }
  return mixed;
}
