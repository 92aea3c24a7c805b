"use strict";

const EXAMPLE =
  "She developed acute renal failure after two doses of amoxicillin. No evidence of asthma. " +
  "Her mother had breast cancer.\nMutations in the CFTR gene cause cystic fibrosis, and tamoxifen " +
  "slowed the growth of HeLa cells.";
const SURE = 0.95;
const LEVELS = 20;
const COLOURS = 8;
const settings = JSON.parse(document.body.dataset.settings);
const byId = (id) => document.getElementById(id);
const [text, send, message, results] = ["text", "send", "message", "results"].map(byId);

/* All text is set as text, never as markup. */
function element(name, className, content) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (content !== undefined) made.textContent = content;
  return made;
}

/* Offsets of the API count code points, those of JavaScript strings UTF-16 units: a character such
   as an emoji is one code point and two units. */
function codePoints(string) {
  return Array.from(string);
}

function shown(confidence) {
  return confidence === null ? "" : confidence.toFixed(2).replace(/^0/, "").slice(0, 3);
}

async function ask(path, body) {
  const headers = { "Content-Type": "application/json" };
  if (settings.token) headers.Authorization = "Bearer " + byId("token").value.trim();
  let answer;
  try {
    answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  } catch {
    throw new Error("The server cannot be reached. Check that it is running.");
  }
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(content.detail || "The server answered " + answer.status + ".");
  return content;
}

function colours(entities) {
  const labels = [...new Set(entities.map((entity) => entity.label))].sort();
  return new Map(labels.map((label, n) => [label, "t" + (n % COLOURS)]));
}

function showTypes(entities, colour) {
  const items = [...colour].map(([label, name]) => {
    const count = entities.filter((entity) => entity.label === label).length;
    return element("li", name, label + " " + count);
  });
  byId("types").replaceChildren(...items);
}

function showMarked(characters, entities, colour) {
  const parts = [];
  let at = 0;
  for (const entity of entities) {
    if (entity.start < at) continue; // it overlaps the one before; the table has both
    parts.push(document.createTextNode(characters.slice(at, entity.start).join("")));
    const found = characters.slice(entity.start, entity.end).join("");
    const mark = element("mark", colour.get(entity.label), found);
    const facts = [entity.label, shown(entity.confidence), ...(entity.contexts || [])];
    mark.append(element("small", "", facts.filter(Boolean).join(" ")));
    parts.push(mark);
    at = entity.end;
  }
  parts.push(document.createTextNode(characters.slice(at).join("")));
  byId("marked").replaceChildren(...parts);
}

function showRows(entities, colour) {
  const rows = entities.map((entity) => {
    const row = element("tr");
    const type = element("td");
    type.append(element("span", colour.get(entity.label), entity.label));
    type.append(...(entity.contexts || []).map((name) => element("span", "context", name)));
    row.append(
      element("td", "", entity.text),
      type,
      element("td", "number", entity.confidence === null ? "–" : entity.confidence.toFixed(2)),
      element("td", "number offsets", entity.start + "–" + entity.end),
    );
    return row;
  });
  byId("rows").replaceChildren(...rows);
  byId("table-box").hidden = rows.length === 0;
}

function word(content, confidence, inside, tag) {
  const shade = confidence === null ? "" : (inside ? "m" : "o") + Math.round(confidence * LEVELS);
  const made = element("span", ("word " + shade).trim(), content);
  if (confidence !== null) {
    made.title = tag + " " + confidence.toFixed(4);
    if (inside || confidence < SURE - 0.005) made.append(element("small", "", shown(confidence)));
  }
  return made;
}

function panel(words, reading) {
  const line = element("div", "words");
  line.dir = "auto";
  let at = 0;
  const outside = (end) => {
    for (; at < end; at++) line.append(word(words[at], reading.confidences[at], false, "O"));
  };
  for (const mention of reading.mentions) {
    outside(mention.start);
    const box = element("span", "mention");
    const inner = element("span");
    for (; at < mention.end; at++) {
      const tag = (at === mention.start ? "B-" : "I-") + mention.label;
      inner.append(word(words[at], reading.confidences[at], true, tag));
    }
    const caption = (mention.label + " " + shown(mention.confidence)).trim();
    box.append(element("b", "", caption), inner);
    line.append(box);
  }
  outside(words.length);
  const made = element("article", "panel");
  made.append(element("h3", "", reading.name), line);
  return made;
}

function showHeatmap(map) {
  byId("panels").replaceChildren(...map.readings.map((reading) => panel(map.words, reading)));
  byId("heatmap").hidden = false;
}

function say(content, isError) {
  message.textContent = content;
  message.classList.toggle("error", Boolean(isError));
}

async function find() {
  const string = text.value;
  if (send.disabled) return;
  if (!string.trim()) {
    say("There is no text yet.", true);
    text.focus();
    return;
  }
  send.disabled = true;
  results.hidden = byId("heatmap").hidden = true;
  say("Reading …");
  try {
    const answer = await ask("v1/entities", { texts: [string] });
    const entities = answer.documents[0].entities;
    const characters = codePoints(string);
    const colour = colours(entities);
    showTypes(entities, colour);
    showMarked(characters, entities, colour);
    showRows(entities, colour);
    byId("pipeline").textContent = "Pipeline: " + answer.pipeline.name + " " + answer.pipeline.version;
    const number = entities.length === 1 ? "1 entity" : entities.length + " entities";
    results.hidden = false;
    byId("found-title").focus();
    if (characters.length > settings.heatmapCharacters) {
      say(number + ". The text is too long for a heat map.");
    } else {
      say(number + ".");
      showHeatmap(await ask("v1/heatmap", { text: string }));
    }
  } catch (error) {
    say(error.message, true);
  } finally {
    send.disabled = false;
  }
}

function count() {
  const length = codePoints(text.value).length;
  const most = settings.characters;
  byId("count").textContent =
    length.toLocaleString("en") + " of " + most.toLocaleString("en") + " characters.";
}

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  find();
});
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    find();
  }
});
text.addEventListener("input", count);
byId("example").addEventListener("click", () => {
  text.value = EXAMPLE;
  count();
  find();
});
byId("clear").addEventListener("click", () => {
  text.value = "";
  results.hidden = true;
  say("");
  count();
  text.focus();
});
byId("token-field").hidden = !settings.token;
count();
