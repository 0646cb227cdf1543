/** The small question after one card was dragged onto another. */
import { make } from "./elements.js";

/** Promises true (similar), false (not similar) or null (neither). */
export function askAboutTwo(cardA, cardB) {
  return new Promise((resolve) => {
    const answer = (value, text, style = "button") =>
      make(style, { type: "button", click: () => { said = value; dialog.close(); } }, text);
    let said = null;
    const dialog = make("dialog.choice", { "aria-label": "Are these two similar?" },
      make("div.two", {}, cardA, cardB),
      make("p", {}, "Are these two…"),
      make("div.marks", {}, answer(true, "similar"), answer(false, "not similar")),
      answer(null, "neither", "button.plain"));
    dialog.addEventListener("close", () => { dialog.remove(); resolve(said); });
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
    document.body.append(dialog);
    dialog.showModal();
  });
}
