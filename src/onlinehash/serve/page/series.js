/**
 * What the charts remember: a fixed number of points, however long the page stays open. x never falls: where it would,
 * as after a rollback of the model, the series begins anew.
 */

/** The last `capacity` points. */
export class Ring {
  constructor(capacity) {
    this.capacity = capacity;
    this.xs = new Float64Array(capacity);
    this.ys = new Float64Array(capacity);
    this.length = 0;
    this.next = 0;
  }

  push(x, y) {
    if (this.length && x < this.x(this.length - 1)) this.length = 0;
    this.xs[this.next] = x;
    this.ys[this.next] = y;
    this.next = (this.next + 1) % this.capacity;
    this.length = Math.min(this.length + 1, this.capacity);
  }

  place(i) {
    return (this.next - this.length + i + this.capacity) % this.capacity;
  }

  x(i) {
    return this.xs[this.place(i)];
  }

  y(i) {
    return this.ys[this.place(i)];
  }
}

/** The whole story: when it is full, every second point goes, and from then on only every second one enters. */
export class Story {
  constructor(capacity) {
    this.capacity = capacity;
    this.points = [];
    this.stride = 1;
    this.pushed = 0;
  }

  get length() {
    return this.points.length;
  }

  push(x, y) {
    if (this.points.length && x < this.points.at(-1)[0]) [this.points, this.stride, this.pushed] = [[], 1, 0];
    // The newest point is always there; it stays only if it lies on the stride.
    if (this.points.length && !this.lastStays) this.points.pop();
    this.points.push([x, y]);
    this.lastStays = this.pushed++ % this.stride === 0;
    if (this.points.length < this.capacity) return;
    this.points = this.points.filter((_, i) => i % 2 === 0);
    this.stride *= 2;
    this.lastStays = true;
  }

  x(i) {
    return this.points[i][0];
  }

  y(i) {
    return this.points[i][1];
  }
}

/** The mean of the last `width` values, one value at a time. */
export class MovingMean {
  constructor(width) {
    this.values = new Ring(width);
    this.sum = 0;
  }

  push(value) {
    if (this.values.length === this.values.capacity) this.sum -= this.values.y(0);
    this.values.push(0, value);
    this.sum += value;
    return this.sum / this.values.length;
  }
}

/** The first point at or after x, by halving; `series.length` where there is none. */
export function firstFrom(series, x) {
  let low = 0;
  let high = series.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (series.x(middle) < x) low = middle + 1;
    else high = middle;
  }
  return low;
}
