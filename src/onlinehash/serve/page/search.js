/** Search and teach: pick an item, see its neighbours, say what is similar, see the search get better. */
import { Agreement } from "./agreement.js";
import { askAboutTwo } from "./choice.js";
import { dragCards } from "./drag.js";
import { count, make } from "./elements.js";
import { findNeighbours } from "./find.js";
import { Finder, takeDrops, takesImages } from "./finder.js";
import { handles, legend } from "./help.js";
import { Neighbours } from "./neighbours.js";
import { Said } from "./said.js";
import { briefly, learnNow, movedBits, outcome, pairKey, reordered, teachPair } from "./teach.js";

const SHOWN = 12;
const CALM = 2500; // milliseconds without a hand on the cards before they follow the teacher again
const OFTEN = 900; // milliseconds between two searches that follow the teacher

export function mount(section, context) {
  const view = new SearchAndTeach(section, context);
  view.start();
  const pick = (id) => {
    view.neighbours.left = true; // whatever was picked from is on another tab
    return view.finder.pick(id);
  };
  return { show: () => view.follow(), pick };
}

class SearchAndTeach {
  constructor(section, context) {
    Object.assign(this, context, { section });
    Object.assign(this, { query: null, queryCard: null, encoder: null, asked: 0, busy: false, touched: 0, due: null });
    Object.assign(this, { by: "vectors", pairs: 0, counted: 0 }); // pairs in the order shown; pairs known to count
    this.heard = { encoder: null, pairs: 0 }; // the newest that events told of
    const { about } = context;
    this.teachable = !about.read_only;
    this.finder = new Finder(context, {
      onItem: (item) => this.pick(item),
      onText: (text) => this.pick({ id: null, payload: null, text, name: text }),
      onImage: (file) => this.pickImage(file),
      trouble: (error) => this.say(error.message),
    });
    const onPick = (id) => this.finder.pick(id);
    const onMark = this.teachable ? (hit, similar) => this.mark(this.query, hit, similar) : null;
    this.neighbours = new Neighbours(this.card, { onMark, onPick });
    this.agreement = new Agreement(about);
    this.said = new Said((subject) => this.card(subject, { onPick: subject.id === null ? null : onPick }));
    this.line = make("p.line", { role: "status", "aria-live": "polite" });
    this.now = make("button.now", { type: "button", hidden: true, click: () => this.learnNow() }, "Learn now");
    this.stand = make("div.stand");
    this.title = make("h2");
    this.order = make("p.soft.order");
    const alone = make("input", { type: "checkbox", change: () => this.orderBy(alone.checked ? "codes" : "vectors") });
    const whatItDoes = "order by the Hamming distance of the codes, without vectors and marks";
    this.ways = make("label.alone", { title: whatItDoes }, alone, "codes only");
    this.results = make("div.results", { hidden: true },
      make("aside", {}, make("h2", {}, "Query"), this.stand, this.agreement.element, this.said.element),
      make("div.answers", {}, make("div.ways", {}, this.title, this.ways, legend(this.teachable)), this.order,
        this.neighbours.list, ...handles(this.teachable)));
    section.classList.toggle("wordy", !about.pictures);
    section.append(this.finder.element, this.line, this.results);
  }

  async start() {
    if (takesImages(this.about)) takeDrops(this.section, (file) => this.pickImage(file));
    if (this.teachable) dragCards(this.section, (from, onto) => this.ask(from, onto));
    for (const hand of ["pointermove", "pointerdown", "keydown", "focusin"]) {
      this.neighbours.list.addEventListener(hand, () => { this.touched = Date.now(); });
    }
    this.live.on("refreshed", ({ encoder }) => {
      this.heard.encoder = encoder;
      this.follow();
    });
    this.live.on("learned", ({ ranking_pairs: pairs }) => {
      this.heard.pairs = pairs;
      this.follow();
    });
    this.live.on("items", ({ n }) => { if (n && this.finder.isEmpty) this.finder.offer().then(() => this.say("")); });
    const n = await this.finder.offer();
    if (n === 0) this.say("There is nothing here yet: add items (POST /v1/items) and they appear.");
  }

  /** One quiet line; `unseen` is for those who hear the page and is on the page elsewhere. */
  say(text, unseen = "") {
    this.now.hidden = true;
    this.line.replaceChildren(make("span", {}, text), make("span.unseen", {}, unseen && ` ${unseen}`), this.now);
  }

  /** Searches from an item, a text or a picture: {id, payload}, {id: null, text, name}, {id: null, vector, url, name}. */
  async pick(subject) {
    this.query = subject;
    this.neighbours.clear();
    this.agreement.clear();
    this.queryCard = this.card(subject, { name: subject.name });
    if (subject.id === null) this.queryCard.dataset.query = "";
    this.say("");
    if (await this.search(null, "")) this.stand.scrollIntoView({ block: "nearest" });
  }

