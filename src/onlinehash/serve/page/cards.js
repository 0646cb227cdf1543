/** The card of an item: its picture or payload, and where asked its distance, code and place. */
import { bits } from "./bits.js";
import { isDrawing } from "./drawing.js";
import { count, make, number } from "./elements.js";
import { write } from "./json.js";

const FIELDS_SHOWN = 5;
const LETTERS_SHOWN = 140;

/** A value of a payload as a line of text. */
export function inWords(value) {
  const text = typeof value === "string" ? value : write(value);
  return text.length > LETTERS_SHOWN ? `${text.slice(0, LETTERS_SHOWN)}…` : text;
}

/**
 * Makes `card(item, options)` for a service. `item`: {id, payload?, url? (a picture of no item)}. All optional:
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
    held.setAttribute("aria-label", `search from ${item.id}`);
    held.addEventListener("click", () => known.onPick(item.id));
  }
  look.append(held);
  const words = () => held.replaceChildren(payloadList(item, about));
  if (!item.url && !about.pictures) return words();
  const pixels = !item.url && about.pictures.kind === "pixels";
  const image = make("img", { alt: "", draggable: "false", class: pixels ? "pixels" : null });
  if (pixels) image.addEventListener("load", () => image.classList.toggle("drawing", isDrawing(image)));
  held.append(image);
  Promise.resolve(item.url ?? api.picture(item.id)).then((url) => { image.src = url; }, words);
}

function payloadList(item, about) {
  const fields = Object.entries(item.payload ?? {}).filter(([name]) => name !== about.label);
  if (!fields.length) return make("span.wordless", {}, String(item.id ?? "?"));
  const rows = fields.slice(0, FIELDS_SHOWN).map(([name, value]) =>
    make("span.field", {}, make("span.soft", {}, name), make("span", {}, inWords(value))));
  return make("span.payload", {}, ...rows);
}

function fillFacts(facts, item, known, about) {
  const label = about.label ? item.payload?.[about.label] : undefined;
  const name = known.name ?? `#${item.id}`;
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
    known.name ?? `item ${item.id}`,
    known.distance === undefined ? null : `distance ${distanceText(known)}`,
    said,
  ].filter(Boolean).join(", ");
}
