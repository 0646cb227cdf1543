/**
 * Places to draw at: each item follows its place in the embedding, but keeps a little room to its neighbours, so that
 * equal codes lie side by side as a patch instead of on top of one another.
 */

const FOLLOW = 0.15; // share of the way in one step
const PASSES = 3;

export class Spread {
  constructor() {
    this.ids = [];
    this.x = new Float64Array(0);
    this.y = new Float64Array(0);
  }

  /** Known items stay where they are drawn; new ones appear at their place. */
  renew({ ids, x, y }) {
    const old = new Map(this.ids.map((id, i) => [id, i]));
    const [oldX, oldY] = [this.x, this.y];
    this.x = x.map((value, i) => (old.has(ids[i]) ? oldX[old.get(ids[i])] : value));
    this.y = y.map((value, i) => (old.has(ids[i]) ? oldY[old.get(ids[i])] : value));
    this.ids = ids;
  }

  /** Takes one step and gives back how far the farthest moved, in gaps. */
  step(x, y, gap) {
    const [beforeX, beforeY] = [this.x.slice(), this.y.slice()];
    for (let i = 0; i < x.length; i++) {
      this.x[i] += FOLLOW * (x[i] - this.x[i]);
      this.y[i] += FOLLOW * (y[i] - this.y[i]);
    }
    for (let pass = 0; pass < PASSES; pass++) this.makeRoom(gap);
    let farthest = 0;
    for (let i = 0; i < x.length; i++) {
      farthest = Math.max(farthest, Math.abs(this.x[i] - beforeX[i]), Math.abs(this.y[i] - beforeY[i]));
    }
    return farthest / gap;
  }

  /** Two nearer than a gap move apart, half the way each. Only items of neighbouring cells can be that near. */
  makeRoom(gap) {
    const cells = new Map();
    for (let i = 0; i < this.x.length; i++) {
      const [column, row] = [Math.floor(this.x[i] / gap), Math.floor(this.y[i] / gap)];
      for (let c = column - 1; c <= column + 1; c++) {
        for (let r = row - 1; r <= row + 1; r++) for (const j of cells.get(c * 65536 + r) ?? []) this.part(i, j, gap);
      }
      const key = column * 65536 + row;
      if (cells.has(key)) cells.get(key).push(i);
      else cells.set(key, [i]);
    }
  }

  part(i, j, gap) {
    let [dx, dy] = [this.x[i] - this.x[j], this.y[i] - this.y[j]];
    if (!dx && !dy) [dx, dy] = [gap * 1e-3 * Math.cos(i), gap * 1e-3 * Math.sin(i)]; // on one spot: any direction
    const far = Math.hypot(dx, dy);
    if (far >= gap) return;
    const share = (0.5 * (gap - far)) / far;
    this.x[i] += share * dx;
    this.y[i] += share * dy;
    this.x[j] -= share * dx;
    this.y[j] -= share * dy;
  }
}
