/** The card of an item: its picture or payload, and where asked its distance, code and place. */
import { bits } from "./bits.js";
import { isDrawing } from "./drawing.js";
import { count, make, number } from "./elements.js";
import { write } from "./json.js";

const FIELDS_SHOWN = 5;
const LETTERS_SHOWN = 140;
const LETTERS_FOLDED = 180; // of a text, about what its card shows until it is unfolded
const TITLES = ["title", "name", "headline", "subject"]; // fields that name an item, the first that it has

/** A value of a payload as a line of text. */
export function inWords(value) {
  const text = typeof value === "string" ? value : write(value);
  return text.length > LETTERS_SHOWN ? `${text.slice(0, LETTERS_SHOWN)}…` : text;
}

/**
 * Makes `card(item, options)` for a service. `item`: {id, payload?, url? (a picture of no item), text? (a query)}. All
 * optional:
 * `distance` and what it is `by` ("vectors", else bits); `code` (hex), `against` (hex of the query), `moved` (set of
 * flat bits); `change` (places won, or "new"); `rank`; `said` (true or false: what was marked); `name` (instead of the
 * id); `onPick(id)`; `onMark(similar)`: buttons.
 * The element has `renew(options)`, which changes these and leaves the rest, its picture above all, in place.
 */
export function cardMaker(api, about) {
  return function card(item, options = {}) {
    const look = make("div.look");
    const facts = make("div.facts");
    const code = make("div.code");
    const element = make("article.card", {}, look, facts, code);
    if (textOf(item) !== null) element.classList.add("text");
    const known = { ...options };
    element.item = item;
    if (item.id !== null) element.dataset.id = write(item.id);
    fillLook(look, item, known, api, about);
    const buttons = known.onMark ? markButtons(known) : null;
    if (buttons) element.append(buttons);
    element.renew = (more) => {
      Object.assign(known, more);
      fillFacts(facts, item, known, about);
      code.replaceChildren(...(known.code ? [bits(known.code, about.n_bits, about.n_models, known)] : []));
      for (const button of buttons?.children ?? []) {
        button.setAttribute("aria-pressed", String(known.said === (button.dataset.similar === "true")));
      }
      element.setAttribute("aria-label", inOneLine(item, known, about));
    };
    element.renew({});
    return element;
  };
}

/** The picture (a button where it can be picked), else what the payload says. */
function fillLook(look, item, known, api, about) {
  const held = known.onPick ? make("button.pick", { type: "button", title: "Search from it" }) : make("div.pick");
  if (known.onPick) {
    held.setAttribute("aria-label", `search from ${textOf(item) === null ? item.id : inWords(titleOf(item))}`);
    held.addEventListener("click", () => known.onPick(item.id));
  }
  look.append(held);
  const words = () => {
    if (textOf(item) === null) return held.replaceChildren(payloadList(item, about));
    held.replaceChildren(...textParts(item));
    if (textOf(item).length > LETTERS_FOLDED) look.append(unfolder(look));
    return undefined;
  };
  if (!item.url && !about.pictures) return words();
  const pixels = !item.url && about.pictures.kind === "pixels";
  const image = make("img", { alt: "", draggable: "false", class: pixels ? "pixels" : null });
  if (pixels) image.addEventListener("load", () => image.classList.toggle("drawing", isDrawing(image)));
  held.append(image);
  Promise.resolve(item.url ?? api.picture(item.id)).then((url) => { image.src = url; }, words);
}

/** What an item says: a query's own text, or the payload's field `text`; null where it says nothing. */
export function textOf(item) {
  const text = item.text ?? item.payload?.text;
  return says(text) ? text : null;
}

const says = (value) => typeof value === "string" && value.trim() !== "";

/** What an item is called: its title, the beginning of its text, or its id. */
export function titleOf(item) {
  const named = TITLES.map((field) => item.payload?.[field]).find(says);
  return named ?? textOf(item) ?? `#${item.id}`;
}

function textParts(item) {
  const title = titleOf(item);
  const text = textOf(item);
  const named = title.split(/(?<=[._(])/).flatMap((part) => [make("wbr"), part]); // names of code break at their parts
  return [...(title === text ? [] : [make("strong.title", {}, ...named)]), make("span.words", {}, text)];
}

/** The button that shows all of a long text, and less of it again. */
function unfolder(look) {
  const button = make("button.more", {
    type: "button", "aria-expanded": "false",
    click: () => {
      const open = look.classList.toggle("open");
      button.textContent = open ? "less" : "more";
      button.setAttribute("aria-expanded", String(open));
    },
  }, "more");
  return button;
}

function payloadList(item, about) {
  const fields = Object.entries(item.payload ?? {})
    .filter(([name, value]) => name !== about.label && (typeof value !== "string" || says(value)));
  if (!fields.length) return make("span.wordless", {}, String(item.id ?? "?"));
  const rows = fields.slice(0, FIELDS_SHOWN).map(([name, value]) =>
    make("span.field", {}, make("span.soft", {}, name), make("span", {}, inWords(value))));
  return make("span.payload", {}, ...rows);
}

function fillFacts(facts, item, known, about) {
  const label = about.label ? item.payload?.[about.label] : undefined;
  const name = item.text ? "your text" : known.name ?? `#${item.id}`;
  facts.replaceChildren(
    ...(label === undefined ? [] : [make("b.label", { title: about.label }, inWords(label))]),
    make("span.soft.name", { title: name }, name),
    ...(known.change ? [changeMark(known.change)] : []),
    ...(known.distance === undefined ? []
      : [make(`span.distance${known.by === "vectors" ? ".fine" : ""}`, { title: distanceTitle(known) },
        distanceText(known))]),
  );
}

/** Bits as they are; between vectors two places tell enough. */
function distanceText({ distance, by }) {
  return by === "vectors" ? distance.toFixed(2).replace("-", "−") : number(distance);
}

function distanceTitle({ by }) {
  return by === "vectors" ? "distance of the vectors, lower or higher by what was marked" : "distance in bits";
}

function changeMark(change) {
  if (change === "new") return make("span.change.new", { title: "new among the neighbours" }, "new");
  const [way, sign, places] = change > 0 ? ["up", "▲", change] : ["down", "▼", -change];
  return make(`span.change.${way}`, { title: `${way} ${count(places, "place")}` }, `${sign}${places}`);
}

function markButtons(known) {
  const button = (similar, text) => make("button", {
    type: "button", "data-similar": String(similar), "aria-pressed": "false",
    "aria-keyshortcuts": similar ? "S" : "D", click: () => known.onMark(similar),
  }, text);
  return make("div.marks", {}, button(true, "similar"), button(false, "not similar"));
}

/** What a screen reader says of the card. */
function inOneLine(item, known, about) {
  const label = about.label ? item.payload?.[about.label] : undefined;
  const said = known.said === undefined ? null : `you said ${known.said ? "similar" : "not similar"}`;
  return [
    known.rank === undefined ? null : `place ${known.rank}`,
    label === undefined ? null : `${about.label} ${inWords(label)}`,
    known.name ?? (textOf(item) === null ? `item ${item.id}` : inWords(titleOf(item))),
    known.distance === undefined ? null : `distance ${distanceText(known)}`,
    said,
  ].filter(Boolean).join(", ");
}
