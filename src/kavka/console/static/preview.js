/* Shows below a form what it would do, while it is filled in: the same preview that its button leads to, with the button
   that confirms it. What is shown goes away with the next thing typed, so that nobody confirms what was there before.
   Without scripts the button leads to a page of its own. */
"use strict";
(() => {
  const AFTER_MS = 500;
  const MOST_TYPED = 64 * 1024; // more is sent when the button is pressed, not with each word
  const form = document.querySelector("form[data-shown-at-once]");
  if (!form) return;
  const shown = document.getElementById("shown"), state = document.getElementById("shown-state");
  const notYet = document.getElementById("not-yet"); // says that the next page shows it
  let timer = 0, asking = null;

  const typed = () => [...form.elements].filter(each => each.matches("input:not([type=hidden]):not([type=checkbox]), textarea"));

  function clear() {
    clearTimeout(timer);
    asking?.abort();
    asking = null;
    shown.replaceChildren();
    state.textContent = "";
    notYet.hidden = false;
  }

  async function show() {
    const body = new URLSearchParams(new FormData(form));
    if (!form.checkValidity() || body.toString().length > MOST_TYPED) return;
    const own = (asking = new AbortController());
    try {
      const answer = await fetch(form.getAttribute("action"), { method: "POST", body, signal: own.signal, credentials: "same-origin" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (own !== asking) return;
      const preview = answer.status === 200 && page.getElementById("preview");
      const problem = answer.status === 400 && page.querySelector("main .problem");
      if (!preview && !problem) return; // the button shows what is wrong
      const part = document.importNode(preview || problem, true);
      part.removeAttribute("id");
      part.querySelectorAll("script, button[value=back]").forEach(each => each.remove());
      shown.replaceChildren(part);
      state.textContent = preview ? form.dataset.shownAtOnce : part.textContent.trim();
      state.classList.toggle("hidden", !preview);
      notYet.hidden = Boolean(preview);
    } catch {
      // Cut off by the next word, or the console does not answer: the button says so.
    }
  }

  form.addEventListener("input", event => {
    const [name, value] = event.target.dataset?.chooses?.split("=") ?? [];
    const other = name && form.elements[name];
    // A shift stays one: both are numbers.
    if (other && event.target.value && !(value === "offset" && other.value === "shift")) other.value = value;
    clear();
    timer = setTimeout(show, AFTER_MS);
  });
  form.addEventListener("submit", clear);
  if (typed().every(each => each.value)) show();
})();
