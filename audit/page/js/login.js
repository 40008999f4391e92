/* The login works without this script. The script keeps the requested view, as only the browser
   knows what follows the # of a URL; and a user who followed a link from another site, which sends
   no cookie, gets in by the cookie of the session. */

const next = document.getElementById("next");
next.value += location.hash;

try {
  const response = await fetch("session");
  if (response.ok && (await response.json()).user) location.replace(`.${next.value}`);
} catch {
  // The form will report that the service does not respond.
}
