/** The tabs: arrow keys move between them, the address remembers which is open. */

export class Tabs {
  /** `trouble(error or null)` hears of a view that could not be opened. */
  constructor(list, context, trouble) {
    this.context = context;
    this.trouble = trouble;
    this.views = new Map();
    this.tabs = [...list.querySelectorAll("[role=tab]")].filter((tab) => !tab.hidden);
    this.current = null;
    list.addEventListener("click", (event) => {
      const tab = event.target.closest("[role=tab]");
      if (tab) this.open(nameOf(tab));
    });
    list.addEventListener("keydown", (event) => this.move(event));
    window.addEventListener("hashchange", () => this.open(location.hash.slice(1)));
  }

  move(event) {
    const at = this.tabs.indexOf(event.target);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: this.tabs.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const tab = this.tabs.at(to % this.tabs.length);
    tab.focus();
    this.open(nameOf(tab));
  }

  /** Opens a view by name (the first where there is none of that name) and promises what its mount gave back. */
  async open(name) {
    const chosen = this.tabs.find((tab) => nameOf(tab) === name) ?? this.tabs[0];
    name = nameOf(chosen);
    if (this.current === name) return this.views.get(name);
    const left = this.current;
    this.current = name;
    for (const tab of this.tabs) {
      const open = tab === chosen;
      tab.setAttribute("aria-selected", String(open));
      tab.tabIndex = open ? 0 : -1;
      document.getElementById(nameOf(tab)).hidden = !open;
    }
    history.replaceState(null, "", `#${name}`);
    (await this.views.get(left))?.hide?.();
    if (!this.views.has(name)) this.views.set(name, this.mount(name));
    const view = await this.views.get(name);
    if (this.current === name) view?.show?.();
    return view;
  }

  async mount(name) {
    try {
      const view = await import(`./${name}.js`);
      this.trouble(null);
      return view.mount(document.getElementById(name), this.context);
    } catch (error) {
      this.views.delete(name);
      this.trouble(error);
      return undefined;
    }
  }
}

const nameOf = (tab) => tab.getAttribute("aria-controls");
