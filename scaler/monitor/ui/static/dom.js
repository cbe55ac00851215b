// Creates and updates elements. Texts are inserted as text; no code parses HTML.

import { count } from "./format.js";

const icons = {
  running: [">", "running"], success: ["\u2713", "success"], failed: ["\u2717", "failed"],
  canceled: ["/", "canceled"], canceling: ["/", "canceled"], busy: [">", "running"], done: ["\u2713", "success"],
  lost: ["\u2717", "failed"], stopped: ["\u2717", "failed"],
};

const those = (children) => children.flat().filter((child) => child !== null && child !== undefined && child !== false);

export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name in element && name !== "list" && name !== "href") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...those(children));
  return element;
}

/** Sets a text, if it differs. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function fill(element, ...children) {
  element.replaceChildren(...those(children));
}

/** A state by shape, word and colour. */
export function state(name) {
  const [icon, kind] = icons[name] || ["\u25cb", "muted"];
  return h("span", { class: `state ${kind}` }, h("b", { "aria-hidden": "true" }, icon), name || "unknown");
}

export function link(page, name, text) {
  return h("a", { href: `#/${page}/${encodeURIComponent(name)}`, class: "cut" }, text ?? name);
}

export function gauge(share, text) {
  const fillElement = h("i");
  fillElement.style.width = `${Math.max(0, Math.min(100, share * 100))}%`;
  return h("span", { class: "cut" }, h("span", { class: "gauge", "aria-hidden": "true" }, fillElement), text);
}

export function facts(pairs) {
  const fact = ([name, value]) =>
    h("div", {}, h("dt", {}, name), h("dd", { class: String(value).length > 16 ? "long" : "" }, value));
  return h("dl", { class: "facts" }, pairs.map(fact));
}

export const bar = (...children) => h("div", { class: "bar" }, ...children);
/** Moves the following elements of a bar to its right. */
export const push = () => h("span", { class: "push" });
export const muted = (text) => h("p", { class: "muted" }, text);
/** A part of a page below a heading, which is a text or an element. */
export const panel = (title, ...children) =>
  h("section", { class: "panel" }, title instanceof Node ? title : h("h2", {}, title), ...children);

/** A number of failures, red unless it is 0. */
export const failedCount = (n) => (n ? h("span", { class: "failed" }, `\u2717 ${count(n)}`) : "0");

export function searchBox(label, placeholder, act) {
  return h("input", { type: "search", placeholder, "aria-label": label, oninput: (event) => act(event.target.value) });
}

/** One button for each value; `press(value)` marks the current one. */
export function choices(values, text, pick) {
  const buttons = values.map((value) => h("button", { onclick: () => pick(value) }, text(value)));
  const press = (chosen) =>
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(values[i] === chosen)));
  return { buttons, press };
}

/** A table without updates. classes: those of the cells of each column. */
export function plainTable(label, classes, rows, heads) {
  const cells = (tag, row) => h("tr", {}, row.map((cell, i) => h(tag, { class: classes[i] }, cell)));
  return h("table", { "aria-label": label }, heads && h("thead", {}, cells("th", heads)),
    h("tbody", {}, rows.map((row) => cells("td", row))));
}

/** A text in place of missing content, with the command that creates some. */
export function empty(text, command, more) {
  return h("div", { class: "empty" }, h("p", {}, text), command && h("pre", {}, command), more && muted(more));
}

/** "1-50 of 1,000" with buttons. */
export function pager(go, limit = 50) {
  const text = h("span", { class: "muted" });
  const back = h("button", { onclick: () => go(Math.max(0, at - limit)) }, "Previous");
  const on = h("button", { onclick: () => go(at + limit) }, "Next");
  const element = h("div", { class: "bar" }, back, text, on);
  let at = 0;
  return {
    element,
    update(offset, here, total, words = "") {
      at = offset;
      element.hidden = !total && !words;
      const [first, last, all] = [offset + 1, offset + here, total].map((n) => n.toLocaleString("en"));
      say(text, (total ? `${first}\u2013${last} of ${all}` : "none") + words);
      back.hidden = on.hidden = here >= total;
      back.disabled = offset <= 0;
      on.disabled = offset + here >= total;
    },
  };
}