  async pickImage(file) {
    try {
      const { vector } = await this.api.post("/v1/search/image?k=1", file);
      await this.pick({ id: null, payload: null, vector, url: URL.createObjectURL(file), name: file.name });
    } catch (error) {
      this.say(error.message);
    }
  }

  /**
   * Searches, shows what came and says `story`: nothing where it is null, and where it is a function what that makes
   * of {moved, fresh, followed}. `bits` are those that have just moved, to be marked where the codes shown followed.
   * False where the search failed or another overtook it.
   */
  async search(bits = null, story = null) {
    const mine = ++this.asked;
    const query = this.query;
    try {
      const by = this.by;
      const found = await findNeighbours(this.api, query, SHOWN, by, this.counted);
      if (mine !== this.asked) return false;
      const followed = found.encoder !== this.encoder;
      const moved = followed ? bits : null;
      Object.assign(this, { encoder: found.encoder, pairs: found.pairs ?? this.pairs });
      this.queryCard.renew({ code: found.code, moved });
      this.stand.replaceChildren(this.queryCard);
      this.results.hidden = false;
      this.finder.element.classList.add("small");
      const change = this.neighbours.show(found.hits, (hit) => ({
        code: hit.code, distance: hit.distance, by, against: found.code, moved,
        said: this.said.of(pairKey(query, hit)),
      }));
      this.title.textContent = found.hits.length ? `The ${found.hits.length} nearest` : "No neighbours";
      this.order.textContent = inOrder(by, found.pairs);
      const agreed = this.agreement.show(query, found.hits, `${by} ${found.encoder} ${found.pairs}`);
      if (story !== null) this.say(typeof story === "string" ? story : story({ ...change, followed }), agreed);
      return true;
    } catch (error) {
      if (mine === this.asked) this.say(error.kind === "NotReady" ? `Not ready yet: ${error.message}` : error.message);
      return false;
    }
  }

  /** Says what two subjects are to each other and shows what that changed. */
  mark(a, b, similar) {
    return this.teaching(async () => {
      const update = await teachPair(this.api, a, b, similar, this.by === "codes");
      this.counted = update.counted;
      this.said.add(pairKey(a, b), a, b, similar, briefly(update));
      const story = (change) => `You said ${similar ? "similar" : "not similar"}: ${
        [reordered(change), outcome(update, this.about, change.followed)].filter(Boolean).join("; ")}`;
      if (!this.query) this.say(story({ followed: false }));
      else if (!await this.search(movedBits(update, this.about), story)) return;
      this.now.hidden = !update.pending && !update.waiting;
    });
  }

  /** The same query in another order. */
  orderBy(by) {
    this.by = by;
    this.agreement.clear(); // its line is of one order
    if (this.query) this.search(null, "");
  }

  /** For who does not want to wait until there are as many pairs as are learned together. */
  learnNow() {
    return this.teaching(async () => {
      await learnNow(this.api);
      const story = "Learned: no pair waits any more";
      if (this.query) await this.search(null, story);
      else this.say(story);
    });
  }

  /** One thing at a time. */
  async teaching(action) {
    if (this.busy) return;
    this.busy = true;
    this.section.classList.add("busy");
    try {
      await action();
    } catch (error) {
      this.say(error.message);
    } finally {
      this.busy = false;
      this.section.classList.remove("busy");
    }
  }

  async ask(from, onto) {
    const [a, b] = [from.item, onto.item];
    const similar = await askAboutTwo(this.card(a, { name: a.name }), this.card(b, { name: b.name }));
    if (similar !== null) this.mark(a, b, similar);
  }

  /** Whether something was learned that is not in what is shown. */
  get isBehind() {
    const { encoder, pairs } = this.heard;
    return (encoder !== null && encoder !== this.encoder) || (this.by === "vectors" && pairs > this.pairs);
  }

  /** Keeps up with what others teach, though never under somebody's hand. */
  follow() {
    if (!this.query || this.due || this.section.hidden || !this.isBehind) return;
    const wait = Math.max(OFTEN, this.touched + CALM - Date.now());
    this.due = setTimeout(() => {
      this.due = null;
      if (this.busy || this.section.hidden || !this.isBehind) return;
      if (Date.now() < this.touched + CALM) return this.follow();
      this.search();
    }, wait);
  }
}

/** What put the neighbours in order. */
function inOrder(by, pairs) {
  if (by === "codes") return "by the distance of their codes, in bits";
  return pairs ? `by their vectors and ${count(pairs, "pair")}` : "by their vectors";
}
