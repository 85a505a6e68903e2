/* A box in a table's heading that chooses all of its rows, or none. Without scripts there is none, and each row has its
   own. */
"use strict";
(() => {
  for (const table of document.querySelectorAll("table[data-boxes]")) {
    const boxes = [...table.querySelectorAll(`tbody input[name="${table.dataset.boxes}"]`)];
    const holder = document.createElement("label"), all = document.createElement("input"), name = document.createElement("span");
    holder.className = "box";
    all.type = "checkbox";
    name.className = "hidden";
    name.textContent = table.dataset.all;
    holder.append(all, name);
    table.querySelector("thead th").replaceChildren(holder);
    const show = () => {
      const chosen = boxes.filter(each => each.checked).length;
      all.checked = chosen === boxes.length && chosen > 0;
      all.indeterminate = chosen > 0 && chosen < boxes.length;
    };
    all.addEventListener("change", () => {
      boxes.forEach(each => { each.checked = all.checked; });
      show();
    });
    table.addEventListener("change", show);
    show();
  }
})();
