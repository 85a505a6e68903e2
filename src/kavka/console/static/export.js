/* What a search finds as a file, told of as it comes: how far it is, a button that ends it, and no file that is not
   whole. The stream has lines of JSON; after one with "part" so many bytes of the file follow (pages/exports.py).
   Without scripts the links lead to the file itself. */
"use strict";
(() => {
  const box = document.getElementById("export"), links = document.querySelectorAll("#exports a[download]");
  if (!box || !window.ReadableStream) return;
  const bar = box.querySelector("progress"), state = box.querySelector("[role=status]");
  const cancel = box.querySelector("button"), rest = box.querySelector("a");
  const count = number => number.toLocaleString("en");
  let running = null;

  function size(bytes) {
    const units = ["B", "KiB", "MiB", "GiB"];
    let unit = 0;
    for (; bytes >= 1024 && unit < units.length - 1; unit++) bytes /= 1024;
    return unit ? `${bytes.toFixed(1)} ${units[unit]}` : `${bytes} B`;
  }

  function tell(text, values = {}) {
    state.textContent = text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
  }

  /* Lines and parts of the stream; ends without "end" where it was cut off. */
  async function* pieces(reader) {
    let held = new Uint8Array(0), isOver = false;
    const more = async () => {
      const { done, value } = await reader.read();
      if (done) return false;
      const both = new Uint8Array(held.length + value.length);
      both.set(held);
      both.set(value, held.length);
      held = both;
      return true;
    };
    while (!isOver) {
      let end;
      while ((end = held.indexOf(10)) < 0) if (!(await more())) return;
      const told = JSON.parse(new TextDecoder().decode(held.subarray(0, end)));
      held = held.slice(end + 1);
      if (told.part) {
        while (held.length < told.part) if (!(await more())) return;
        told.bytes = held.slice(0, told.part);
        held = held.slice(told.part);
      }
      isOver = "end" in told || "problem" in told;
      yield told;
    }
  }

  function save(parts, told) {
    const file = document.createElement("a");
    file.href = URL.createObjectURL(new Blob(parts, { type: told.type }));
    file.download = told.name;
    file.click();
    setTimeout(() => URL.revokeObjectURL(file.href), 60000);
  }

  async function run(address, own) {
    const answer = await fetch(address + (address.includes("?") ? "&" : "?") + "progress=1", { signal: own.signal, credentials: "same-origin" });
    if (!answer.ok) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      return tell(`${box.dataset.failed} ${page.querySelector("main .problem")?.textContent.trim() ?? answer.status}`);
    }
    const parts = [];
    let here = 0, found = 0;
    for await (const told of pieces(answer.body.getReader())) {
      if ("part" in told) {
        parts.push(told.bytes);
        here += told.part;
        tell(box.dataset.making, { found: count(found), bytes: size(here) });
      } else if ("records" in told && !("end" in told)) {
        found = told.found;
        bar.value = told.records;
        const values = { records: count(told.records), found: count(found) };
        if ("bytes" in told) tell(box.dataset.looking, { ...values, bytes: size(told.bytes) });
        else tell(box.dataset.lookingMasked, values);
      } else if ("problem" in told) {
        return tell(`${box.dataset.failed} ${told.problem}`);
      } else if (told.end === here) {
        save(parts, told);
        tell(box.dataset.saved + (told.rest ? ` ${box.dataset.rest}` : ""), { name: told.name, records: count(told.records), bytes: size(here) });
        if (told.rest) {
          const next = new URL(address, location.href);
          next.searchParams.set("resume", told.rest);
          rest.href = next.pathname + next.search;
          rest.hidden = false;
        }
        return;
      }
    }
    tell(`${box.dataset.failed} ${box.dataset.lost}`);
  }

  async function begin(event) {
    event.preventDefault();
    running?.abort();
    const own = (running = new AbortController()), address = event.currentTarget.getAttribute("href");
    bar.removeAttribute("value"); // nothing is known yet
    bar.hidden = cancel.hidden = box.hidden = false;
    rest.hidden = true;
    tell("");
    try {
      await run(address, own);
    } catch {
      if (own === running) tell(own.signal.aborted ? box.dataset.cancelled : `${box.dataset.failed} ${box.dataset.lost}`);
    }
    if (own === running) {
      running = null;
      bar.hidden = cancel.hidden = true;
    }
  }

  for (const link of [...links, rest]) link.addEventListener("click", begin);
  cancel.addEventListener("click", () => running?.abort());
})();
