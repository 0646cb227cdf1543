/** One pair said to be similar or not: telling the service, and what it did in words. */
import { count, number } from "./elements.js";
import { write } from "./json.js";

/** Tells the service about two subjects ({id} or {vector}) and gives back its update: loss, bits, and what waits. */
export async function teachPair(api, a, b, similar) {
  const byId = a.id !== null && b.id !== null;
  const pair = byId
    ? { id_a: a.id, id_b: b.id }
    : { a: await vectorOf(api, a), b: await vectorOf(api, b) };
  const answer = await api.post("/v1/learn", { ...pair, similar, refresh: true });
  return { loss: answer.loss[0], bits: answer.bits[0], pending: answer.pending[0], waiting: answer.waiting };
}

/** Lets the learner take the pairs that wait now, few as they are, and the codes follow. */
export async function learnNow(api) {
  await api.post("/v1/flush");
  await api.post("/v1/refresh", { wait: true });
}

async function vectorOf(api, subject) {
  return subject.vector ?? (await api.post("/v1/items/get", { ids: [subject.id], vectors: true })).items[0].vector;
}

/** "loss 5, moved 7 of 32 bits" */
export function outcome({ loss, bits, pending, waiting }, about) {
  if (pending) return `kept for later: ${count(pending, "pair")} wait until the model has seen enough items`;
  if (waiting) return `noted, pair ${waiting} of the ${about.chunk} that are learned together`;
  if (!bits.length) return unmoved(loss, about);
  const all = about.n_bits * about.n_models;
  const moved = `moved ${bits.length} of ${count(all, "bit")}`;
  if (about.chunk > 1) return `learned together with the pairs before it, ${moved}`;
  return `loss ${number(loss)}, ${moved}${bits.length === all ? " (early on, each pair moves all of them a little)" : ""}`;
}

/** Of a pair that moved nothing. Only the paper's loss is zero exactly if the codes say the same as the pair. */
function unmoved(loss, { method }) {
  const counts = ["OnlineHashing", "MultiModelOnlineHashing"].includes(method);
  return counts && !loss ? "nothing to learn: the codes already agree" : "noted: no bit has moved";
}

/** The same for a narrow list, where it stays, so that it must stay true. */
export function briefly({ loss, bits, pending, waiting }, about) {
  if (pending) return "kept for later";
  if (waiting) return "noted";
  if (!bits.length) return unmoved(loss, about).split(":")[0];
  return about.chunk > 1 ? `learned, ${count(bits.length, "bit")}` : `loss ${number(loss)}, ${count(bits.length, "bit")}`;
}

/** The positions to mark in the codes shown: none where nothing was learned, nor where all moved with their centre. */
export function movedBits({ loss, bits, waiting }, about) {
  return new Set(loss && !waiting && bits.length < about.n_bits * about.n_models ? bits : []);
}

/** One name for a pair, whichever of the two comes first. */
export const pairKey = (a, b) => [a, b].map((one) => write(one.id ?? one.name)).sort().join(" ");
