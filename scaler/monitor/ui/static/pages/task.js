// One task: its state, what it waits for, its history since the page was opened, and why it failed.

import { h, fill, link, state, facts, empty, muted, panel, plainTable } from "../dom.js";
import { bytes, clock, seconds, unknown } from "../format.js";
import { failureEntry } from "./failures.js";

export default function task(app) {
  const head = h("p"), about = h("div"), moves = h("div"), output = h("div"), why = h("div");
  const failure = failureEntry(app, true);
  const element = h("div", {}, head, about, panel("History", moves), panel("Output", output), why);
  function update(data) {
    const row = data.task;
    if (!row && !data.moves.length && !data.output.length && !data.failure) {
      return fill(about, empty("Nothing is known of this task yet. The page requests it from the scheduler, which "
        + "forgets tasks some time after their end.", null, `Its short id is ${app.id}.`));
    }
    if (row) {
      fill(head, state(row.state), row.reason ? `  ${row.reason}` : row.state === "running" ? `  on ${row.worker}` : "");
      fill(about, facts(factsOf(row)), h("p", {}, link("function", row.function, "All tasks of this function"),
        row.worker ? [", ", link("worker", row.worker, "its worker")] : "",
        row.graph ? [", ", link("graphs", row.graph, "its graph")] : ""));
    }
    fill(moves, data.moves.length
      ? plainTable("History", ["num", "", "", "cut"], data.moves.map(cellsOf))
      : muted(row?.ended
        ? "The task ended before this page was opened; its times are above."
        : "The steps of this task are recorded while this page is open; there is none yet."));
    fill(output, data.output.length
      ? h("pre", { tabindex: "0", "aria-label": "Output" }, data.output.map(lineText))
      : muted("The task has written nothing, or its output is no longer kept."));
    if (!data.failure) return fill(why);
    failure.update(data.failure);
    const title = data.is_example ? "Why it failed" : "Tasks of this function fail like this";
    if (!failure.element.isConnected) fill(why, panel(title, failure.element));
  }
  return { element, update, title: `Task ${app.id.slice(0, 16)}` };
}

const factsOf = (row) => [
  ["Function", row.function_name || unknown], ["Client", row.client_label || unknown], ["Owner", row.owner || unknown],
  ["Worker", row.worker || "none yet"], ["Attempt", row.attempt || unknown],
  ["Submitted", clock(row.submitted, true)], ["Started", clock(row.started, true)],
  ["Ended", row.ended ? clock(row.ended, true) : "not yet"], ["Duration", seconds(row.duration)],
  ["Processor time", seconds(row.cpu)], ["Peak memory", bytes(row.peak)],
  ["Waited", row.started && row.submitted ? seconds(row.started - row.submitted) : unknown],
];
const cellsOf = (move) =>
  [clock(move.time, true), state(move.state), move.event, [move.worker, move.reason].filter(Boolean).join(": ")];

function lineText(line) {
  const missing = line.dropped ? `(${line.dropped} lines were left out)\n` : "";
  return missing + (line.text || !line.dropped ? `${clock(line.time, true)} ${line.worker} ${line.stream}: ${line.text}\n` : "");
}
task.title = "Task";
