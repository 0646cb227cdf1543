/** Dragging one card onto another, with a mouse at once and with a finger after a short hold. */

const FAR = 6; // pixels before a press becomes a drag
const HOLD = 280; // milliseconds before a finger drags instead of scrolling

/** Cards inside `root` (with data-id or data-query) can be dragged; `onDrop(from, onto)` gets the two elements. */
export function dragCards(root, onDrop) {
  let drag = null;

  const cardAt = (element) => element?.closest?.(".card[data-id], .card[data-query]") ?? null;

  root.addEventListener("pointerdown", (event) => {
    const card = cardAt(event.target);
    if (!card || event.button !== 0 || event.target.closest(".marks")) return;
    drag = { card, id: event.pointerId, x: event.clientX, y: event.clientY, ghost: null, onto: null, hold: null };
    if (event.pointerType !== "mouse") drag.hold = setTimeout(() => lift(event), HOLD);
  });

  window.addEventListener("pointermove", (event) => {
    if (!drag || event.pointerId !== drag.id) return;
    const far = Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > FAR;
    if (!drag.ghost && far) {
      if (event.pointerType !== "mouse") return end(); // a finger that moves at once scrolls
      lift(event);
    }
    if (drag.ghost) move(event);
  });

  window.addEventListener("pointerup", (event) => {
    if (!drag || event.pointerId !== drag.id) return;
    const { card, onto, ghost } = drag;
    end();
    if (!ghost) return;
    window.addEventListener("click", stop, { capture: true, once: true }); // the press was no click
    setTimeout(() => window.removeEventListener("click", stop, { capture: true }));
    if (onto) onDrop(card, onto);
  });

  window.addEventListener("pointercancel", end);
  window.addEventListener("keydown", (event) => { if (event.key === "Escape") end(); });
  root.addEventListener("touchmove", (event) => { if (drag?.ghost) event.preventDefault(); }, { passive: false });
  root.addEventListener("contextmenu", (event) => { if (drag?.hold) event.preventDefault(); });

  function lift(event) {
    const ghost = drag.card.querySelector(".look").cloneNode(true);
    ghost.classList.add("ghost");
    ghost.setAttribute("aria-hidden", "true");
    document.body.append(ghost);
    drag.ghost = ghost;
    drag.card.classList.add("dragged");
    document.body.classList.add("dragging");
    move(event);
  }

  function move(event) {
    const [x, y] = [event.clientX, event.clientY];
    drag.ghost.style.transform = `translate(${x}px, ${y}px) translate(-50%, -60%) rotate(-3deg)`;
    const under = cardAt(document.elementFromPoint(x, y));
    const onto = under && under !== drag.card && root.contains(under) ? under : null;
    if (onto === drag.onto) return;
    drag.onto?.classList.remove("target");
    onto?.classList.add("target");
    drag.onto = onto;
  }

  function end() {
    if (!drag) return;
    clearTimeout(drag.hold);
    drag.ghost?.remove();
    drag.card.classList.remove("dragged");
    drag.onto?.classList.remove("target");
    document.body.classList.remove("dragging");
    drag = null;
  }

  const stop = (event) => { event.preventDefault(); event.stopPropagation(); };
}
