/** The rules of the views come with the first view that is opened; a view waits for them, so that nothing jumps. */

const sheet = document.createElement("link");
sheet.rel = "stylesheet";
sheet.href = new URL("views.css", import.meta.url).href;
await new Promise((resolve) => {
  sheet.onload = sheet.onerror = resolve;
  document.head.append(sheet);
});
