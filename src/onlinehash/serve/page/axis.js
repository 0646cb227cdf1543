/** Round ticks, and numbers as people write them. */

/** Ticks at multiples of 1, 2 or 5 times a power of ten, about `count` of them, from low to high. */
export function ticks(low, high, count, smallest = 0) {
  const rough = Math.max((high - low) / count, 1e-12);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max([1, 2, 5, 10].find((m) => m * power >= rough * 0.999) * power, smallest);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) {
    found.push(Number((i * step).toPrecision(12)));
  }
  return { step, values: found };
}

/** The smallest round range that holds all values and is at least `least` wide. */
export function roundRange(low, high, least, count) {
  const { step } = ticks(low, Math.max(high, low + least), count);
  const first = Math.floor(low / step + 1e-9) * step;
  return [first, Math.max(Math.ceil(Math.max(high, low + least) / step - 1e-9) * step, first + step)];
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function count(value) {
  return whole.format(value);
}

/** Short, for ticks: 12k, 1.5M. */
export function short(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(4))}k`;
  return String(Number(value.toPrecision(4)));
}

export function fixed(digits) {
  return (value) => value.toFixed(digits);
}

export function percent(value) {
  return `${Math.round(value * 100)} %`;
}

export function secondsAgo(value) {
  const s = Math.round(-value);
  if (s <= 0) return "now";
  return s < 120 ? `${s} s ago` : `${Math.round(s / 60)} min ago`;
}
