/** JSON in which whole numbers beyond 2^53 stay what they are: ids have 64 bits. They come as BigInt and go as they came. */

const LARGE = /\d{16}/;

export function parse(text) {
  return LARGE.test(text) && JSON.rawJSON ? JSON.parse(text, exact) : JSON.parse(text);
}

export const write = (value) => JSON.stringify(value, (_, one) => (typeof one === "bigint" ? JSON.rawJSON(one) : one));

/** A whole number that somebody typed. */
export function whole(text) {
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : BigInt(text);
}

function exact(_, value, { source }) {
  const cut = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
  return cut && /^-?\d+$/.test(source) ? BigInt(source) : value;
}
