/** A code as rows of small squares. Drawn as a few paths, so that hundreds of bits on dozens of cards stay cheap. */
import { count, draw } from "./elements.js";

const CELL = 10;
const GAP = 5; // between models

/** The bits of a code written in hex: bit j of a model is bit j % 8 of its byte j // 8. */
export function bitsOf(hex, nBits, nModels = 1) {
  const bytes = Math.ceil(nBits / 8);
  return Array.from({ length: nBits * nModels }, (_, flat) => {
    const [model, j] = [Math.floor(flat / nBits), flat % nBits];
    const at = 2 * (model * bytes + (j >> 3));
    return (parseInt(hex.slice(at, at + 2), 16) >> (j & 7)) & 1;
  });
}

/**
 * The element that shows a code. `against`: another code, whose differing bits are marked;
 * `moved`: a set of flat bit positions whose hash function has just changed.
 */
export function bits(hex, nBits, nModels = 1, { against = null, moved = null } = {}) {
  const [mine, theirs] = [bitsOf(hex, nBits, nModels), against === null ? null : bitsOf(against, nBits, nModels)];
  const columns = nBits <= 16 ? nBits : nBits <= 128 ? 16 : 32;
  const rows = Math.ceil(nBits / columns);
  const paths = { off: "", on: "", "off differs": "", "on differs": "", moved: "" };
  let differing = 0;
  mine.forEach((bit, flat) => {
    const [model, j] = [Math.floor(flat / nBits), flat % nBits];
    const [x, y] = [CELL * (j % columns), CELL * Math.floor(j / columns) + model * (CELL * rows + GAP)];
    const differs = theirs !== null && theirs[flat] !== bit;
    differing += differs;
    paths[(bit ? "on" : "off") + (differs ? " differs" : "")] += `M${x + 1.2} ${y + 1.2}h7.6v7.6h-7.6z`;
    if (moved?.has(flat)) paths.moved += `M${x + 0.4} ${y + 0.4}h9.2v9.2h-9.2z`;
  });
  const [width, height] = [CELL * columns, nModels * (CELL * rows + GAP) - GAP];
  const total = nModels > 1 ? `${nModels} × ${count(nBits, "bit")}` : count(nBits, "bit");
  const label = theirs === null ? `code of ${total}` : `code of ${total}, ${differing} differ from the query's`;
  const picture = draw("svg", { class: "bits", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const [name, d] of Object.entries(paths)) if (d) picture.append(draw("path", { class: name, d }));
  return picture;
}
