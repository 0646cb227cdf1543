/** The neighbours of a subject with their codes. */

const TRIES = 3;
const LOOKS = 20; // at a reader process, which has what its writer learned a moment later
const PAUSE = 100; // milliseconds between two of these

/**
 * Finds the `k` nearest to {id}, {id: null, vector} or {id: null, text}, itself left out: {hits, code, encoder, pairs}. `by` is "codes"
 * (Hamming distances) or "vectors" (codes give candidates, vectors and `pairs` marked pairs their order; not before
 * `atLeast` pairs count). Hits and codes are of one and the same encoder, where the model is not faster than two
 * requests.
 */
export async function findNeighbours(api, subject, k, by, atLeast = 0) {
  const known = subject.id !== null;
  const own = known ? { ids: [subject.id] } : subject.text ? { texts: [subject.text] } : { vectors: [subject.vector] };
  const codesOf = (what) => api.post("/v1/codes", what);
  for (let tries = TRIES; ; tries--) {
    const answer = await askAfter(api, subject, known ? k + 1 : k, by, atLeast);
    const hits = answer.ids
      .map((id, at) => ({ id, distance: answer.distances[at], payload: answer.payloads[at] }))
      .filter((hit) => hit.id !== subject.id).slice(0, k);
    const ids = hits.map(({ id }) => id);
    const [mine, theirs] = await Promise.all([codesOf(own), ids.length ? codesOf({ ids }) : null]);
    const agree = [mine, theirs ?? mine].every(({ encoder }) => encoder === answer.encoder);
    if (!agree && tries > 1) continue;
    hits.forEach((hit, at) => { hit.code = theirs.codes[at]; });
    return { hits, code: mine.codes[0], encoder: answer.encoder, pairs: answer.ranked_by.pairs ?? null };
  }
}

async function askAfter(api, subject, k, by, atLeast) {
  const { id, text, vector } = subject;
  const asked = { ...(id !== null ? { id } : text ? { text } : { vector }), k, payloads: true };
  for (let looks = LOOKS; ; looks--) {
    const answer = await api.post(by === "codes" ? "/v1/search" : "/v1/find", asked);
    if (by === "codes" || answer.ranked_by.pairs >= atLeast || looks === 1) return answer;
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}
