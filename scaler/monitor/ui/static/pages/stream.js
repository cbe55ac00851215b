// Stream: what each worker did in the last minutes.

import { h, say, fill, pager, empty, bar, choices, push, muted, searchBox } from "../dom.js";
import { Lanes } from "../lanes.js";
import { prefs, set } from "../prefs.js";
import { sheet, token, paint } from "../canvas.js";

const windows = [300, 600, 1800];
const marks = {
  busy: "busy", failed: "some failed: mark on top", canceled: "some canceled: mark below", running: "runs now",
};
const singles = "Bars with an edge are sampled tasks that are long enough to see. Select one for its page.";

export default function stream(app) {
  let window = windows.includes(prefs.window) ? prefs.window : 300, end = 0, turned = 0;
  const lanes = new Lanes((at) => (at.task?.[0] ? app.go("tasks", at.task[0]) : at.key ? app.go("workers", at.key) : null));
  const pages = pager((offset) => app.want({ offset }), 60), none = h("div"), note = muted();
  const { buttons, press } = choices(windows, (each) => `${each / 60} min`, (to) => pick(to));
  const back = h("button", { hidden: true, onclick: () => now() }, "To now");
  const search = searchBox("Filter workers", "worker or host", (filter) => app.want({ filter, offset: 0 }));
  const legend = h("div", { class: "legend" },
    Object.entries(marks).map(([kind, text]) => h("span", {}, swatch(kind), text)), h("span", {}, "the higher, the busier"));
  const together = new Lanes(() => {});
  const all = h("div", {}, h("h2", {}, "All workers together"), together.element, h("h2", {}, "Each"));
  const element = h("div", {}, bar(buttons, back, search, push(), pages.element), legend, none, all, lanes.element, note);
  function pick(to) {
    window = to;
    press(window);
    app.want({ window, end });
  }
  function zoom(by) {
    const to = windows[Math.max(0, Math.min(windows.length - 1, windows.indexOf(window) + by))];
    set("window", to);
    pick(to);
  }
  element.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return; // browsers also report a pinch on a touchpad as a wheel with Ctrl
    event.preventDefault();
    turned += event.deltaY;
    if (Math.abs(turned) < 40) return;
    zoom(Math.sign(turned));
    turned = 0;
  }, { passive: false });
  function now() { end = 0; back.hidden = true; app.want({ end }); }
  function update(data) {
    lanes.update(data);
    all.hidden = data.total <= data.lanes.length;
    const lane = ["all", `all ${data.total}`, "all hosts", data.all, data.all.replace(/[1-9a]/g, "1")];
    together.update({ ...data, tasks: [], lanes: [lane] });
    pages.update(data.offset, data.lanes.length, data.total, " workers");
    lanes.element.hidden = !data.total;
    say(note, lanes.areIdle ? `No worker has run a task in these ${window / 60} minutes.`
      : data.tasks.length ? singles : "Select a worker for its page.");
    note.hidden = !data.total;
    fill(none, data.total ? null : empty("No worker has run a task since this server started.",
      "scaler_cluster SCHEDULER_ADDRESS -n 4", "The history starts when scaler_ui starts."));
  }
  function pan(by) {
    end = Math.floor((end || lanes.end) + (by * window) / 2);
    if (end >= Date.now() / 1000) return now();
    back.hidden = false;
    app.want({ end });
  }
  press(window);
  return { element, update, now, zoom, pan, args: { window } };
}
stream.title = "Stream";

function swatch(kind) {
  const { canvas } = sheet((context, width, height) => {
    context.fillStyle = kind === "running" ? paint(context, kind) : token(kind);
    const high = kind === "canceled" || kind === "failed" ? 4 : height - 2;
    context.fillRect(0, kind === "failed" ? 1 : height - 1 - high, width, high);
    if (kind === "running") (context.strokeStyle = token("running")), context.strokeRect(0.5, 1.5, width - 1, height - 3);
  }, kind);
  canvas.setAttribute("aria-hidden", "true");
  return canvas;
}
