/* Who is logged in, in the head of the page; nothing where nobody has to. And whether he may say
   something: forms for that are shown to operators alone. (What others send is refused.) */

const PATIENCE = 5_000; // until then nothing else is asked for
let operator = false;

export function isOperator() {
  return operator;
}

/** Shows the name, and the way out for whoever came in by a password. */
export async function showAccount() {
  let session;
  try {
    session = await (await fetch("session", { signal: AbortSignal.timeout(PATIENCE) })).json();
  } catch {
    return; // the rest of the page says that nobody answers
  }
  operator = session.operator;
  if (!session.user) return;
  const account = document.getElementById("account");
  account.hidden = false;
  document.getElementById("account-name").textContent = session.user;
  document.getElementById("log-out").hidden = session.by !== "session";
}
