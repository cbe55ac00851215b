// The settings of this browser.

const defaults = { theme: "system", window: 300, band: 1800, scale: "linear", kept: 60, stored: 1800 };
const name = "scaler-ui";

function read() {
  try {
    const said = JSON.parse(localStorage.getItem(name) || "{}");
    const kept = (key, value) => (typeof said[key] === typeof value ? said[key] : value);
    return Object.fromEntries(Object.entries(defaults).map(([key, value]) => [key, kept(key, value)]));
  } catch {
    return { ...defaults };
  }
}

export const prefs = read();

/** The token: first from the address (that of the form follows the #), then from the storage of this origin. Other ports of this host have another one. */
export const secret = token();

function token() {
  const place = `scaler-ui-token ${location.pathname}`, typed = new URLSearchParams(location.hash.slice(1)).get("token");
  const given = new URL(location).searchParams.get("token") ?? typed;
  try {
    if (given) localStorage.setItem(place, given);
    return given || localStorage.getItem(place) || "";
  } catch {
    return given || "";
  }
}

export function set(key, value) {
  prefs[key] = value;
  try {
    localStorage.setItem(name, JSON.stringify(prefs));
  } catch { /* a private window keeps them for as long as it is open */ }
  apply();
}

export function apply() {
  if (prefs.theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = prefs.theme;
  dispatchEvent(new Event("prefs"));
}

for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
  matchMedia(query).addEventListener("change", () => dispatchEvent(new Event("prefs"))); // charts are drawn anew
}
