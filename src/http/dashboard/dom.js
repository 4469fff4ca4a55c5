// Elements. What the gateway says is inserted as text and never as markup: there is no way to do
// the latter in this file, and the page's policy forbids it elsewhere.

const SVG = "http://www.w3.org/2000/svg";
const $ = (selector, within = document) => within.querySelector(selector);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null));
  return element;
}

/** An element with attributes and children; a child that is no element becomes text. */
const el = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);

const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

/** Shows a text in an element, or hides the element when there is none. */
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
  element.hidden = text === "";
}

/** A cell that also says, on a narrow screen, which column it is of. */
function cell(label, content, kind = "") {
  const inside = Array.isArray(content) ? content : [content];
  return el("td", { role: "cell", "data-label": label, class: kind || undefined }, el("div", {}, ...inside));
}

/** Text that may be missing. */
const shown = (text, without = "–") =>
  text === undefined || text === null || text === "" ? el("span", { class: "zero" }, without) : text;

/** A number that somebody has to look at unless it is 0. */
function count(number, kind = "") {
  const text = NUMBER.format(number);
  return number === 0 ? el("span", { class: "zero" }, text) : el("span", { class: kind && `word ${kind}` }, text);
}

/**
 * Makes the children of `parent` those of `rows`. A row that says the same stays the same element,
 * so that focus, selection and scrolling survive; one that changed hands its focus on.
 */
function update(parent, rows, keyOf, build) {
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  const children = rows.map((row) => {
    const [key, print] = [String(keyOf(row)), JSON.stringify(row)];
    const before = old.get(key);
    if (before && before.dataset.print === print) return before;
    const made = build(row);
    made.dataset.key = key;
    made.dataset.print = print;
    if (before && before.contains(document.activeElement)) keepFocus(parent, before, made);
    return made;
  });
  const same = children.length === parent.children.length
    && children.every((child, index) => child === parent.children[index]);
  if (!same) place(parent, children);
}

function place(parent, children) {
  const kept = new Set(children);
  for (const child of [...parent.children]) if (!kept.has(child)) child.remove();
  children.forEach((child, index) => {
    if (parent.children[index] !== child) parent.insertBefore(child, parent.children[index] ?? null);
  });
}

function keepFocus(parent, before, made) {
  const name = document.activeElement.dataset.focus;
  parent.replaceChild(made, before);
  const again = name && [...made.querySelectorAll("[data-focus]")].find((one) => one.dataset.focus === name);
  if (again) again.focus();
}
