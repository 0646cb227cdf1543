/** The neighbours of a subject with their codes. */

const TRIES = 3;

/**
 * Searches for the `k` nearest to {id} or {id: null, vector}, itself left out: {hits, code, encoder}. Search and codes
 * are of one and the same encoder, where the model is not faster than two requests.
 */
export async function findNeighbours(api, subject, k) {
  const known = subject.id !== null;
  const own = known ? { ids: [subject.id] } : { vectors: [subject.vector] };
  const codesOf = (what) => api.post("/v1/codes", what);
  for (let tries = TRIES; ; tries--) {
    const asked = known ? { id: subject.id } : { vector: subject.vector };
    const answer = await api.post("/v1/search", { ...asked, k: known ? k + 1 : k, payloads: true });
    const hits = answer.ids
      .map((id, at) => ({ id, distance: answer.distances[at], payload: answer.payloads[at] }))
      .filter((hit) => hit.id !== subject.id).slice(0, k);
    const ids = hits.map(({ id }) => id);
    const [mine, theirs] = await Promise.all([codesOf(own), ids.length ? codesOf({ ids }) : null]);
    const agree = [mine, theirs ?? mine].every(({ encoder }) => encoder === answer.encoder);
    if (!agree && tries > 1) continue;
    hits.forEach((hit, at) => { hit.code = theirs.codes[at]; });
    return { hits, code: mine.codes[0], encoder: answer.encoder };
  }
}
