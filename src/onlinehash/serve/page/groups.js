/** Which group an item belongs to, and so its colour: its label's, or where there are none its cluster's. */
import { clusters } from "./hamming.js";

const CLUSTERS = 8;

export class Groups {
  constructor() {
    this.names = [];
    this.of = []; // the group of each item, by its place
    this.ids = [];
  }

  renew(ids, codes, labels) {
    if (labels) this.byLabel(labels);
    else this.byCluster(ids, codes);
    this.ids = ids;
  }

  byLabel(labels) {
    const known = [...new Set(labels)].sort(inOrder);
    const place = new Map(known.map((label, i) => [label, i]));
    this.names = known.map((label) => String(label ?? "none"));
    this.of = labels.map((label) => place.get(label));
  }

  /** Goes on from the clusters of before where the items are the same, so that colours stay. */
  byCluster(ids, codes) {
    const before = new Map(this.ids.map((id, i) => [id, this.of[i]]));
    const same = ids.length === this.ids.length && ids.every((id) => before.has(id));
    const k = Math.min(CLUSTERS, ids.length);
    this.of = clusters(codes, k, same ? ids.map((id) => before.get(id)) : null);
    this.names = Array.from({ length: k }, (_, c) => `cluster ${c + 1}`);
  }
}

function inOrder(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a) < String(b) ? -1 : 1;
}
