/** One pair said to be similar or not: telling the service, and what it did in words. */
import { count, number } from "./elements.js";
import { write } from "./json.js";

/**
 * Tells the service about two subjects ({id}, {text} or {vector}); `refresh` where the codes are to follow before the answer.
 * Gives back its update: loss, bits, what waits, and how many pairs count in the order of what is found.
 */
export async function teachPair(api, a, b, similar, refresh) {
  if (b.text && a.id !== null) [a, b] = [b, a]; // the service takes a text and an item in this order
  const pair = a.id !== null && b.id !== null ? { id_a: a.id, id_b: b.id }
    : a.text && b.id !== null ? { text_a: a.text, id_b: b.id }
    : { a: await vectorOf(api, a), b: await vectorOf(api, b) };
  const answer = await api.post("/v1/learn", { ...pair, similar, refresh });
  const { waiting, ranking_pairs: counted } = answer;
  return { loss: answer.loss[0], bits: answer.bits[0], pending: answer.pending[0], waiting, counted };
}

/** Lets the learner take the pairs that wait now, few as they are, and the codes follow. */
export async function learnNow(api) {
  await api.post("/v1/flush");
  await api.post("/v1/refresh", { wait: true });
}

async function vectorOf(api, subject) {
  return subject.vector ?? (await api.post("/v1/items/get", { ids: [subject.id], vectors: true })).items[0].vector;
}

/** What a mark did to the order: how many of what is shown, if anything is, have another place or are new. */
export function reordered({ moved, fresh }) {
  const parts = [moved && `${moved} moved`, fresh && `${fresh} new`].filter(Boolean);
  const order = parts.length ? parts.join(", ") : moved === undefined ? null : "the order stays";
  return ["counted", order].filter(Boolean).join(", ");
}

/**
 * What it did to the hash functions, or when it will; `followed`: whether the codes shown are newer than those before.
 * What a pair does to the order never waits; hash functions may learn in chunks, and codes follow them at refreshes.
 */
export function outcome({ loss, bits, pending, waiting }, about, followed) {
  if (pending) return `the hash functions learn it once there are enough items (${count(pending, "pair")} waiting)`;
  if (waiting) return `the hash functions learn it after ${count(about.chunk - waiting, "more pair")}`;
  if (!bits.length) return unmoved(loss, about);
  const all = about.n_bits * about.n_models;
  const early = about.chunk === 1 && bits.length === all ? " (early on, each pair moves all of them a little)" : "";
  const later = followed ? "" : ", the codes follow at the next refresh";
  const moved = `moved ${bits.length} of ${count(all, "bit")}${early}${later}`;
  return about.chunk > 1 ? `learned with the pairs before it, ${moved}` : `loss ${number(loss)}, ${moved}`;
}

/** Of a pair that moved nothing. Only the paper's loss is zero exactly if the functions' codes say what the pair does. */
function unmoved(loss, { method }) {
  const counts = ["OnlineHashing", "MultiModelOnlineHashing"].includes(method);
  return counts && !loss ? "the hash functions already agree" : "no hash function has moved";
}

/** The same for a narrow list, where it stays, so that it must stay true. */
export function briefly({ bits, pending, waiting }) {
  return pending || waiting || !bits.length ? "counted" : `counted, ${count(bits.length, "bit")}`;
}

/** The positions to mark in the codes shown: none where nothing was learned, nor where all moved with their centre. */
export function movedBits({ loss, bits, waiting }, about) {
  return new Set(loss && !waiting && bits.length < about.n_bits * about.n_models ? bits : []);
}

/** One name for a pair, whichever of the two comes first. */
export const pairKey = (a, b) => [a, b].map((one) => write(one.id ?? one.name)).sort().join(" ");
