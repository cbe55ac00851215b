// One function: its tasks by state, their durations and failures, and what they wait for.

import { h, say, fill, table, facts, empty, muted, panel } from "../dom.js";
import { count, seconds } from "../format.js";
import { histogram } from "../charts.js";
import { taskTable } from "./tasks.js";
import { failureEntry } from "./failures.js";

export default function func(app) {
  const missing = h("div"), about = h("div"), waits = h("p"), failures = h("div"), entries = new Map();
  const durations = histogram("Durations of its runs");
  const rows = taskTable(app);
  const body = h("div", {}, waits, about, panel("Durations: number of runs", durations.element),
    panel("Failures", failures), panel("Kept tasks", rows.element));
  const element = h("div", {}, missing, body);
  function update(data) {
    const row = data.function;
    body.hidden = !row;
    fill(missing, row ? null : empty("The scheduler has no tasks of this function now.", null,
      "It reports the functions with the most tasks."));
    if (!row) return;
    document.querySelector("h1").textContent = `Function ${row.name}`;
    const wait = `${count(row.waiting)} ${row.waiting === 1 ? "task waits" : "tasks wait"}: ${data.why}.`;
    say(waits, row.waiting ? wait : row.open ? "No task of this function waits." : "All tasks of this function have ended.");
    fill(about, facts([["Waiting", count(row.waiting)], ["Running", count(row.running)], ["Succeeded", count(row.success)],
      ["Failed", count(row.failed)], ["Canceled", count(row.canceled)], ["Mean duration", seconds(row.mean)],
      ["95 % take less than", seconds(row.p95)]]));
    durations.update(data.buckets);
    for (const one of data.failures) {
      let entry = entries.get(one.id);
      if (!entry) {
        entries.set(one.id, (entry = failureEntry(app)));
        failures.append(entry.element);
      }
      entry.update(one);
    }
    if (!data.failures.length && !entries.size) fill(failures, muted("None."));
    else for (const text of failures.querySelectorAll(":scope > p")) text.remove();
    rows.update(data.tasks);
  }
  return { element, update, title: "Function" };
}
func.title = "Function";
