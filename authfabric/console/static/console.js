"use strict";
/* Puts what the server sends into the page: parts of it are rendered there, and replaced here. */

const MOST_ROWS = 500;
let paused = false;

function fill(name, html) {
  const place = document.querySelector(`[data-live="${name}"]`);
  if (place && !place.contains(document.getSelection()?.anchorNode?.parentElement ?? null)) place.innerHTML = html;
}

function addRows(news) {
  const rows = document.querySelector('[data-live="decisions"]');
  if (!rows || paused) return;
  rows.insertAdjacentHTML("afterbegin", news.rows);
  while (rows.rows.length > MOST_ROWS) rows.deleteRow(-1);
  const said = document.getElementById("sampled");
  said.textContent = news.missed ? `Sampled: ${news.shown} shown of the last ${news.shown + news.missed}.` : "";
}

function follow() {
  const link = document.getElementById("link");
  if (!link) return;
  const log = document.getElementById("log");
  const source = new EventSource("/live" + (log && log.dataset.query ? "?" + log.dataset.query : ""));
  source.addEventListener("open", () => { link.textContent = "Live"; link.classList.remove("lost"); });
  source.addEventListener("error", () => { link.textContent = "The connection to the console is lost; it is tried again."; link.classList.add("lost"); });
  source.addEventListener("fabric", (event) => fill("fabric", JSON.parse(event.data).html));
  source.addEventListener("numbers", (event) => fill("numbers", JSON.parse(event.data).html));
  source.addEventListener("decisions", (event) => addRows(JSON.parse(event.data)));
}

function pauseButton() {
  const button = document.getElementById("pause");
  button?.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Go on" : "Pause";
    button.setAttribute("aria-pressed", String(paused));
  });
}

function keys() {
  let going = false;
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      const field = document.querySelector("main input:not([type=hidden])");
      if (field) { event.preventDefault(); field.focus(); }
    } else if (event.key === "g") {
      going = true;
      setTimeout(() => { going = false; }, 1500);
    } else if (going) {
      going = false;
      document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`)?.click();
    }
  });
}

function signInByLink() {
  /* What stands after # is never sent to a server, so the token is in no log. */
  const form = document.getElementById("sign-in");
  if (!form || location.hash.length < 2) return;
  form.elements.token.value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
  form.submit();
}

signInByLink();
follow();
pauseButton();
keys();
