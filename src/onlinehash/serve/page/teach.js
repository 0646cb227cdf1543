/** One pair said to be similar or not: telling the service, and what it did in words. */
import { count, number } from "./elements.js";
import { write } from "./json.js";

/** Tells the service about two subjects ({id} or {vector}) and gives back its update: loss, bits, pending. */
export async function teachPair(api, a, b, similar) {
  const byId = a.id !== null && b.id !== null;
  const pair = byId
    ? { id_a: a.id, id_b: b.id }
    : { a: await vectorOf(api, a), b: await vectorOf(api, b) };
  const answer = await api.post("/v1/learn", { ...pair, similar, refresh: true });
  return { loss: answer.loss[0], bits: answer.bits[0], pending: answer.pending[0] };
}

async function vectorOf(api, subject) {
  return subject.vector ?? (await api.post("/v1/items/get", { ids: [subject.id], vectors: true })).items[0].vector;
}

/** "loss 5, moved 7 of 32 bits" */
export function outcome({ loss, bits, pending }, about) {
  if (pending) return `kept for later: ${count(pending, "pair")} wait until the model has seen enough items`;
  if (!loss || !bits.length) return "nothing to learn: the codes already agree";
  const all = about.n_bits * about.n_models;
  const early = bits.length === all ? " (early on, each pair moves all of them a little)" : "";
  return `loss ${number(loss)}, moved ${bits.length} of ${count(all, "bit")}${early}`;
}

/** The same for a narrow list. */
export function briefly({ loss, bits, pending }) {
  if (pending) return "kept for later";
  return !loss || !bits.length ? "nothing to learn" : `loss ${number(loss)}, ${count(bits.length, "bit")}`;
}

/** The positions to mark in the codes shown: none where nothing was learned, nor where all moved with their centre. */
export function movedBits({ loss, bits }, about) {
  return new Set(loss && bits.length < about.n_bits * about.n_models ? bits : []);
}

/** One name for a pair, whichever of the two comes first. */
export const pairKey = (a, b) => [a, b].map((one) => write(one.id ?? one.name)).sort().join(" ");
