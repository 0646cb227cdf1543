/**
 * Exact t-SNE (van der Maaten and Hinton, 2008) of Hamming distances, a few steps at a time.
 *
 * The squared Euclidean distance of two codes is their Hamming distance, so distances enter as they are. When codes
 * change the places stay and only the pull between them changes: the picture flows. Nothing here touches the page.
 */
import { largest } from "./hamming.js";

const PERPLEXITY = 20;
const FIRST = { exaggeration: 8, steps: 120 }; // pull things together before they spread
const LATER = { exaggeration: 1.2, steps: 20 }; // after codes have changed
const SETTLING = 400; // steps from a change until the picture may rest

export class Embedding {
  constructor(seed = 1) {
    this.random = randomFrom(seed);
    this.ids = [];
    this.n = 0;
    this.x = new Float64Array(0);
    this.y = new Float64Array(0);
    this.steps = 0; // in all
    this.stepsSince = Infinity; // since the codes changed
  }

  /**
   * ids: what the rows are; distances: n times n of them. Items known from before keep their place, new ones start at
   * their nearest known neighbour's.
   */
  renew(ids, distances) {
    const old = new Map(this.ids.map((id, i) => [id, i]));
    const [oldX, oldY] = [this.x, this.y];
    const first = !ids.some((id) => old.has(id));
    const n = ids.length;
    const known = ids.map((id) => old.get(id) ?? -1);
    this.x = new Float64Array(n);
    this.y = new Float64Array(n);
    for (let i = 0; i < n; i++) {
      const from = known[i] >= 0 ? known[i] : first ? -1 : known[nearestKnown(distances, n, i, known)];
      const spread = known[i] >= 0 ? 0 : first ? 1e-2 : 0.5;
      this.x[i] = (from < 0 ? 0 : oldX[from]) + spread * this.normal();
      this.y[i] = (from < 0 ? 0 : oldY[from]) + spread * this.normal();
    }
    [this.ids, this.n] = [[...ids], n];
    this.p = affinities(distances, n, Math.min(PERPLEXITY, Math.max((n - 1) / 3, 1)));
    this.speedX = new Float64Array(n);
    this.speedY = new Float64Array(n);
    this.gainX = new Float64Array(n).fill(1);
    this.gainY = new Float64Array(n).fill(1);
    if (first) [this.pulling, this.exaggeration, this.steps] = [FIRST.steps, FIRST.exaggeration, 0];
    else if (!this.pulling) [this.pulling, this.exaggeration] = [LATER.steps, LATER.exaggeration];
    this.stepsSince = 0;
  }

  /** The first places are still being found. */
  get young() {
    return this.steps < 2 * FIRST.steps;
  }

  /** Turns the picture so that its long side lies along x, or along y where it shall be tall. */
  level(tall) {
    const { x, y, n } = this;
    let [xx, xy, yy] = [0, 0, 0];
    for (let i = 0; i < n; i++) [xx, xy, yy] = [xx + x[i] * x[i], xy + x[i] * y[i], yy + y[i] * y[i]];
    const angle = (tall ? Math.PI / 2 : 0) - 0.5 * Math.atan2(2 * xy, xx - yy);
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    for (let i = 0; i < n; i++) [x[i], y[i]] = [cos * x[i] - sin * y[i], sin * x[i] + cos * y[i]];
    for (const speed of [this.speedX, this.speedY]) speed.fill(0);
  }

  get settled() {
    return this.stepsSince >= SETTLING || this.n < 2;
  }

  normal() {
    return Math.sqrt(-2 * Math.log(1 - this.random())) * Math.cos(2 * Math.PI * this.random());
  }

  /** One step down the gradient of KL(P || Q), with momentum and a gain for each coordinate. */
  step() {
    if (this.n < 2) return;
    const { n, x, y } = this;
    const momentum = this.pulling ? 0.5 : 0.8;
    const rate = Math.max(n / 6, 10);
    const { forceX, forceY } = this.forces(this.pulling ? this.exaggeration : 1);
    for (let i = 0; i < n; i++) {
      this.gainX[i] = gained(this.gainX[i], forceX[i], this.speedX[i]);
      this.gainY[i] = gained(this.gainY[i], forceY[i], this.speedY[i]);
      this.speedX[i] = capped(momentum * this.speedX[i] - rate * this.gainX[i] * forceX[i]);
      this.speedY[i] = capped(momentum * this.speedY[i] - rate * this.gainY[i] * forceY[i]);
      x[i] += this.speedX[i];
      y[i] += this.speedY[i];
    }
    centre(x);
    centre(y);
    this.pulling = Math.max(this.pulling - 1, 0);
    this.stepsSince++;
    this.steps++;
  }

