/** One cell for each bit of the code: how often its hash function moved lately, fading. */
import { count } from "./axis.js";
import { chartFigure } from "./figure.js";
import { Surface, calm, say } from "./surface.js";

const HALF_LIFE = 4; // seconds until a move counts half

export class BitStrip {
  /** moves: a Map of how often each bit moved in all, kept by others. */
  constructor(nBits, nModels, moves) {
    this.nBits = nBits;
    this.nModels = nModels;
    this.n = nBits * nModels;
    this.moves = moves;
    this.heat = new Float64Array(this.n);
    this.at = performance.now();
    this.chosen = null;
    Object.assign(this, chartFigure("Bits moved", {
      choose: (left, top) => this.choose(left === null ? null : this.cellAt(left, top)),
      focus: () => this.choose(0),
      key: (event) => this.step(event),
    }));
    this.surface = new Surface(this.canvas, (context, width, height) => this.paint(context, width, height));
    this.tell();
  }

  /** bits: {"3": 2, ...}, how often which bit moved. */
  push(bits) {
    this.fade();
    for (const [bit, times] of Object.entries(bits)) this.heat[bit] += times;
    this.tell();
    this.surface.draw();
  }

  fade() {
    const now = performance.now();
    const kept = 0.5 ** ((now - this.at) / 1000 / HALF_LIFE);
    this.at = now;
    for (let i = 0; i < this.n; i++) this.heat[i] *= kept;
  }

  tell() {
    const moved = this.moves.size;
    let [all, busiest] = [0, 0];
    for (const [bit, times] of this.moves) {
      all += times;
      if (times > (this.moves.get(busiest) ?? 0)) busiest = bit;
    }
    this.last.textContent = all ? `${moved} of ${this.n}` : "–";
    const most = this.name(busiest);
    const busy = `${moved} of ${this.n} bits have moved, ${count(all)} times in all; the busiest is ${most}`;
    this.canvas.setAttribute("aria-label", `Bits moved: ${all ? busy : "none yet"}. Arrow keys read single bits.`);
    const times = this.chosen === null ? 0 : this.moves.get(this.chosen) ?? 0;
    if (this.chosen !== null) say(this.readout, `${this.name(this.chosen)}: moved ${count(times)} times`);
    else say(this.readout, all ? "one cell a bit, brighter the more its function moved lately" : "nothing yet");
  }

  name(bit) {
    const place = `bit ${bit % this.nBits}`;
    return this.nModels > 1 ? `model ${Math.floor(bit / this.nBits) + 1}, ${place}` : place;
  }

  choose(bit) {
    this.chosen = bit;
    this.tell();
    this.surface.draw();
  }

  step(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns };
    if (!(event.key in moves)) return;
    event.preventDefault();
    this.choose(Math.max(0, Math.min(this.n - 1, (this.chosen ?? 0) + moves[event.key])));
  }

  /** As many columns as make the cells nearly square; a model never shares a row with another. */
  layout(width, height) {
    const wanted = Math.sqrt((this.n * width) / height);
    const wide = Math.max(8, Math.min(this.nBits, Math.round(wanted / 8) * 8));
    this.columns = wide;
    this.rowsPerModel = Math.ceil(this.nBits / wide);
    this.cellWidth = width / wide;
    this.cellHeight = Math.min(height / (this.rowsPerModel * this.nModels), this.cellWidth * 1.6);
    this.top = (height - this.cellHeight * this.rowsPerModel * this.nModels) / 2;
  }

  cellAt(left, top) {
    const column = Math.floor(left / this.cellWidth);
    const row = Math.floor((top - this.top) / this.cellHeight);
    const model = Math.floor(row / this.rowsPerModel);
    const bit = (row % this.rowsPerModel) * this.columns + column;
    const known = row >= 0 && model < this.nModels && column >= 0 && column < this.columns && bit < this.nBits;
    return known ? model * this.nBits + bit : null;
  }

  paint(context, width, height) {
    this.fade();
    this.layout(width, height);
    const hottest = Math.max(4, ...this.heat);
    const gap = Math.min(3, this.cellWidth * 0.15);
    for (let i = 0; i < this.n; i++) {
      const bit = i % this.nBits;
      const row = Math.floor(i / this.nBits) * this.rowsPerModel + Math.floor(bit / this.columns);
      const box = [
        (bit % this.columns) * this.cellWidth + gap / 2, this.top + row * this.cellHeight + gap / 2,
        this.cellWidth - gap, this.cellHeight - gap, Math.min(4, this.cellWidth / 5),
      ];
      context.beginPath();
      context.roundRect(...box);
      context.fillStyle = this.surface.colour("--rule");
      context.fill();
      context.globalAlpha = Math.min(1, (this.heat[i] / hottest) ** 0.8);
      context.fillStyle = this.surface.colour("--oh");
      context.fill();
      context.globalAlpha = 1;
      if (i !== this.chosen) continue;
      context.strokeStyle = this.surface.colour("--ink");
      context.lineWidth = 2;
      context.stroke();
    }
    // Fading needs no event; where people asked for calm it shows with the next one.
    if (!calm.matches && Math.max(...this.heat) > 0.02) setTimeout(() => this.surface.draw(), 100);
  }
}
