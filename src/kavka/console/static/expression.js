/* Names of fields for an expression: while a name is being typed, those that go on so are offered as buttons, which put
   them in its place. Without scripts the field is a plain one. */
"use strict";
(() => {
  const field = document.querySelector("input[name=expression]"), list = document.getElementById("names");
  if (!field || !list) return;
  const MOST = 12;
  const names = [...JSON.parse(field.dataset.names || "[]"), "partition", "offset", "size", "time", "headers"];
  const word = () => {
    const before = field.value.slice(0, field.selectionStart);
    return /[A-Za-z_][\w.\[\]"-]*$/.exec(before)?.[0] ?? "";
  };
  const take = name => {
    const end = field.selectionStart, start = end - word().length;
    field.setRangeText(name, start, end, "end");
    field.focus();
    show();
  };
  const show = () => {
    const typed = word().toLowerCase();
    const found = names.filter(name => name.toLowerCase() !== typed && (name.toLowerCase().startsWith(typed) || (typed && name.toLowerCase().includes("." + typed))));
    list.replaceChildren(...found.slice(0, MOST).map(name => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.addEventListener("click", () => take(name));
      return button;
    }));
    list.hidden = found.length === 0;
  };
  field.addEventListener("input", show);
  field.addEventListener("focus", show);
})();
