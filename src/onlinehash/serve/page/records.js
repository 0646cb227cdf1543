/** What the events told so far, kept for the charts whether or not anybody looks. */
import { MovingMean, Ring, Story } from "./series.js";

export const PAIRS = 2000; // losses kept
export const MEAN = 200; // pairs a moving mean covers
export const SECONDS = 120; // how far back the charts over time go

const UPDATES = 20; // events the update rate is smoothed over, some two seconds of them

export const now = () => performance.now() / 1000;

export class Records {
  /** `heard(name, event)` is told after the event has been kept. */

  constructor(live) {
    this.heard = () => {};
    this.loss = new Ring(PAIRS);
    this.meanLoss = new Ring(PAIRS);
    this.updates = new Ring(PAIRS);
    this.map = new Story(400);
    this.refreshes = new Ring(SECONDS * 10);
    for (const name of ["bitsBehind", "pairsBehind", "searches", "queue"]) this[name] = new Ring(SECONDS * 4);
    this.moves = new Map(); // how often which bit moved, in all
    this.lossMean = new MovingMean(MEAN);
    this.updateMean = new MovingMean(UPDATES);
    for (const name of ["learned", "refreshed", "measured", "stats"]) {
      live.on(name, (event) => {
        this[name](event);
        this.heard(name, event);
      });
    }
    live.on("hello", (event) => {
      this.stats(event);
      this.heard("stats", event);
    });
  }

  learned({ n_pairs, losses, updated, count, bits }) {
    losses.forEach((loss, i) => {
      const pair = n_pairs - losses.length + 1 + i;
      this.loss.push(pair, loss);
      this.meanLoss.push(pair, this.lossMean.push(loss));
    });
    if (count) this.updates.push(n_pairs, this.updateMean.push(updated / count));
    for (const [name, times] of Object.entries(bits)) {
      const bit = Number(name);
      this.moves.set(bit, (this.moves.get(bit) ?? 0) + times);
    }
  }

  refreshed() {
    this.refreshes.push(now(), 0);
  }

  measured({ n_pairs, map }) {
    this.map.push(n_pairs, map);
  }

  stats({ behind, searches_per_second, queue, measured }) {
    const at = now();
    this.bitsBehind.push(at, behind.bits);
    this.pairsBehind.push(at, behind.pairs);
    this.searches.push(at, searches_per_second);
    this.queue.push(at, queue.length);
    // Figures may tell what an event has told already, and later than it.
    const known = this.map.length ? this.map.x(this.map.length - 1) : -1;
    if (measured && measured.n_pairs > known) this.measured(measured);
  }
}

const kept = new WeakMap();

/** The records of a connection. Whoever calls first makes them begin. */
export function recordsOf(live) {
  if (!kept.has(live)) kept.set(live, new Records(live));
  return kept.get(live);
}
