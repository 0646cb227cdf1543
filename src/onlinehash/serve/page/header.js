/** The head of the page: what is served, the figures that move, the teacher's controls, the connection. */
import { count, make, number } from "./elements.js";

const SPEEDS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

export function mountHeader({ api, live, about }) {
  const at = (id) => document.getElementById(id);
  const showServed = (n) => {
    const bits = about.n_models > 1 ? `${about.n_models} × ${count(about.n_bits, "bit")}` : count(about.n_bits, "bit");
    const method = about.method.replace(/(?<=[a-z])(?=[A-Z])/g, " "); // a class's name in words
    const parts = [method, bits, count(n, "item"), about.read_only ? "read only" : null];
    at("served").textContent = parts.filter(Boolean).join(" · ");
  };
  showServed(about.n);
  live.on("items", ({ n }) => showServed(n));
  mountFigures(at("figures"), live, showServed);
  mountConnection(at("connection"), live);
  if (about.teacher) mountTeacher(at("teacher"), api, live);
}

function mountFigures(list, live, showServed) {
  const figure = (name, title) => {
    const value = make("dd", {}, "–");
    const held = make("div", { title }, make("dt", {}, name), value);
    list.append(held);
    return (text) => { held.hidden = text === null; value.textContent = text ?? ""; };
  };
  const pairs = figure("pairs taught", "how many pairs the model was told of");
  const behind = figure("bits behind", "bits whose hash function has moved since the codes were made");
  const map = figure("mAP", "mean average precision on held-out queries");
  const showMap = (measured) => map(measured ? measured.map.toFixed(3) : null);
  const showAll = (stats) => {
    pairs(number(stats.n_pairs));
    behind(number(stats.behind?.bits ?? 0));
    if (stats.measured !== undefined) showMap(stats.measured);
    showServed(stats.n);
  };
  showMap(null);
  live.on("hello", showAll);
  live.on("stats", showAll);
  live.on("learned", ({ n_pairs }) => pairs(number(n_pairs)));
  live.on("measured", showMap);
}

function mountConnection(line, live) {
  live.on("connection", (open) => {
    line.className = open ? "open" : "lost";
    line.textContent = open ? "live" : "connecting again";
  });
}

/** Start or pause, and how fast; what the service answers is what is shown. */
function mountTeacher(group, api, live) {
  const title = "a simulated teacher: it knows the labels and marks pairs";
  const button = make("button.primary", { type: "button", title }, "Start teacher");
  const slider = make("input", { type: "range", max: SPEEDS.length - 1, "aria-label": "pairs a second" });
  const speed = make("output.soft");
  const note = make("span.trouble", { role: "alert" });
  let running = false;
  const shown = () => SPEEDS[slider.valueAsNumber];
  const show = (teacher) => {
    running = teacher.running;
    button.textContent = running ? "Pause teacher" : "Start teacher";
    button.setAttribute("aria-pressed", String(running));
    const far = (one) => Math.abs(Math.log(one / teacher.pairs_per_second));
    const nearest = SPEEDS.reduce((best, one) => (far(one) < far(best) ? one : best));
    if (document.activeElement !== slider) slider.value = SPEEDS.indexOf(nearest);
    say(teacher.pairs_per_second);
  };
  const say = (pairsPerSecond) => {
    speed.textContent = `${number(pairsPerSecond)} pairs/s`;
    slider.setAttribute("aria-valuetext", `${pairsPerSecond} pairs a second`);
  };
  const ask = (wish) => api.post("/v1/teacher", wish)
    .then((teacher) => { note.textContent = ""; show(teacher); }, (error) => { note.textContent = error.message; });
  button.addEventListener("click", () => ask({ running: !running, pairs_per_second: shown() }));
  slider.addEventListener("input", () => say(shown()));
  slider.addEventListener("change", () => ask({ running, pairs_per_second: shown() }));
  group.append(button, slider, speed, note);
  group.hidden = false;
  live.on("teacher", show);
  live.on("hello", ({ teacher }) => { if (teacher) show(teacher); });
  api.get("/v1/teacher").then(show, (error) => { note.textContent = error.message; });
}
