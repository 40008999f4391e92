/* Makes elements; no other module does. Text becomes text nodes, whatever it contains: HTML is never
   parsed from a string. The page's policy forbids inline styles: `vars` set custom properties. */

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. Attributes: `on…` are listeners, `vars` custom properties, null is left out. */
export function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function svg(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "vars") setVars(element, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...nodes(children));
  return element;
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false && child !== "")
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}

/** Custom properties of an element, which its style sheet refers to. */
export function setVars(element, vars) {
  for (const [name, value] of Object.entries(vars)) element.style.setProperty(`--${name}`, value);
}

function arrange(element, wanted) {
  let at = element.firstChild;
  for (const child of wanted) {
    if (child === at) at = at.nextSibling;
    else element.insertBefore(child, at);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

/** Replaces an element's children. The focus stays on the child with the same `data-focus`; children
    that keep their place are not touched. */
export function replace(element, ...children) {
  const focused = element.contains(document.activeElement)
    ? document.activeElement.dataset.focus
    : undefined;
  const open = new Set(
    [...element.querySelectorAll("details[open][data-focus]")].map((details) => details.dataset.focus),
  );
  arrange(element, nodes(children));
  for (const details of element.querySelectorAll("details[data-focus]")) {
    if (open.has(details.dataset.focus)) details.open = true;
  }
  if (focused === undefined) return;
  for (const child of element.querySelectorAll("[data-focus]")) {
    if (child.dataset.focus === focused) {
      child.focus({ preventScroll: true });
      return;
    }
  }
}
