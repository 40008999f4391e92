/* Where the reader is, as it stands in the address: `#/view?name=value`. Names from outside are
   values there, never parts of a path. */

/** The view and its parameters. */
export function here() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s, 2);
  return { view: path || "overview", params: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

/** The address of a view. What is null or empty is left out. */
export function link(view, params = {}) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.set(key, value);
  }
  const path = view === "overview" ? "" : view;
  return query.size ? `#/${path}?${query}` : `#/${path}`;
}

/** Goes there; with `instead`, without a step to come back to. */
export function go(view, params, { instead = false } = {}) {
  const target = link(view, params);
  if (target === location.hash) return;
  if (!instead) {
    location.hash = target;
    return;
  }
  history.replaceState(null, "", target);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}
