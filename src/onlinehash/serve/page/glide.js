/** Lets the children of a list glide to the places a change gives them; new ones fade in. */

const CALM = window.matchMedia("(prefers-reduced-motion: reduce)");
const APPEAR = { duration: 420, easing: "ease-out" };
const MOVE = { duration: 620, easing: "cubic-bezier(0.3, 0.9, 0.25, 1)" };

export function glide(list, change) {
  const before = new Map([...list.children].map((child) => [child, child.getBoundingClientRect()]));
  change();
  if (CALM.matches) return;
  for (const child of list.children) {
    const [from, to] = [before.get(child), child.getBoundingClientRect()];
    if (!from) {
      child.animate([{ opacity: 0.3, transform: "scale(0.92)" }, { opacity: 1, transform: "none" }], APPEAR);
    } else if (from.left !== to.left || from.top !== to.top) {
      const shift = `translate(${from.left - to.left}px, ${from.top - to.top}px)`;
      child.animate([{ transform: shift }, { transform: "none" }], MOVE);
    }
  }
}