  /** The gradient, from each pair once: both ends feel the same force. */
  forces(exaggeration) {
    const { n, x, y, p } = this;
    const [pullX, pullY, pushX, pushY] = Array.from({ length: 4 }, () => new Float64Array(n));
    let sum = 0;
    for (let i = 1; i < n; i++) {
      const [xi, yi, row] = [x[i], y[i], i * n];
      let [ax, ay, bx, by] = [0, 0, 0, 0];
      for (let j = 0; j < i; j++) {
        const dx = xi - x[j];
        const dy = yi - y[j];
        const q = 1 / (1 + dx * dx + dy * dy);
        sum += q;
        const pull = p[row + j] * q;
        const push = q * q;
        ax += pull * dx;
        ay += pull * dy;
        bx += push * dx;
        by += push * dy;
        pullX[j] -= pull * dx;
        pullY[j] -= pull * dy;
        pushX[j] -= push * dx;
        pushY[j] -= push * dy;
      }
      pullX[i] += ax;
      pullY[i] += ay;
      pushX[i] += bx;
      pushY[i] += by;
    }
    const scale = 1 / (2 * sum);
    for (let i = 0; i < n; i++) {
      pullX[i] = 4 * (exaggeration * pullX[i] - scale * pushX[i]);
      pullY[i] = 4 * (exaggeration * pullY[i] - scale * pushY[i]);
    }
    return { forceX: pullX, forceY: pullY };
  }
}

/** Numbers in [0, 1) that a seed fixes (a 32-bit mixing generator; Math.random takes no seed). */
export function randomFrom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32;
  };
}

/**
 * P: how much each pair belongs together, in all one. Each row's width is found by halving, so that it has the wished
 * perplexity; where too many codes are equal no width has it, and the narrowest stands. Distances are whole numbers, so
 * a row's sums go over how often each distance occurs.
 */
export function affinities(distances, n, perplexity) {
  const p = new Float32Array(n * n);
  const most = largest(distances);
  const [often, weight] = [new Float64Array(most + 1), new Float64Array(most + 1)];
  for (let i = 0; i < n; i++) {
    often.fill(0);
    for (let j = 0; j < n; j++) often[distances[i * n + j]] += j !== i;
    const sum = weigh(often, weight, perplexity);
    for (let j = 0; j < n; j++) {
      if (j === i) continue;
      const half = weight[distances[i * n + j]] / (sum * 2 * n);
      p[i * n + j] += half;
      p[j * n + i] += half;
    }
  }
  return p;
}

/** Fills in the weight of each distance and gives back their sum over a row that has each so often. */
function weigh(often, weight, perplexity) {
  const nearest = often.findIndex((times) => times > 0);
  let [low, high, beta, sum] = [0, Infinity, 1, 0];
  for (let tries = 0; tries < 40; tries++) {
    let weighted = 0;
    sum = 0;
    for (let d = nearest; d < often.length; d++) {
      weight[d] = Math.exp(-beta * (d - nearest));
      sum += often[d] * weight[d];
      weighted += often[d] * (d - nearest) * weight[d];
    }
    const excess = Math.log(sum) + (beta * weighted) / sum - Math.log(perplexity);
    if (Math.abs(excess) < 1e-4 || beta > 50) break;
    if (excess > 0) [low, beta] = [beta, high === Infinity ? beta * 2 : (beta + high) / 2];
    else [high, beta] = [beta, (low + beta) / 2];
  }
  return sum;
}

function nearestKnown(distances, n, i, known) {
  let best = -1;
  for (let j = 0; j < n; j++) {
    if (known[j] >= 0 && (best < 0 || distances[i * n + j] < distances[i * n + best])) best = j;
  }
  return best;
}

/** A coordinate that goes on downhill gains speed, one that has gone too far loses it. */
function gained(gain, force, speed) {
  return Math.max(0.1, Math.sign(force) === Math.sign(speed) ? gain * 0.8 : gain + 0.2);
}

/** No jump larger than the eye can follow. */
function capped(speed) {
  return Math.max(-2, Math.min(2, speed));
}

function centre(values) {
  let sum = 0;
  for (const value of values) sum += value;
  for (let i = 0; i < values.length; i++) values[i] -= sum / values.length;
}
