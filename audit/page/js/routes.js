/* The current view in the URL: `#/view?name=value`. Names from outside are values there, never parts
   of a path. */

/** The view and its parameters. */
export function here() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s, 2);
  return { view: path || "overview", params: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

/** The URL of a view. Null or empty parameters are left out. */
export function link(view, params = {}) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.set(key, value);
  }
  const path = view === "overview" ? "" : view;
  return query.size ? `#/${path}?${query}` : `#/${path}`;
}

/** Goes to a view; `instead` replaces the current entry of the browser's history. */
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
