// What the theme leaves without a name, or out of the keyboard's reach. It wraps tables itself, some time after loading.
const mend = () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  for (const each of document.querySelectorAll(".md-typeset__scrollwrap")) each.tabIndex = 0;
};
mend();
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
