/** Puts the page together: the token, the header, the tabs, and each view when its tab is first opened. */
import { Api } from "./api.js";
import { bits } from "./bits.js";
import { cardMaker } from "./cards.js";
import { mountHeader } from "./header.js";
import { Live } from "./live.js";
import { recordsOf } from "./records.js";
import { Tabs } from "./tabs.js";

const trouble = document.querySelector("#trouble");

/** Shows the token's form and promises what is typed in. */
function askToken(again) {
  const dialog = document.querySelector("#token");
  const field = dialog.querySelector("input");
  if (again) dialog.querySelector("#token-note").textContent = "That token was refused. Try another.";
  const open = () => dialog.showModal();
  dialog.addEventListener("close", open); // without a token there is nothing to go back to
  open();
  return new Promise((resolve) => {
    dialog.querySelector("form").addEventListener("submit", (event) => {
      event.preventDefault();
      dialog.removeEventListener("close", open);
      dialog.close();
      resolve(field.value.trim());
      field.value = "";
    }, { once: true });
  });
}

async function start() {
  const api = new Api(askToken);
  const live = new Live(api);
  const about = await api.get("/v1/about");
  const context = {
    api, live, about, bits, card: cardMaker(api, about),
    onPick(id) {
      tabs.open("search").then((view) => view?.pick(id));
    },
  };
  if (!about.compare?.length) document.querySelector("#tab-compare").hidden = true;
  const tabs = new Tabs(document.querySelector("[role=tablist]"), context, (error) => {
    trouble.textContent = error ? error.message : "";
  });
  mountHeader(context);
  recordsOf(live); // so that Watch shows what came before it was opened
  live.start();
  await tabs.open(location.hash.slice(1));
}

start().catch((error) => { trouble.textContent = `${error.message} Reload the page to try again.`; });
