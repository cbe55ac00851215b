// Details: one renderer for the page of one subject of every view. The server sends facts and parts.

import { h, say, fill, facts, link, empty, muted, panel } from "./dom.js";
import { histogram } from "./charts.js";
import { Lanes } from "./lanes.js";
import { copier, nothing, shown, tabbed, tableOf } from "./table.js";

const named = (text) => text[0].toUpperCase() + text.slice(1);
const makers = {
  table(app, { title }) {
    const rows = tableOf(app, title), none = h("div");
    let last = null;
    const copy = h("span", { class: "exports" }, copier(() => tabbed(last)));
    return { element: h("div", { class: "fit" }, rows.element, none, copy), update({ table }) {
      rows.update((last = table));
      copy.hidden = !table.rows.length;
      fill(none, nothing(table));
    } };
  },
  text(_, { title }) {
    const text = h("pre", { tabIndex: 0, "aria-label": title, role: "group" });
    return { element: text, update: (part) => say(text, part.text) };
  },
  histogram(_, { title }) {
    const chart = histogram(title);
    return { element: chart.element, update: ({ buckets }) => chart.update(buckets) };
  },
  lane() {
    const lanes = new Lanes(() => {}), ran = muted();
    return { element: h("div", {}, lanes.element, ran), update({ end, busy, ends, tasks, name, host, ran: kept }) {
      lanes.update({ full: true, end, count: 300, step: 1, points: 300, lanes: [["", name, host, busy, ends]], tasks });
      const functions = kept.map(([name, n]) => `${name} (${Math.round(n)} s)`).join(", ");
      say(ran, functions && `Kept busy by ${functions}.`);
    } };
  },
};

/** The page of one subject. between: an element between facts and parts, which is updated, too. */
export function detailPage(app, between) {
  const head = h("p"), about = h("div"), parts = h("div"), known = new Map();
  const all = h("a"), element = h("div", {}, h("p", {}, all), head, about, between?.element, parts);
  const fact = ([name, type, value, to, isBad]) => {
    const text = shown(type, value, isBad);
    return [name, to && value ? link(...to, text) : text];
  };
  function update(data, strip) {
    const { subject } = data, title = document.querySelector("h1");
    say(title, named(data.title));
    say(all, `All ${data.view}`);
    all.setAttribute("href", `#/${data.view}`);
    head.hidden = !subject?.flag;
    fill(head, subject?.flag ? h("span", { class: "failed" }, `\u26a0 ${subject.flag}`) : null);
    fill(about, subject ? facts(data.facts.map(fact)) : empty(data.empty.text, null, `Its id or name is ${app.id}.`));
    between?.update(data, strip);
    const here = new Set(data.parts.map((part) => part.title));
    for (const [name, part] of known) if (!here.has(name)) (part.box.remove(), known.delete(name));
    data.parts.forEach((part, position) => {
      let one = known.get(part.title);
      if (!one) {
        one = makers[part.kind](app, part);
        one.box = panel(named(part.title), one.element);
        known.set(part.title, one);
      }
      if (parts.children[position] !== one.box) parts.insertBefore(one.box, parts.children[position] ?? null);
      one.update(part);
    });
  }
  return { element, update, title: "Loading" };
}
