// One task: its state, what it waits for, its history from now on, and why it failed.

import { h, say, fill, link, state, facts, empty } from "../dom.js";
import { bytes, clock, seconds, unknown } from "../format.js";
import { failureEntry } from "./failures.js";

export default function task(app) {
  const head = h("p"), about = h("div"), moves = h("div"), output = h("div"), why = h("div"), failure = failureEntry(app, true);
  const element = h("div", {}, head, about, h("section", { class: "panel" }, h("h2", {}, "History"), moves), h("section", { class: "panel" }, h("h2", {}, "Output"), output), why);
  function update(data) {
    const row = data.task;
    if (!row && !data.moves.length && !data.output.length && !data.failure) {
      return fill(about, empty("Nothing is known of this task yet. From now on the scheduler is asked for it; one that ended long ago is not known there any more.", null, `Its short id is ${app.id}.`));
    }
    if (row) {
      fill(head, state(row.state), row.reason ? `  ${row.reason}` : row.state === "running" ? `  on ${row.worker}` : "");
      fill(about, facts([["Function", row.function_name || unknown], ["Worker", row.worker || "none yet"], ["Attempt", row.attempt || unknown], ["Submitted", clock(row.submitted, true)],
        ["Started", clock(row.started, true)], ["Ended", row.ended ? clock(row.ended, true) : "it has not"], ["Duration", seconds(row.duration)], ["Processor time", seconds(row.cpu)],
        ["Peak memory", bytes(row.peak)], ["Waited", row.started && row.submitted ? seconds(row.started - row.submitted) : unknown]]),
      h("p", {}, link("function", row.function, "All tasks of this function"), row.worker ? [", ", link("worker", row.worker, "its worker")] : "", row.graph ? [", ", link("graphs", row.graph, "its graph")] : ""));
    }
    fill(moves, data.moves.length ? h("table", { "aria-label": "History" }, h("tbody", {}, data.moves.map((move) => h("tr", {}, h("td", { class: "num" }, clock(move.time, true)), h("td", {}, state(move.state)), h("td", {}, move.event), h("td", { class: "cut" }, [move.worker, move.reason].filter(Boolean).join(": ")))))) : h("p", { class: "muted" }, row?.ended ? "It had ended before this page was opened; its times are above." : "Its steps are recorded from now on, because somebody looks; there was none yet."));
    fill(output, data.output.length ? h("pre", { class: "output", tabindex: "0", "aria-label": "Output" }, data.output.map(lineText)) : h("p", { class: "muted" }, "It has written nothing that is kept."));
    if (!data.failure) return fill(why);
    failure.update(data.failure);
    if (!failure.element.isConnected) fill(why, h("section", { class: "panel" }, h("h2", {}, data.is_example ? "Why it failed" : "Tasks of this function fail like this"), failure.element));
  }
  return { element, update, title: `Task ${app.id.slice(0, 16)}` };
}

function lineText(line) {
  const missing = line.dropped ? `(${line.dropped} lines were left out)\n` : "";
  return missing + (line.text || !line.dropped ? `${clock(line.time, true)} ${line.worker} ${line.stream}: ${line.text}\n` : "");
}
task.title = "Task";
