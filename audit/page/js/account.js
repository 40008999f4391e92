/* Who is logged in, in the head of the page; nothing where nobody has to. */

/** Shows the name, and the way out for whoever came in by a password. */
export async function showAccount() {
  let session;
  try {
    session = await (await fetch("session")).json();
  } catch {
    return; // the rest of the page says that nobody answers
  }
  if (!session.user) return;
  const account = document.getElementById("account");
  account.hidden = false;
  document.getElementById("account-name").textContent = session.user;
  document.getElementById("log-out").hidden = session.by !== "session";
}
