// Failures: what fails and why, one entry for each kind, the latest first, with the traceback of an example.

import { h, say, fill, pager, link, empty, bar, push, muted, searchBox } from "../dom.js";
import { clock, count } from "../format.js";

/** One kind of failure, which stays open while it is updated. */
export function failureEntry(app, isOpen = false) {
  const title = h("b", { class: "failed" }), message = h("span"), numbers = h("span", { class: "muted" });
  const where = h("p"), which = muted(), trace = h("pre");
  const summary = h("summary", {}, title, " ", message, h("br"), numbers);
  const element = h("details", { open: isOpen }, summary, where, which, trace);
  return {
    element,
    update(row) {
      say(title, `\u2717 ${row.type}`);
      say(message, row.message);
      const times = row.times === 1 ? "once" : `${count(row.times)} times`;
      const when = `last ${clock(row.last, true)}, first ${clock(row.first, true)}`;
      const before = row.old ? ", before the scheduler was restarted" : "";
      say(numbers, `${times} in ${row.function_name || "a function"}, ${when}${before}`);
      const mark = `${row.function} ${row.task} ${row.worker}`;
      if (where.mark !== mark) {
        where.mark = mark;
        const at = row.worker ? [" on ", link("worker", row.worker)] : "";
        fill(where, "In ", link("function", row.function, row.function_name || row.function), at,
          ", for instance ", link("task", row.task, "this task"));
      }
      const isOfOne = row.traceback && row.times > 1;
      say(which, isOfOne ? "The traceback is of one of these tasks; numbers in the messages of others may differ." : "");
      say(trace, row.traceback
        || "There is no traceback: the process ended, or the function did not raise the failure.");
    },
  };
}

export default function failures(app) {
  const entries = new Map(), list = h("div"), none = h("div"), pages = pager((offset) => app.want({ offset }));
  const search = searchBox("Search failures", "type, message, function, worker", (filter) => app.want({ filter, offset: 0 }));
  const element = h("div", {}, bar(search, push(), pages.element), none, list);
  function update(data) {
    const here = new Set(data.rows.map((row) => row.id));
    for (const [id, entry] of entries) if (!here.has(id)) (entry.element.remove(), entries.delete(id));
    data.rows.forEach((row, i) => {
      let entry = entries.get(row.id);
      if (!entry) {
        entries.set(row.id, (entry = failureEntry(app)));
        list.append(entry.element);
      }
      entry.update(row);
      const isRead = list.querySelector("details[open]") || list.contains(document.activeElement);
      if (!isRead && list.children[i] !== entry.element) list.insertBefore(entry.element, list.children[i]);
    });
    const more = data.all > data.total ? ` kinds, ${count(data.all)} in all` : " kinds";
    pages.update(data.offset, data.rows.length, data.total, more);
    fill(none, data.total ? null : search.value ? muted("No failure matches.") : nothing(data.failed));
  }
  return { element, update, args: { limit: 50 } };
}

function nothing(failed) {
  const before = `${count(failed)} tasks failed before this server started, or are not reported yet.`;
  return empty(failed ? before : "Nothing has failed.", null,
    "Tasks that raised, lost their worker too often or found no worker are grouped here by type, message and function.");
}
failures.title = "Failures";
