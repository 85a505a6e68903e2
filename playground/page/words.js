// What a page says, in its own language: in English as it stands in the code, or what zh.json has for it.

export const language = document.documentElement.lang;
const texts = language === "en" ? {} : await (await fetch(new URL(`./${language}.json`, import.meta.url))).json();

// `{name}` in the text stands for a value.
export const say = (text, values = {}) => (texts[text] ?? text).replace(/\{(\w+)\}/g, (_, name) => values[name]);
