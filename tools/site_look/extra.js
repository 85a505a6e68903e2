// What the theme leaves without a name, or out of the keyboard's reach. It wraps tables itself, some time after loading.
const mend = () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  for (const each of document.querySelectorAll(".md-typeset__scrollwrap")) each.tabIndex = 0;
  for (const each of document.querySelectorAll("nav.md-code__nav")) each.role = "none"; // A button to copy: no place to go to.
};
mend();
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
