/** What the squares, the keys and the hand mean on the page. */
import { draw, make } from "./elements.js";

/** What the squares of a code mean. */
export function legend(teachable) {
  const meanings = { on: "bit set", "on differs": "other than the query's", ...(teachable && { moved: "just moved" }) };
  const square = (name) => draw("svg", { class: "bits", viewBox: "0 0 10 10" },
    draw("path", { class: name, d: "M1.2 1.2h7.6v7.6h-7.6z" }));
  return make("p.legend.soft", { "aria-hidden": "true" },
    ...Object.entries(meanings).map(([name, text]) => make("span", {}, square(name), text)));
}

/** Which keys do what among the neighbours, and what can be dragged. */
export function handles(teachable) {
  const marks = teachable && { S: "similar", D: "not similar" };
  const keys = Object.entries({ "←→↑↓": "move", ...marks, Enter: "search from it" });
  return [
    make("p.keys.soft", {}, ...keys.map(([key, text]) => make("span", {}, make("kbd", {}, key), ` ${text}`))),
    ...(teachable ? [make("p.soft.hint", {}, "Or drag one onto another to say what you think of the two.")] : []),
  ];
}
