/** Codes as the service writes them, and the distances between them. */

/** Hex codes -> 32-bit words, every model padded to whole words. */
export class Codes {
  constructor(hexes, nBits, nModels) {
    this.n = hexes.length;
    this.nBits = nBits;
    this.nModels = nModels;
    this.wordsPerModel = Math.ceil(nBits / 32);
    this.words = new Uint32Array(this.n * nModels * this.wordsPerModel);
    const bytes = Math.ceil(nBits / 8);
    hexes.forEach((hex, i) => {
      for (let at = 0; at < bytes * nModels; at++) {
        const [model, byte] = [Math.floor(at / bytes), at % bytes];
        const word = (i * nModels + model) * this.wordsPerModel + (byte >> 2);
        this.words[word] |= parseInt(hex.slice(2 * at, 2 * at + 2), 16) << (8 * (byte & 3));
      }
    });
  }

  /** The bits that differ; with several models, those of the model that sees the two nearest. */
  distance(i, j) {
    const { words, nModels, wordsPerModel } = this;
    let [a, b, nearest] = [i * nModels * wordsPerModel, j * nModels * wordsPerModel, Infinity];
    for (let model = 0; model < nModels; model++) {
      let differing = 0;
      for (let w = 0; w < wordsPerModel; w++) differing += ones(words[a++] ^ words[b++]);
      if (differing < nearest) nearest = differing;
    }
    return nearest;
  }

  /** All distances, row after row. */
  distances() {
    const { n } = this;
    const found = new Uint16Array(n * n);
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < i; j++) found[i * n + j] = found[j * n + i] = this.distance(i, j);
    }
    return found;
  }
}

function ones(word) {
  word -= (word >>> 1) & 0x55555555;
  word = (word & 0x33333333) + ((word >>> 2) & 0x33333333);
  return (((word + (word >>> 4)) & 0x0f0f0f0f) * 0x01010101) >>> 24;
}

export function largest(values) {
  let found = 0;
  for (let i = 0; i < values.length; i++) if (values[i] > found) found = values[i];
  return found;
}

/**
 * The share of each item's k nearest codes that carry its label, averaged. Where several items lie equally far at the
 * k-th place, each counts in part: no order among them is better than another.
 */
export function agreement(distances, labels, k = 10) {
  const n = labels.length;
  if (n < 2) return null;
  const wanted = Math.min(k, n - 1);
  const most = largest(distances);
  let sum = 0;
  const [often, alike] = [new Float64Array(most + 1), new Float64Array(most + 1)];
  for (let i = 0; i < n; i++) {
    often.fill(0);
    alike.fill(0);
    for (let j = 0; j < n; j++) {
      if (j === i) continue;
      often[distances[i * n + j]]++;
      alike[distances[i * n + j]] += labels[j] === labels[i];
    }
    for (let d = 0, left = wanted; left > 0; d++) {
      if (!often[d]) continue;
      const taken = Math.min(left, often[d]);
      sum += (alike[d] * taken) / often[d] / wanted;
      left -= taken;
    }
  }
  return sum / n;
}

/**
 * Clusters of codes where there are no labels: k-modes, each centre the majority of its members' bits.
 * `before` are the clusters of the last time, from which it goes on, so that colours stay.
 */
export function clusters(codes, k, before = null, rounds = 10) {
  const { n, words } = codes;
  const width = words.length / Math.max(n, 1);
  let of = before ?? firstClusters(codes, k);
  for (let round = 0; round < rounds; round++) {
    const centres = Array.from({ length: k }, (_, c) => majority(words, width, of, c));
    const next = of.map((old, i) => {
      const far = centres.map((centre) => (centre ? differing(words, i * width, centre) : Infinity));
      return far.reduce((best, d, c) => (d < far[best] ? c : best), far[old] === Infinity ? 0 : old);
    });
    if (next.every((c, i) => c === of[i])) break;
    of = next;
  }
  return of;
}

/** Centres far from one another: each new one is the item farthest from all before it. */
function firstClusters(codes, k) {
  const nearest = new Float64Array(codes.n).fill(Infinity);
  const of = new Array(codes.n).fill(0);
  let centre = 0;
  for (let c = 0; c < k; c++) {
    for (let i = 0; i < codes.n; i++) {
      const d = codes.distance(i, centre);
      if (d < nearest[i]) [nearest[i], of[i]] = [d, c];
    }
    centre = nearest.indexOf(Math.max(...nearest));
  }
  return of;
}

function majority(words, width, of, c) {
  const counts = new Int32Array(width * 32);
  let members = 0;
  of.forEach((own, i) => {
    if (own !== c) return;
    members++;
    for (let b = 0; b < counts.length; b++) counts[b] += (words[i * width + (b >> 5)] >>> (b & 31)) & 1;
  });
  if (!members) return null;
  const centre = new Uint32Array(width);
  counts.forEach((ones, b) => {
    if (2 * ones > members) centre[b >> 5] |= 1 << (b & 31);
  });
  return centre;
}

function differing(words, at, centre) {
  let sum = 0;
  for (let w = 0; w < centre.length; w++) sum += ones(words[at + w] ^ centre[w]);
  return sum;
}
