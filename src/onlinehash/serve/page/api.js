/** Requests to the service, with its token, and pictures as addresses an <img> can show. */
import { parse, write } from "./json.js";

const PICTURES_KEPT = 800;
const TOKEN = "onlinehash.token";

/** What the service said instead of an answer: `status`, `kind` (the error's class) and a sentence. */
export class Refused extends Error {
  constructor(status, body) {
    super(body?.message ?? `The service answered ${status}.`);
    this.status = status;
    this.kind = body?.error ?? "";
  }
}

export class Api {
  /** `askToken()` promises a token; it is called once however many requests were turned away. */
  constructor(askToken) {
    this.askToken = askToken;
    this.asking = null;
    this.epoch = 0; // of the last answer to something that was sent: whatever answers next must be as far
    this.pictures = new Map();
  }

  get(path) {
    return this.send(path).then(read);
  }

  /** `body`: a Blob as it is, anything else as JSON. */
  post(path, body = {}) {
    const raw = body instanceof Blob;
    const headers = { "Content-Type": raw ? body.type : "application/json" };
    return this.send(path, { method: "POST", headers, body: raw ? body : write(body) }).then(read);
  }

  /** The address of an item's picture, fetched once and kept while there is room. */
  picture(id) {
    const key = write(id);
    const known = this.pictures.get(key);
    this.pictures.delete(key);
    const url = known ?? this.send(`/v1/items/${encodeURIComponent(id)}/picture`)
      .then((answer) => answer.blob())
      .then((blob) => URL.createObjectURL(blob));
    this.pictures.set(key, url);
    url.catch(() => this.pictures.delete(key));
    if (this.pictures.size > PICTURES_KEPT) {
      const [oldest, old] = this.pictures.entries().next().value;
      this.pictures.delete(oldest);
      old.then(URL.revokeObjectURL, () => {});
    }
    return url;
  }

  /** A request that waits for a token where one is wanted, and once more where the service is busy. */
  async send(path, init = {}, tries = 3) {
    const token = sessionStorage.getItem(TOKEN);
    const headers = { ...init.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    if (this.epoch) headers["Onlinehash-At-Least"] = String(this.epoch);
    const answer = await fetch(path, { ...init, headers }).catch((error) => {
      if (error.name === "AbortError") throw error;
      throw new Refused(0, { error: "Offline", message: "The service cannot be reached." });
    });
    if (answer.ok) {
      if (init.method === "POST") this.epoch = Math.max(this.epoch, Number(answer.headers.get("Onlinehash-Epoch")));
      return answer;
    }
    if (answer.status === 401) {
      await this.renewToken(token);
      return this.send(path, init, tries);
    }
    if (answer.status === 429 && tries > 1) {
      const seconds = Math.min(Number(answer.headers.get("Retry-After")) || 1, 5);
      await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
      return this.send(path, init, tries - 1);
    }
    const said = await answer.json().catch(() => null);
    if (said?.error === "Behind" && this.epoch) { // for too long, or the service began anew, with other epochs
      this.epoch = 0;
      return this.send(path, init, tries);
    }
    throw new Refused(answer.status, said);
  }

  /** Asks for another token, unless one came in since `refused` was sent. */
  async renewToken(refused) {
    if (sessionStorage.getItem(TOKEN) !== refused) return;
    this.asking ??= this.askToken(refused !== null).finally(() => { this.asking = null; });
    sessionStorage.setItem(TOKEN, await this.asking);
  }
}

const read = (answer) => answer.text().then(parse);
