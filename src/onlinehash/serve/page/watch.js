/** Watch: what learning does, live. Everything here comes from the server's events. */
import { count, fixed, percent, secondsAgo, short } from "./axis.js";
import { Chart } from "./charts.js";
import { make } from "./elements.js";
import { MEAN, SECONDS, now, recordsOf } from "./records.js";
import { BitStrip } from "./strip.js";
import "./style.js";

const overTime = {
  span: seen, shift: now, x: secondsAgo, smallestX: 5,
  tickX: (seconds) => (seconds > -1 ? "now" : `−${Math.round(-seconds)} s`),
};
const overPairs = { x: (pair) => `pair ${count(pair)}` };

export function mount(section, { api, live, about }) {
  const records = recordsOf(live);
  const charts = chartsOf(records);
  const strip = new BitStrip(about.n_bits, about.n_models, records.moves);
  const hint = make("p.view-hint", { role: "status" }, `Nothing has been learned yet. ${
    about.teacher ? "Start the teacher, or mark two items" : "Mark two items"
  } in Search and teach: the charts begin with the first pair.`);
  section.append(
    make("p.view-lead", {}, "What pairs do to the hash functions, and how closely the codes follow."),
    hint,
    make("div.charts", {},
      charts.loss.figure, ...(about.label ? [charts.map.figure] : []), strip.figure, charts.updates.figure,
      charts.pairsBehind.figure, charts.bitsBehind.figure, charts.searches.figure, charts.queue.figure),
  );

  records.heard = (name, event) => {
    if (name === "learned") strip.push(event.bits);
    if (name === "learned") for (const chart of [charts.loss, charts.updates]) chart.surface.draw();
    hint.hidden ||= event.n_pairs > 0;
  };
  // The lines follow every event; words twice a second, as people read slower, and as time goes on without events.
  let timer = 0;
  const tell = () => Object.values(charts).forEach((chart) => chart.update());
  // The tab may be opened long after hello.
  api.get("/v1/stats").then((stats) => {
    records.stats(stats);
    hint.hidden ||= stats.n_pairs > 0;
    tell();
  }, () => {});
  return {
    show() {
      tell();
      timer ||= setInterval(tell, 500);
    },
    hide() {
      clearInterval(timer);
      timer = 0;
    },
  };
}

/** The last two minutes, or as much of them as has been seen. */
function seen(series, end) {
  const first = series.length ? series.x(0) : Infinity;
  return [Math.max(end - SECONDS, Math.min(first, end - 20)), end];
}

function chartsOf(records) {
  const part = (name, kind, colour) => ({ series: records[name], kind, colour });
  const refreshes = part("refreshes", "marks", "--mmoh");
  return {
    loss: new Chart([part("loss", "dots", "--lsh"), part("meanLoss", "line", "--oh")], {
      ...overPairs, title: "Loss per pair", value: fixed(2), note: `dots: single pairs; line: mean of the last ${MEAN}`,
    }),
    map: new Chart([part("map", "line", "--plain")], {
      ...overPairs, title: "mAP on held-out queries", value: fixed(3), from: null, least: 0.1, to: 1,
      note: "do items of the same label come first? 1: always",
    }),
    updates: new Chart([part("updates", "line", "--mmoh")], {
      ...overPairs, title: "Update rate", value: percent, tick: percent, to: 1,
      note: "share of the pairs that changed a hash function",
    }),
    pairsBehind: new Chart([refreshes, part("pairsBehind", "steps", "--oh")], {
      ...overTime, title: "Codes behind, in pairs", value: count, whole: true,
      note: "pairs taught since the codes were made; ticks: refreshes",
    }),
    bitsBehind: new Chart([refreshes, part("bitsBehind", "steps", "--oh")], {
      ...overTime, title: "Codes behind, in bits", value: count, whole: true,
      note: "hash functions newer than their codes; ticks: refreshes",
    }),
    searches: new Chart([part("searches", "steps", "--oh")], {
      ...overTime, title: "Searches per second", value: (rate) => short(Number(rate.toPrecision(2))),
      note: "answered lately",
    }),
    queue: new Chart([part("queue", "steps", "--oh")], {
      ...overTime, title: "Queue", value: count, whole: true, note: "changes that wait for their turn",
    }),
  };
}
