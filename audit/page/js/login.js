/* The login works without this. With it, the view that was asked for is shown afterwards, as only
   the browser knows what follows the # of an address; and whoever came by a link from elsewhere,
   which sends no cookie of ours, is let in by the one he has. */

const next = document.getElementById("next");
next.value += location.hash;

try {
  const response = await fetch("session");
  if (response.ok && (await response.json()).user) location.replace(`.${next.value}`);
} catch {
  // Nobody answers: the form will say so.
}
