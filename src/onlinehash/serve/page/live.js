/** What happens in the service, as it happens: GET /events read by fetch, since EventSource sends no token. */

const SILENCE = 40_000; // the service says something every 15 seconds
const LONGEST_WAIT = 15_000;

export class Live {
  constructor(api) {
    this.api = api;
    this.listeners = new Map();
  }

  /** Calls `heard(data)` at each event of that name; "connection" tells true or false. Gives back what ends it. */
  on(name, heard) {
    if (!this.listeners.has(name)) this.listeners.set(name, new Set());
    this.listeners.get(name).add(heard);
    return () => this.listeners.get(name).delete(heard);
  }

  tell(name, data) {
    for (const heard of this.listeners.get(name) ?? []) heard(data);
  }

  /** Listens for ever; a lost connection is tried again, each time after a longer wait. */
  async start() {
    let wait = 500;
    for (;;) {
      try {
        await this.listen(() => { wait = 500; this.tell("connection", true); });
      } catch { /* said below: the connection is gone, whatever ended it */ }
      this.tell("connection", false);
      await new Promise((resolve) => setTimeout(resolve, wait * (0.75 + Math.random() / 2)));
      wait = Math.min(2 * wait, LONGEST_WAIT);
    }
  }

  async listen(opened) {
    const stop = new AbortController();
    const answer = await this.api.send("/events", { signal: stop.signal, cache: "no-store" });
    opened();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const silence = setTimeout(() => stop.abort(), SILENCE);
      const { done, value } = await reader.read().finally(() => clearTimeout(silence));
      if (done) return;
      const blocks = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
      rest = blocks.pop();
      blocks.forEach((block) => this.hear(block));
    }
  }

  hear(block) {
    let name = "message";
    const data = [];
    for (const line of block.split("\n")) {
      const [, field, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
      if (field === "event") name = value;
      if (field === "data") data.push(value);
    }
    if (data.length) this.tell(name, JSON.parse(data.join("\n")));
  }
}
