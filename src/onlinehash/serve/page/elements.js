/** Elements without markup in strings: whatever a payload says arrives as text. */

/** `make("p.note", {title: "..."}, "text", child)`: an element by tag and classes, its attributes, what it holds. */
export function make(selector, attributes = {}, ...held) {
  const [tag, ...classes] = selector.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  set(element, attributes);
  element.append(...held.filter((one) => one !== null && one !== undefined));
  return element;
}

/** The same for drawings. */
export function draw(tag, attributes = {}, ...held) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(element, attributes);
  element.append(...held);
  return element;
}

/** Attributes by name; functions are listeners; null and false take an attribute away. */
export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === null || value === undefined || value === false) element.removeAttribute(name);
    else element.setAttribute(name, value === true ? "" : value);
  }
  return element;
}

const grouped = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

/** 1797 -> "1,797"; fractions with three digits. */
export const number = (value) => (Number.isInteger(value) ? grouped : short).format(value);

/** "1 item", "2 items". */
export const count = (n, noun) => `${number(n)} ${noun}${n === 1 ? "" : "s"}`;
