// Says so when a file of the page could not be loaded, or has an error: the page would stay blank. A classic script.

addEventListener("error", ({ target, message }) => {
  const main = document.getElementById("main"), file = target?.src ?? target?.href;
  if (!main || main.querySelector("h1, [role=alert]")) return; // the page has started, or has told of an error
  const text = document.createElement("p");
  text.setAttribute("role", "alert");
  text.className = "empty";
  const name = file ? `${file.replace(/.*\/static\//, "")}, or a file that it needs, could not be loaded` : message;
  text.textContent = `The page cannot start: ${name}. Reload it; is scaler_ui still running?`;
  main.replaceChildren(text);
}, true);
