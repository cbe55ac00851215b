// Settings: how this browser shows things. They have no effect elsewhere.

import { h, muted } from "../dom.js";
import { prefs, set } from "../prefs.js";

const choices = [
  ["theme", "Light or dark", [["system", "as the system"], ["light", "light"], ["dark", "dark"]]],
  ["window", "Window of stream and memory", [[300, "5 minutes"], [600, "10 minutes"], [1800, "30 minutes"]]],
  ["band", "History above each page", [[1800, "30 minutes"], [21600, "6 hours"], [86400, "1 day"], [604800, "7 days"]]],
  ["scale", "Scale of memory", [["linear", "linear"], ["log", "logarithmic"]]],
  ["stored", "Tasks of the last", [[300, "5 minutes"], [1800, "30 minutes"], [21600, "6 hours"], [604800, "7 days"]]],
  ["kept", "Workers that left are shown for", [[0, "not at all"], [60, "a minute"], [600, "10 minutes"], [3600, "an hour"]]],
];
export default function settings(app) {
  function choose(key, value) {
    set(key, typeof prefs[key] === "number" ? Number(value) : value);
    app.want();
  }
  const form = h("div", { class: "form" }, choices.map(([key, label, options]) => {
    const all = options.map(([value, text]) => h("option", { value, selected: prefs[key] === value }, text));
    return h("label", {}, label, h("select", { onchange: (event) => choose(key, event.target.value) }, all));
  }));
  const links = app.pages.map(([name, text]) => h("a", { href: `#/${name}` }, text));
  const element = h("div", {}, h("nav", { class: "bar phones", "aria-label": "More pages" }, links), form,
    muted("These settings are stored in this browser, and change nothing in the cluster."),
    muted(`Times are those of this computer, in the zone ${Intl.DateTimeFormat().resolvedOptions().timeZone}.`));
  return { element, update() {} };
}
settings.title = "Settings";
