// The page to play with: a form of choices, one run, and a link that holds both.

import { Board } from "./board.js";
import { Engine, Refused } from "./engine.js";
import { Run } from "./run.js";
import { say } from "./words.js";

const NUMBERS = ["seed", "brokers", "replicas", "min_in_sync", "lag_ms", "lag_messages", "rate", "delay_ms"];
const form = document.getElementById("choices"), note = document.getElementById("note");
const engine = new Engine((text, share) => { note.textContent = share < 1 ? `${say(text)} …` : ""; note.style.setProperty("--share", share); });
const run = new Run(engine, "play");
const board = new Board(document.getElementById("board"), run);

function chosen() {
  const choices = {};
  for (const field of form.elements) {
    if (!field.name) continue;
    choices[field.name] = field.type === "checkbox" ? field.checked : NUMBERS.includes(field.name) ? Number(field.value) : field.value;
  }
  return choices;
}

function showChoices(choices) {
  for (const [name, value] of Object.entries(choices)) {
    const field = form.elements[name];
    if (!field) continue;
    if (field.type === "checkbox") field.checked = value;
    else if (field.tagName === "SELECT" && ![...field.options].some(option => option.value === String(value))) field.add(new Option(value, value));
    if (field.type !== "checkbox") field.value = value;
  }
  showPolicy();
}

function showPolicy() {
  for (const label of form.querySelectorAll("[data-for]")) label.hidden = label.dataset.for !== form.elements.lag_policy.value;
}

function fromLink() {
  const words = new URLSearchParams(location.hash.slice(1));
  const choices = {};
  for (const [name, value] of words) {
    if (NUMBERS.includes(name)) choices[name] = Number(value);
    else if (name === "unclean") choices.unclean = value === "true";
    else if (name === "acks" || name === "lag_policy") choices[name] = value;
  }
  return { choices, clicks: (words.get("do") ?? "").split("_").filter(Boolean), at: Number(words.get("at") ?? 0), made: words.get("kavka") };
}

function link(moment, about) {
  const words = new URLSearchParams(Object.entries(moment.choices).map(([name, value]) => [name, String(value)]));
  if (moment.clicks.length) words.set("do", moment.clicks.join("_"));
  words.set("at", moment.at_ms);
  words.set("kavka", about.kavka);
  return `#${words}`;
}

async function open(choices, clicks, at) {
  board.stop();
  note.textContent = clicks.length ? say("Playing the run of the link …") : say("Starting the brokers …");
  try {
    await run.open(choices, clicks, at);
    note.textContent = "";
    showChoices(run.now.choices);
    return true;
  } catch (failure) {
    if (!(failure instanceof Refused)) throw failure;
    note.textContent = say("This cluster cannot be: {why}.", { why: failure.message });
    return false;
  }
}

async function main() {
  const wished = fromLink();
  showChoices(wished.choices);
  await engine.ready;
  const about = await engine.call("about");
  if (!(await open({ ...chosen(), ...wished.choices }, wished.clicks, wished.at))) {
    const refusal = note.textContent;
    await open({}, [], 0);
    note.textContent = say("{refusal} This is another one.", { refusal });
  }
  if (wished.made && wished.made !== about.kavka) note.textContent = say("The link was made with kavka {then}. This is {now}: the same clicks may end otherwise.", { then: wished.made, now: about.kavka });
  run.addEventListener("change", () => {
    clearTimeout(main.timer);
    main.timer = setTimeout(() => history.replaceState(null, "", link(run.now, about)), 250);
  });
  document.body.dataset.ready = "true";
}

form.addEventListener("submit", event => {
  event.preventDefault();
  open(chosen(), [], 0);
});
form.elements.lag_policy.addEventListener("change", showPolicy);
addEventListener("hashchange", () => location.reload());
addEventListener("keydown", event => {
  if (event.target.closest("input, select, button, [role=button]") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === " ") { event.preventDefault(); board.toggle(); }
  if (event.key === "ArrowRight") { board.stop(); run.step(); }
  if (event.key === "ArrowLeft") { board.stop(); run.stepBack(); }
});
globalThis.kavka = { run, board };
main().catch(failure => { note.textContent = say("The cluster could not be started: {why}", { why: failure.message }); note.classList.add("bad"); });
