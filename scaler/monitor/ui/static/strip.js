// The strip above each page: the state of the cluster in one place of a fixed height. A sentence that does not fit opens
// below the strip, over the page.

import { h, say, fill } from "./dom.js";
import { count, short, rate, clock, seconds } from "./format.js";

const strip = document.getElementById("strip");
const figure = (label, more) => {
  const value = h("b"), element = h("span", { class: `figure ${label.replace(/\W/g, "")}` }, value, ` ${label}`, more);
  return { value, element };
};
const dot = h("span", { class: "dot", "aria-hidden": "true" }), title = h("span", { class: "title" });
const recent = h("span", { class: "optional" }), news = h("span", { class: "news" });
const figures = {
  rate: figure("tasks/s"), left: figure("left"), open: figure("open"), failed: figure("failed", recent),
  busy: figure("workers busy"),
};
const sentence = h("button", { class: "quiet sentence", "aria-expanded": "false", "aria-controls": "whole" });
const whole = h("div", { id: "whole", class: "whole" });
fill(strip, h("div", { class: "verdict", role: "status" }, dot, title),
  h("div", { class: "figures" }, Object.values(figures).map(({ element }) => element)), news, sentence, whole);

const open = (isOpen) => sentence.setAttribute("aria-expanded", String(isOpen && strip.classList.contains("long")));
const measure = () => strip.classList.toggle("long", sentence.scrollWidth > sentence.clientWidth + 1);
sentence.addEventListener("click", () => open(sentence.getAttribute("aria-expanded") !== "true"));
sentence.addEventListener("blur", () => open(false));
new ResizeObserver(measure).observe(sentence);

function head(name, mark, texts) {
  strip.dataset.state = name;
  document.body.classList.toggle("old", name === "old" || name === "closed");
  say(news, mark);
  const text = texts.filter(Boolean).join("  ");
  if (sentence.textContent === text) return;
  say(sentence, text);
  fill(whole, texts.filter(Boolean).map((each) => h("p", {}, each)));
  measure();
}

export function showStrip(said, isPaused) {
  const { news: kind, at, failed } = said;
  const [words, mark] = {
    never: ["Waiting for the scheduler", "waiting"],
    old: [`No news for ${seconds(Math.floor(said.silent))}`, `as of ${clock(at)}`],
    live: [said.title, `live ${clock(at)}`],
  }[kind];
  say(title, words);
  head(kind, isPaused ? "paused" : mark, sentences(said));
  say(figures.rate.value, rate(said.rate));
  say(figures.left.value, said.left || "-");
  say(figures.open.value, short(said.open));
  figures.open.value.title = count(said.open);
  say(figures.failed.value, `${failed ? "\u2717 " : ""}${count(failed)}`);
  figures.failed.element.classList.toggle("failed", failed > 0);
  say(recent, said.failed_minute ? ` +${count(said.failed_minute)}/min` : "");
  say(figures.busy.value, said.workers === null ? "-" : `${count(said.busy)} of ${count(said.workers)}`);
  const failures = said.failures ? ` \u2717${count(said.failures)}` : "";
  for (const each of document.querySelectorAll("[data-page=failures] .count")) say(each, failures);
}

function sentences(said) {
  const { news: kind, problem, restart, address, at } = said;
  if (kind === "never") {
    return ["The scheduler has sent nothing yet.", problem || `Is scaler_scheduler running, and is ${address} the monitor `
      + "address that it printed? This page connects by itself."];
  }
  if (kind === "old") {
    return [`Shown as of ${clock(at)}, reconnecting.`, problem || `Is scaler_scheduler still running at ${address}?`];
  }
  return [
    restart && `The scheduler was restarted at ${clock(restart.at)}, its counters started from 0; ${count(restart.back)} of `
      + `${count(restart.of)} workers are back.`,
    said.warning && `\u26a0 ${said.warning}`, said.sentence, problem,
  ];
}

export function showPause() { say(news, "paused"); }

export function showClosed() {
  say(title, "No connection");
  head("closed", "not connected", ["The server of this page does not answer, reconnecting.",
    "Is scaler_ui still running? If it was restarted with another token, open the address that it printed."]);
}
