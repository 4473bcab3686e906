"""The page that tries a row in the browser: one document with its style and script, which loads nothing from elsewhere.

The document is the same for every bundle and needs no token. Its script asks for the schema, and writes names and values as text
nodes only.
"""

from __future__ import annotations

import base64
import hashlib

_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
form#row { display: grid; grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); gap: 0.75rem; }
label { display: grid; gap: 0.2rem; font-size: 0.9rem; overflow-wrap: anywhere; }
input, select, button { font: inherit; padding: 0.35rem 0.5rem; min-width: 0; }
small { opacity: 0.7; }
#actions { margin: 1rem 0; }
#answer { border: 1px solid #8888; border-radius: 0.4rem; padding: 1rem; min-height: 3rem; }
#answer meter { width: 12rem; }
#answer td { padding: 0.1rem 0.75rem 0.1rem 0; }
.error { color: #c0392b; }
[hidden] { display: none; }
"""

_SCRIPT = """
"use strict";
const at = (id) => document.getElementById(id);
const made = (tag, text, facts = {}) => {
  const element = Object.assign(document.createElement(tag), facts);
  if (text !== undefined) element.textContent = String(text);
  return element;
};
const headers = () => (at("token").value ? { Authorization: "Bearer " + at("token").value } : {});
const base = () => "bundles/" + encodeURIComponent(at("bundle").value) + "/";

async function ask(path, options = {}) {
  const reply = await fetch(path, { ...options, headers: { ...headers(), ...options.headers } });
  const content = await reply.json();
  if (reply.status === 401) at("access").hidden = false;
  if (!reply.ok) throw new Error(content.error);
  return content;
}

function fail(error) {
  at("answer").replaceChildren(made("p", error.message, { className: "error" }));
}

function field(column, value) {
  const label = made("label");
  label.append(made("span", column.name));
  let input;
  if (column.levels.length && !column.more_levels) {
    input = made("select");
    input.append(made("option", "(missing)", { value: "" }));
    for (const level of column.levels) input.append(made("option", level, { value: level }));
  } else {
    input = made("input", undefined, { type: "text", autocomplete: "off" });
  }
  input.dataset.column = column.name;
  input.value = value === null ? "" : String(value);
  label.append(input);
  const range = column.low === null ? "" : " " + column.low + " to " + column.high;
  label.append(made("small", column.kind + range));
  return label;
}

async function showSchema() {
  const schema = await ask(base() + "schema");
  at("title").textContent = "Predict " + schema.target;
  at("row").replaceChildren(...schema.columns.map((column) => field(column, schema.example[column.name])));
  at("predict").disabled = false;
  at("answer").replaceChildren(made("p", "Change the values, then press Predict."));
}

function showPrediction(answer) {
  const found = answer.predictions[0];
  const parts = [made("p", "Prediction: " + found.prediction)];
  if (found.probabilities) {
    const table = made("table");
    const ordered = Object.entries(found.probabilities).sort((a, b) => b[1] - a[1]).slice(0, 20);
    for (const [name, probability] of ordered) {
      const line = made("tr");
      const bar = made("td");
      bar.append(made("meter", undefined, { value: probability, max: 1 }));
      line.append(made("td", name), bar, made("td", probability.toFixed(4)));
      table.append(line);
    }
    parts.push(table);
  } else if (found.low !== null) {
    parts.push(made("p", "90 % interval: " + found.low + " to " + found.high));
  }
  parts.push(...answer.notes.map((note) => made("small", note)));
  at("answer").replaceChildren(...parts);
}

async function predict(event) {
  event.preventDefault();
  const row = {};
  for (const input of at("row").querySelectorAll("[data-column]")) {
    row[input.dataset.column] = input.value === "" ? null : input.value;
  }
  const options = { method: "POST", headers: { "Content-Type": "application/json" } };
  options.body = JSON.stringify({ rows: [row] });
  showPrediction(await ask(base() + "predict", options));
}

async function start() {
  const found = await ask("bundles");
  at("bundle").replaceChildren(...found.bundles.map((name) => made("option", name, { value: name })));
  at("choice").hidden = found.bundles.length < 2;
  await showSchema();
}

at("row").addEventListener("submit", (event) => predict(event).catch(fail));
at("bundle").addEventListener("change", () => showSchema().catch(fail));
at("access").addEventListener("submit", (event) => { event.preventDefault(); start().catch(fail); });
start().catch(fail);
"""

PAGE = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>tabapp</title>
<link rel="icon" href="data:,">
<style>{_STYLE}</style>
</head>
<body>
<h1 id="title">tabapp</h1>
<form id="access" hidden>
<label>Token <input id="token" type="password" autocomplete="off"></label> <button>Use this token</button>
</form>
<p id="choice" hidden><label>Bundle <select id="bundle"></select></label></p>
<form id="row"></form>
<p id="actions"><button id="predict" form="row" disabled>Predict</button></p>
<div id="answer" aria-live="polite"></div>
<script>{_SCRIPT}</script>
</body>
</html>
""".encode()


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


POLICY = "; ".join(
    (
        "default-src 'none'",
        f"script-src {_hash(_SCRIPT)}",
        f"style-src {_hash(_STYLE)}",
        "img-src data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""Content-Security-Policy: no script or style but those of the page, and no address but this server."""
