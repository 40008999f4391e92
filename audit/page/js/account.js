/* Who is logged in, in the head of the page; nothing where nobody has to. And whether he may say
   something: forms for that are shown to operators alone. (What others send is refused.) */

const PATIENCE = 5_000; // until then nothing else is asked for
let operator = false;
let shown = []; // patterns of the topics whose messages are shown to whoever looks

export function isOperator() {
  return operator;
}

/** Whether messages of a topic are shown. Of sets in a pattern the service alone is sure. */
export function showsMessages(topic) {
  return shown.some((pattern) => {
    if (pattern.includes("[")) return true;
    const escaped = pattern.replace(/[\\^$.|+(){}\]]/g, "\\$&");
    const wanted = escaped.replaceAll("*", ".*").replaceAll("?", ".");
    return !topic.startsWith("_") && new RegExp(`^${wanted}$`).test(topic);
  });
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
  shown = session.messages ?? [];
  if (!session.user) return;
  const account = document.getElementById("account");
  account.hidden = false;
  document.getElementById("account-name").textContent = session.user;
  document.getElementById("log-out").hidden = session.by !== "session";
}
